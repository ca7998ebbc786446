from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli import policy
from gateway.clock import ManualClock

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "policies"
BROKEN = ROOT / "tests" / "wire" / "broken"
SECRET = 'login: {kind: header, name: X-Key, value: "${env:CRM_KEY}"}\n'


@pytest.fixture(autouse=True)
def checked_today(monkeypatch):
    """The shipped facts grow old with the calendar; the tests do not."""
    monkeypatch.setattr(policy, "SystemClock", lambda: ManualClock(1_796_083_200_000))


def run(*words: object):
    return CliRunner().invoke(policy.app, [str(word) for word in words])


def with_login(folder: Path) -> Path:
    shutil.copytree(SHIPPED, folder, dirs_exist_ok=True)
    crm = folder / "crm.yaml"
    crm.write_text(crm.read_text() + SECRET)
    return folder


def test_the_shipped_policies_pass_the_strict_check():
    done = run("check", SHIPPED, "--strict")

    assert done.output == "0 errors, 0 warnings in 4 files\n"
    assert done.exit_code == 0


def test_check_prints_each_complaint_and_a_summary(tmp_path):
    shutil.copy(BROKEN / "02-unknown-word.yaml", tmp_path)
    shutil.copy(BROKEN / "12-bad-duration.yaml", tmp_path)

    done = run("check", tmp_path)

    lines = done.output.splitlines()
    assert lines[0].startswith(f"{tmp_path}/02-unknown-word.yaml:7:5: error: ")
    assert lines[1].startswith(f"{tmp_path}/12-bad-duration.yaml:4:19: error: ")
    assert lines[2] == "2 errors, 0 warnings in 2 files"
    assert done.exit_code == 1


def test_warnings_fail_only_the_strict_check(tmp_path):
    text = "destination: crm\nbase_url: https://crm.example.com\n"
    (tmp_path / "crm.yaml").write_text(text + 'routes: [{match: "GET /a", does: read}]\n')

    assert run("check", tmp_path).exit_code == 0
    assert run("check", tmp_path, "--strict").exit_code == 1
    assert "0 errors, 1 warning in 1 file" in run("check", tmp_path).output


def test_check_answers_in_json(tmp_path):
    shutil.copy(BROKEN / "02-unknown-word.yaml", tmp_path)

    done = run("check", tmp_path, "--json")

    told = json.loads(done.output)
    assert (told["ok"], told["files"], told["errors"], told["warnings"]) == (False, 1, 1, 0)
    assert (told["complaints"][0]["line"], told["complaints"][0]["column"]) == (7, 5)


def test_a_folder_that_cannot_be_read_is_exit_code_2(tmp_path):
    done = run("check", tmp_path / "nowhere")

    assert "cannot be read" in done.stderr
    assert done.exit_code == 2


def test_check_looks_secrets_up_only_when_asked(tmp_path, monkeypatch):
    folder = with_login(tmp_path)
    monkeypatch.delenv("CRM_KEY", raising=False)

    assert run("check", folder).exit_code == 0
    assert "variable CRM_KEY is not set" in run("check", folder, "--secrets").output
    monkeypatch.setenv("CRM_KEY", "s3cr3t")
    assert run("check", folder, "--secrets").exit_code == 0


def test_show_tells_what_each_route_guarantees_and_never_a_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("CRM_KEY", "s3cr3t")

    done = run("show", with_login(tmp_path))

    assert done.exit_code == 0
    assert "destination crm  http://127.0.0.1:9100" in done.output
    assert "BOUNDARY PARTIAL" in done.output
    assert "login header in X-Key" in done.output
    assert "guard repeat: best effort: sent again under a live term" in done.output
    assert "guard none: at most once, then a person" in done.output
    assert "refused: these are the sandbox's controls" in done.output
    assert "function varredura-de-oportunidades" in done.output
    assert "s3cr3t" not in done.output
    assert "CRM_KEY" not in done.output
    assert max(len(line) for line in done.output.splitlines()) <= 100


