from __future__ import annotations

import hashlib
import os
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.core.classify import Reply, classify
from gateway.core.effect import Outcome
from gateway.core.errors import PolicyError
from gateway.core.fence import Authority, Callers, OnDuplicate
from gateway.core.policy import Connections, Does, Facts, Guard, Is, Limits, Mode
from gateway.core.template import RequestValues
from gateway.wire.policy_file import load_policies
from tests.wire.policy_folder import FULL, HEAD, TODAY, good, load, said

SHIPPED = Path(__file__).parents[2] / "policies"
READS = 'routes:\n  - {match: "GET /{rest*}", does: read}\n'


def test_the_shipped_policies_load_without_a_complaint():
    loaded = load_policies(SHIPPED, env={}, today=TODAY)

    assert loaded.complaints == ()
    assert loaded.policies is not None
    assert set(loaded.policies.destinations) == {"crm"}
    assert set(loaded.policies.functions) == {
        "relatorio-comercial-diario",
        "varredura-de-oportunidades",
        "envio-de-propostas",
    }


def test_the_smallest_destination_loads_with_warnings_only(tmp_path):
    text = (
        "destination: crm\nbase_url: http://127.0.0.1:9100\nroutes:\n"
        '  - {match: "GET|HEAD /{rest*}", does: read}\n'
        '  - {match: "POST|PUT|PATCH|DELETE /{rest*}", does: write}\n'
    )

    loaded = load(tmp_path, crm=text)

    assert loaded.policies is not None
    assert [message.partition(";")[0] for message in said(loaded)] == [
        "1:14 warning checked is missing",
        "5:53 warning this write has no covers, so it covers destination and path",
        "5:53 warning this write has no guard, so an unknown outcome waits for a person",
    ]


def test_what_is_left_out_takes_the_defaults_of_the_contract(tmp_path):
    text = HEAD + 'routes:\n  - {match: "POST /{rest*}", does: write}\n'

    crm = good(tmp_path, text)

    assert (crm.scheme, crm.host, crm.port, crm.prefix) == ("https", "crm.example.com", 443, "")
    assert crm.limits == Limits(64, 30_000, 10_000, 5_000, 64 * 1024 * 1024, 10_000, 20)
    assert (crm.mode, crm.boundary, crm.connections) == (
        Mode.ENFORCE,
        "enforced",
        Connections.REUSE,
    )
    assert (crm.login, crm.functions, crm.slow_down) == (None, None, ())
    route = crm.routes[0]
    assert (route.name, route.guard, route.covers) == ("POST /{rest*}", Guard.NONE, None)
    assert (route.key, route.on_duplicate, route.line) == (None, OnDuplicate.REPLAY, 5)


def test_every_word_arrives_where_the_house_looks_for_it(tmp_path):
    function = "function: sweep\nauthority: external\nleadership: unit\nmax_term_jump: 9\n"
    function += "callers: any\nunits: free\nexceptions: {owner: ops, deadline: 4h}\n"

    loaded = load(tmp_path, {"SUBDOMAIN": "acme", "CRM_TOKEN": "t0p"}, crm=FULL, sweep=function)

    assert loaded.complaints == ()
    crm = loaded.policies.destinations["crm"]
    assert crm.base_url == "https://acme.crm.example.com:8443/api/v2"
    assert (crm.boundary, crm.mode, crm.connections) == ("partial", "observe", "fresh")
    assert crm.limits == Limits(8, 20_000, 2_000, 500, 256 * 1024, 0, 3)
    assert (crm.functions, crm.setup) == (frozenset({"sweep"}), ("Create the field external_id.",))
    assert crm.login.header.value == "Bearer t0p"
    slow = crm.slow_down[0]
    assert (slow.wait_header, slow.wait_as, slow.wait_else_ms) == ("x-reset", "unix_ms", 2_000)
    route = crm.routes[0]
    assert (route.does, route.guard, route.on_duplicate) == (Does.WRITE, Guard.NATIVE_KEY, "reject")
    assert (route.limits.timeout_ms, route.limits.at_once) == (5_000, 8)
    assert [path.text for path in route.ignore_in_fingerprint] == ["sent_at"]
    assert [rule.means for rule in route.results] == [
        Is.CONFIRMED,
        Is.LOOK,
        Is.NO_EFFECT,
        Is.UNKNOWN,
    ]
    assert (route.results[3].alarm, route.results[3].never_retry) == (True, True)
    assert (route.look.reads, route.look.settle_ms, route.look.each.text) == (
        "index",
        120_000,
        "items",
    )
    assert (route.look.method, route.look.if_still_missing) == ("GET", "park")
    sweep = loaded.policies.functions["sweep"]
    assert (sweep.rules.authority, sweep.rules.callers) == (Authority.EXTERNAL, Callers.ANY)
    assert (sweep.rules.max_term_jump, sweep.per_unit) == (9, True)
    assert (sweep.exceptions_owner, sweep.exceptions_deadline_ms) == ("ops", 14_400_000)