def test_show_tells_one_destination_in_json(tmp_path):
    done = run("show", with_login(tmp_path), "--destination", "crm", "--json")

    told = json.loads(done.output)
    assert told["functions"] == []
    crm = told["destinations"][0]
    assert (crm["destination"], crm["boundary"], crm["mode"]) == ("crm", "partial", "enforce")
    assert crm["login"] == {"kind": "header", "header": "X-Key"}
    assert crm["routes"][4] == {
        "name": "create a record",
        "line": 32,
        "match": "POST /{kind:contacts|notes|opportunities}",
        "does": "write",
        "key": "header",
        "covers": "{kind}/new/{effect}",
        "guard": "none",
        "guarantee": "at most once, then a person",
        "guarantee_holds": "",
        "on_duplicate": "replay",
    }


SENT = """\
destination: crm
base_url: https://crm.example.com
checked: 2026-11-01
routes:
  - match: POST /a/{id}
    does: write
    guard: native_key
    covers: "a/{id}"
    stamp: {ref: "{effect}", term: "{term}"}
    send_as: {request: "PUT /b/{id}", query: {by: ref}, header: {Prefer: merge}, drop: [id]}
    native_key: {header: Key, value: "{effect}", window: 24h, at_once: 1,
                 busy_when: {status: 409}, misuse_when: {status: 422}}
    version: {send: If-Match, exact: true, lost_when: {status: 412}}
    look:
      request: GET /a?ref={effect}
      settle: 5s
      each: items
      found: {status: 200, same: {ref: "{effect}"}}
      missing: {status: 200}
"""


def test_show_says_what_is_put_into_what_is_sent(tmp_path):
    (tmp_path / "crm.yaml").write_text(SENT)

    done = run("show", tmp_path)

    told = [line.strip() for line in done.output.splitlines()]
    for line in [
        "sent as PUT /b/{id}",
        "sent with query by = ref",
        "sent with header Prefer = merge",
        "sent without id",
        "stamped in the JSON body: ref = {effect}, term = {term}",
        "native key in header Key = {effect}, kept for 1d, one at a time",
        "still running if status 409",
        "another request under the key if status 422",
        "under the condition If-Match (the worker's), exact; lost if status 412",
    ]:
        assert line in told
    assert "guard native_key: good: sent again with the same key and bytes for 80% of the 1d" in (
        done.output
    )
    assert "look: GET /a?ref={effect} (the record), each of items, there if" in done.output


def test_show_tells_what_is_sent_in_json(tmp_path):
    (tmp_path / "crm.yaml").write_text(SENT)

    done = run("show", tmp_path, "--json")

    route = json.loads(done.output)["destinations"][0]["routes"][0]
    assert route["guarantee"] == "good"
    assert route["guarantee_holds"].startswith("sent again with the same key")
    assert route["stamp"] == {"ref": "{effect}", "term": "{term}"}
    assert route["native_key"]["place"] == "header Key"
    assert route["send_as"]["request"] == "PUT /b/{id}"
    assert route["version"] == {
        "send": "If-Match",
        "send_query": {},
        "from": "worker",
        "exact": True,
    }


def test_explain_says_what_the_key_and_the_condition_make_of_an_answer(tmp_path):
    (tmp_path / "crm.yaml").write_text(SENT)

    done = run("explain", "POST", "/a/1", "--folder", tmp_path)

    assert "sent as PUT /b/{id}" in done.output
    assert "status 422: unknown (key misused), raises an alarm" in done.output
    assert "status 409: unknown (still running)" in done.output
    assert "status 412: rejected (condition lost)" in done.output


LEASED = (
    "function: sweep\nauthority: lease\nleadership: unit\nlease: {ttl: 30s, renew_every: 6s}\n"
    'eligible: {versions: ">=2026.10", regions: [us, br], preferred: w-a, '
    "cool_off: {losses: 3, within: 10m, lasts: 5m}}\n"
)


def with_lease(folder: Path) -> Path:
    shutil.copytree(SHIPPED, folder, dirs_exist_ok=True)
    (folder / "sweep.yaml").write_text(LEASED)
    return folder


def test_show_says_how_a_leader_is_made_and_how_it_ends(tmp_path):
    done = run("show", with_lease(tmp_path))

    told = done.output.partition("function sweep\n")[2].partition("\n\n")[0].splitlines()
    assert [line.strip() for line in told[2:]] == [
        "authority lease  one leader per unit  callers leader",
        "terms come from the gateway: a lease of 30s, renewed every 6s",
        "a leader that cannot renew stops 4500ms before its lease expires; "
        "another leads only after that",
        "a better candidate is waited for 6s; one that is silent for 16500ms counts as gone",
        "eligible is whoever is ready, with a version >=2026.10, in region br or us",
        "of several: w-a before all others, then the higher priority, then the oldest version, "
        "then the",
        "name",
        "a worker under which 3 leases expired within 10m ranks last for 5m",
        "only the leader may act under its term",
        "exceptions go to nobody named",
    ]
    assert "terms come from an authority outside" in done.output
    assert max(len(line) for line in done.output.splitlines()) <= 100


def test_show_tells_the_lease_and_the_eligible_in_json(tmp_path):
    done = run("show", with_lease(tmp_path), "--json")

    facts = {one["function"]: one for one in json.loads(done.output)["functions"]}
    assert facts["sweep"]["lease"] == {
        "ttl_ms": 30_000,
        "renew_every_ms": 6_000,
        "margin_ms": 4_500,
        "prefer_for_ms": 6_000,
        "fresh_for_ms": 16_500,
    }
    assert facts["sweep"]["eligible"] == {
        "versions": ">=2026.10",
        "regions": ["br", "us"],
        "preferred": "w-a",
        "upgrades": "oldest-first",
        "cool_off": {"losses": 3, "within_ms": 600_000, "lasts_ms": 300_000},
    }
    outside = facts["varredura-de-oportunidades"]
    assert (outside["lease"], outside["eligible"]) == (None, None)


def test_show_of_a_stranger_names_those_that_are_known():
    done = run("show", SHIPPED, "--destination", "crn")

    assert "'crn'" in done.stderr
    assert "known are: crm" in done.stderr
    assert done.exit_code == 1


def test_show_of_broken_policies_prints_the_complaints():
    done = run("show", BROKEN)

    count = len(list(BROKEN.glob("*.yaml")))
    assert f"{count} errors, 0 warnings in {count} files" in done.stderr
    assert done.exit_code == 1


def explain(*words: object):
    return run("explain", *words, "--folder", SHIPPED)


def test_explain_says_which_route_matches_and_why_earlier_ones_do_not():
    done = explain("POST", "/d/crm/notes", "--header", "Idempotency-Key: n-1")

    assert done.exit_code == 0
    assert "not route 1, the sandbox's own controls: the path is not /_sandbox/" in done.output
    assert "not route 3, list records: it is for GET|HEAD" in done.output
    assert "route 5: create a record (crm.yaml:32)" in done.output
    assert "key 'n-1' (from the Idempotency-Key header)" in done.output
    assert "covers notes/new/(mark) (from {kind}/new/{effect})" in done.output
    assert "status 201 and json id is there: confirmed, keeps id" in done.output
    assert max(len(line) for line in done.output.splitlines()) <= 100


def test_explain_makes_the_mark_when_it_knows_the_function():
    words = ["--header", "Idempotency-Key: n-1", "--header", "Fence-Function: sweep"]

    done = explain("post", "/notes", *words)

    assert "(mark)" not in done.output
    assert "covers notes/new/" in done.output