def test_loaded_rules_classify_answers(tmp_path):
    function = "function: sweep\nauthority: external\n"
    loaded = load(tmp_path, {"SUBDOMAIN": "a", "CRM_TOKEN": "t"}, crm=FULL, sweep=function)
    crm = loaded.policies.destinations["crm"]
    values = RequestValues({"kind": "notes"}, body={"email": "a@b"}, effect="m")

    def outcome(status: int, body: object) -> Outcome:
        return classify(Reply(status, {}, lambda: body), crm.routes[0], crm, values).outcome

    assert outcome(201, {"data": {"id": 1}}) is Outcome.CONFIRMED
    assert outcome(503, {"errors": [{"code": "RATE"}]}) is Outcome.NO_EFFECT
    assert outcome(503, {"errors": [{"code": "7"}]}) is Outcome.UNKNOWN
    assert outcome(500, {"code": "dup_key"}) is Outcome.NO_EFFECT
    assert outcome(200, {"ok": 0}) is Outcome.UNKNOWN
    assert outcome(422, {}) is Outcome.UNKNOWN  # the key is known from another request
    assert outcome(412, {}) is Outcome.REJECTED


def test_a_request_test_reads_header_and_body(tmp_path):
    function = "function: sweep\nauthority: external\n"
    loaded = load(tmp_path, {"SUBDOMAIN": "a", "CRM_TOKEN": "t"}, crm=FULL, sweep=function)
    when = loaded.policies.destinations["crm"].routes[0].when
    values = RequestValues({})

    assert when.holds(Facts(None, {"x-api": ["2"]}, {"type": "a"}), values)
    assert not when.holds(Facts(None, {"x-api": ["3"]}, {"type": "a"}), values)
    assert not when.holds(Facts(None, {"x-api": ["2"]}, {}), values)


def test_every_defect_of_every_file_is_found_at_once(tmp_path):
    crm = (
        "destination: crm\nbase_url: http://crm.example.com\nchecked: 2026-13-01\n"
        "limts: {timeout: 3s}\nmode: strict\nroutes:\n"
        "  - {match: get /a, does: raed}\n"
        '  - match: POST /b\n    does: write\n    guard: none\n    covers: "{x}"\n'
        '    key: "{y}"\n    result:\n      - {when: {status: 99}, is: fine}\n'
    )
    function = "function: s p\nauthority: external\nunits: required\n"

    loaded = load(tmp_path, crm=crm, sweep=function)

    assert loaded.policies is None
    assert [(Path(one.file).stem, one.line, one.column) for one in loaded.complaints] == [
        ("crm", 2, 11),
        ("crm", 3, 10),
        ("crm", 4, 1),
        ("crm", 5, 7),
        ("crm", 7, 13),
        ("crm", 7, 27),
        ("crm", 11, 13),
        ("crm", 12, 10),
        ("crm", 14, 25),
        ("crm", 14, 34),
        ("sweep", 1, 11),
        ("sweep", 3, 8),
    ]


def test_a_word_that_is_not_built_brings_no_second_complaint(tmp_path):
    text = HEAD + (
        'login: {kind: oauth2_refresh, refresh_token: "${env:R}", client_id: "${env:C}"}\n'
        "routes:\n"
        "  - {match: POST /graphql, graphql: {operation: query}, does: read}\n"
        '  - {match: POST /graphql, does: refuse, because: "not in this policy"}\n'
    )

    loaded = load(tmp_path, crm=text)

    assert [message.partition(" is not available")[0] for message in said(loaded)] == [
        "4:15 error login of kind oauth2_refresh",
        "6:28 error graphql",
    ]


def test_a_name_that_two_files_claim_is_an_error_in_the_second(tmp_path):
    loaded = load(tmp_path, a=HEAD + READS, b=HEAD + READS)

    assert loaded.policies is None
    assert Path(loaded.complaints[0].file).name == "b.yaml"
    assert "'crm' is described in a.yaml already" in loaded.complaints[0].message


def test_a_function_without_a_file_is_a_warning_with_a_suggestion(tmp_path):
    function = "function: sweep\nauthority: external\n"

    loaded = load(tmp_path, crm=HEAD + "functions: [swep]\n" + READS, sweep=function)

    assert said(loaded) == ["4:12 warning functions: 'swep' has no file; did you mean sweep?"]


def test_other_files_and_hidden_ones_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("a: [")
    (tmp_path / ".hidden.yaml").write_text("a: [")
    (tmp_path / "b.yml").write_text(HEAD + READS)

    loaded = load(tmp_path)

    assert loaded.files == ("b.yml",)
    assert loaded.policies is not None


def test_a_folder_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policies(tmp_path / "nowhere", env={})


def test_an_empty_folder_is_a_warning(tmp_path):
    loaded = load(tmp_path)

    assert loaded.policies is not None
    assert "no *.yaml" in loaded.complaints[0].message


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"a: \x00", b"\xef\xbb\xbfa: 1", b"[[" * 5000])
def test_bytes_that_are_no_policy_get_one_complaint(tmp_path, raw):
    (tmp_path / "crm.yaml").write_bytes(raw)

    loaded = load(tmp_path)

    assert [one.severity for one in loaded.complaints] == ["error"]


def test_facts_that_were_checked_long_ago_are_warned_about(tmp_path):
    crm = HEAD + READS
    (tmp_path / "crm.yaml").write_text(crm)

    fresh = load_policies(tmp_path, env={}, today=date(2027, 4, 30))
    stale = load_policies(tmp_path, env={}, today=date(2027, 5, 1))
    early = load_policies(tmp_path, env={}, today=date(2026, 10, 31))

    assert fresh.complaints == ()
    assert "more than 180 days ago" in stale.complaints[0].message
    assert stale.policies is not None
    assert "yet to come" in early.complaints[0].message


def test_digests_are_of_the_files_and_never_of_their_secrets(tmp_path):
    text = HEAD + 'login: {kind: bearer, token: "${env:T}"}\n' + READS

    one = load(tmp_path, {"T": "first"}, crm=text).policies
    two = load(tmp_path, {"T": "second"}, crm=text).policies
    three = load(tmp_path, {"T": "second"}, crm=text + "# a remark\n").policies

    assert one.digest == two.digest != three.digest
    assert one.destinations["crm"].digest == hashlib.sha256(text.encode()).hexdigest()
    assert two.destinations["crm"].login.header.value == "Bearer second"


@pytest.mark.parametrize("seed", range(3))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_mangled_file_gets_complaints_and_never_a_crash(tmp_path, seed, data):
    lines = (FULL if seed else (SHIPPED / "crm.yaml").read_text()).splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    cut = data.draw(st.integers(0, len(lines[at])))
    junk = data.draw(st.text("{}[]:,&*!|>%@#'\"\\$ \t-0no~abc\n", max_size=6))
    lines[at] = lines[at][:cut] + junk + lines[at][cut + seed :]

    loaded = load(tmp_path, dict(os.environ), crm="\n".join(lines))

    assert (loaded.policies is None) == bool(loaded.errors)
    assert all(one.line >= 1 and one.column >= 1 and one.message for one in loaded.complaints)