def test_explain_says_how_the_function_gets_its_terms(tmp_path):
    words = ["explain", "POST", "/d/crm/notes", "--folder", with_lease(tmp_path), "--header"]

    leased = run(*words, "Fence-Function: sweep")
    outside = run(*words, "Fence-Function: relatorio-comercial-diario")
    stranger = run(*words, "Fence-Function: swep")

    assert "needs Fence-Function, Fence-Unit, Fence-Term, Fence-Holder and a key" in leased.output
    assert "function sweep, one leader per unit:" in leased.output
    assert "terms come from the gateway: a lease of 30s, renewed every 6s" in leased.output
    assert "terms come from an authority outside" in outside.output
    assert "'swep' has no file (403 function-unknown)" in stranger.output
    assert [one.exit_code for one in (leased, outside, stranger)] == [0, 0, 1]


def test_explain_says_that_a_function_may_not_use_a_destination(tmp_path):
    crm = with_lease(tmp_path) / "crm.yaml"
    crm.write_text(crm.read_text() + "functions: [varredura-de-oportunidades]\n")
    words = ["explain", "POST", "/d/crm/notes", "--folder", tmp_path, "--header"]

    done = run(*words, "Fence-Function: sweep")

    assert "function 'sweep' may not use crm (403 forbidden)" in done.output
    assert done.exit_code == 1


def test_explain_of_a_key_that_is_missing_says_so():
    done = explain("DELETE", "/contacts/c-1", "--destination", "crm")

    assert "428 fence-missing" in done.output
    assert "covers contacts/c-1 (from {kind}/{id})" in done.output
    assert "status 404: confirmed-if-tried-before" in done.output


def test_explain_of_a_read_and_of_refusals():
    read = explain("GET", "/d/crm/notes?external_id=1")
    refused = explain("GET", "/d/crm/_sandbox/journal")
    unknown = explain("PUT", "/d/crm/elsewhere")

    assert "read: forwarded, not fenced" in read.output
    assert read.exit_code == 0
    assert "refused (403 route-refused): these are the sandbox's controls" in refused.output
    assert refused.exit_code == 1
    assert "No route matches" in unknown.output
    assert unknown.exit_code == 1


def test_explain_renders_the_key_from_the_body(tmp_path):
    text = (
        "destination: crm\nbase_url: https://crm.example.com\nroutes:\n"
        "  - match: POST /a\n    when: {json: {kind: x}}\n    does: write\n"
        '    key: "{unit}/{body.email}"\n'
        '  - {match: "POST /a", does: refuse, because: "only kind x"}\n'
    )
    (tmp_path / "crm.yaml").write_text(text)
    (tmp_path / "x.json").write_text('{"kind": "x", "email": "a@b"}')
    (tmp_path / "y.json").write_text('{"kind": "y"}')
    words = ["explain", "POST", "/a", "--folder", tmp_path, "--header", "Fence-Unit: u1", "--body"]

    x = run(*words, tmp_path / "x.json")
    y = run(*words, tmp_path / "y.json")

    assert "key 'u1/a@b' (from {unit}/{body.email})" in x.output
    assert "covers crm /a (destination and path)" in x.output
    assert 'it is for requests with json kind is "x"' in y.output
    assert "refused (403 route-refused): only kind x" in y.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["GET", "/d/crn/a"], "'crn'"),
        (["GET", "contacts"], "does not begin with /"),
        (["GET", "/a", "--header", "nonsense"], "'Name: value'"),
        (["GET", "/a", "--body", "nowhere.json"], "'nowhere.json'"),
    ],
)
def test_explain_of_a_question_that_cannot_be_asked_is_exit_code_2(words, said):
    done = explain(*words)

    assert said in done.stderr
    assert done.exit_code == 2


def test_schema_prints_the_json_schema():
    done = run("schema")

    assert json.loads(done.output)["title"] == "Fencegate policy file"
    assert done.exit_code == 0
