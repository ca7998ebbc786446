"""Each broken file has one defect, and gets one message: where it stands, and a way out."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from gateway.wire.policy_file import load_policies

BROKEN = Path(__file__).parent / "broken"
TODAY = date(2026, 11, 30)

TABLE = {
    # file: (line, column, words of the message)
    "01-duplicate-key": (5, 1, ["'mode'", "twice", "line 4", "remove one"]),
    "02-unknown-word": (7, 5, ["'nmae'", "did you mean name?"]),
    "03-bad-template": (8, 13, ["covers", "{efect}", "known are effect"]),
    "04-shadowed-route": (9, 12, ["'one contact'", "never match", "'everything'", "line 5"]),
    "05-secret-outside-login": (5, 5, ["setup", "${env:CRM_TOKEN}", "login"]),
    "06-http-to-elsewhere": (2, 11, ["http", "'crm.example.com'", "https://"]),
    "07-guard-without-its-parts": (7, 12, ["look_first", "needs look", "use none"]),
    "08-yaml-1.1-surprise": (9, 25, ["repeat_is_harmless", "no", "write true, false or 'no'"]),
    "09-look-without-settle": (10, 7, ["look", "settle is missing", "add it"]),
    "10-confirmed-for-5xx": (11, 35, ["confirmed", "502", "note:"]),
    "11-slow-down-on-a-bare-5xx": (5, 20, ["slow_down", "bare 503", "json code"]),
    "12-bad-duration": (4, 19, ["timeout", "'30 seconds'", "write 500ms"]),
    "13-refuse-without-because": (7, 11, ["does: refuse", "because"]),
    "14-rest-not-last": (5, 12, ["'GET /{rest*}/history'", "put it last"]),
    "15-word-of-a-later-version": (9, 5, ["batch", "not available in this version", "remove it"]),
    "16-tab": (5, 1, ["tab", "spaces"]),
    "17-syntax": (5, 18, ["not YAML", "quotes"]),
    "18-anchor": (4, 9, ["&all", "write values out"]),
    "19-second-document": (6, 1, ["second document", "one file"]),
    "20-number-where-text-is-wanted": (8, 13, ["covers", "17 is a number", "quotes: '17'"]),
    "21-sexagesimal": (4, 19, ["timeout", "30:00", "base 60"]),
    "22-status-in-a-request-test": (6, 12, ["request has no status", "result"]),
    "23-two-routes-with-one-match": (9, 12, ["same match", "line 5", "when"]),
    "24-rule-after-a-catch-all": (11, 9, ["result 2", "never match", "result 1", "line 10"]),
    "25-found-without-our-mark": (12, 14, ["found", "our mark", "{effect}"]),
    "26-index-that-settles-too-soon": (13, 15, ["settle: 5s", "timeout of 30s", "write more"]),
    "27-key-that-is-always-the-same": (9, 10, ["key", "'daily'", "use a value"]),
    "28-key-made-from-the-term": (9, 10, ["key", "{term}", "changes between tries"]),
    "29-repeat-on-post-without-note": (9, 25, ["POST", "note:"]),
    "30-repeat-that-does-harm": (7, 12, ["repeat", "repeat_is_harmless: true"]),
    "31-login-of-a-later-version": (4, 15, ["query", "not available in this version", "bearer"]),
    "32-unique-field-without-a-mark": (7, 12, ["unique_field", "needs stamp or send_as"]),
    "33-encoder-unknown": (8, 13, ["'base64'", "known are text N"]),
    "34-template-in-base-url": (2, 11, ["'/{tenant}'", "no template"]),
    "35-dot-segment": (5, 12, ["'GET /a/../b'", "remove it"]),
    "36-neither-kind": (1, 1, ["destination:", "function:", "neither"]),
    "37-nothing-after-the-colon": (4, 1, ["mode", "write a value"]),
    "38-null": (10, 25, ["status", "null", "remove the word"]),
    "39-callers-unknown": (3, 10, ["callers", "'claimants'", "leader-or-claimant"]),
    "40-method-in-lower-case": (5, 12, ["'get'", "use GET"]),
    "41-part-named-like-a-word": (5, 12, ["{effect}", "rename"]),
    "42-result-looks-without-a-look": (10, 35, ["is: look", "needs look"]),
    "43-units-unknown": (3, 8, ["units", "'required'", "registered"]),
    "44-lease-under-another-authority": (
        3,
        1,
        ["lease:", "authority is external", "remove lease", "authority: lease"],
    ),
    "45-eligible-under-another-authority": (
        3,
        1,
        ["eligible:", "authority is external", "remove eligible"],
    ),
    "46-term-jump-under-a-lease": (
        3,
        1,
        ["max_term_jump: 1000", "counts the terms itself", "remove it"],
    ),
    "47-ttl-too-short": (3, 14, ["ttl 20ms", "write at least 1s"]),
    "48-ttl-too-long": (4, 8, ["ttl 20d", "nobody could take over", "1d or less"]),
    "49-renewed-too-often": (3, 22, ["renew_every 5ms", "at least 100ms"]),
    "50-renewed-after-the-expiry": (
        3,
        32,
        ["renew_every 20s is not under ttl 20s", "a quarter of ttl"],
    ),
    "51-margin-over-the-ttl": (3, 44, ["margin 12s is not under ttl 10s", "write less"]),
    "52-times-that-do-not-fit": (
        3,
        14,
        ["ttl 20s has to be more than 2 * 1.1 * renew_every 9s + margin 3s = 22800ms", "ttl: 23s"],
    ),
    "53-no-margin": (3, 17, ["margin: '0s'", "no time at all"]),
    "54-range-that-cannot-be-read": (3, 22, ["versions: '~=2026.10'", '">=2026.10,<2027"']),
    "55-range-that-is-a-number": (
        3,
        22,
        ["versions: 2026.1 is a number", "zeros", 'in quotes: ">=2026.10"'],
    ),
    "56-range-without-a-version": (3, 22, ["no version is in '>=2027,<2026.10'", "raise its end"]),
    "57-region-in-the-singular": (3, 12, ["'region'", "did you mean regions?"]),
    "58-no-regions": (3, 21, ["regions: []", "empty list", "remove it"]),
    "59-region-listed-twice": (3, 30, ["'br' is listed twice", "remove one"]),
    "60-region-star": (3, 22, ["'*' is no region", "remove regions"]),
    "61-preferred-incarnation": (3, 23, ["'worker-a#7'", "one incarnation", "write worker-a"]),
    "62-upgrades-unknown": (3, 22, ["upgrades: 'newest'", "oldest-first or newest-first"]),
    "63-cool-off-without-an-end": (3, 22, ["cool_off", "lasts is missing", "such as 5m"]),
    "64-cool-off-that-never-comes": (
        3,
        42,
        ["4 losses take at least 3 * ttl 20s = 1m, and never come within 59s"],
    ),
    "65-cool-off-after-too-many-losses": (3, 31, ["losses: 21", "at most 20"]),
    "66-eligible-that-asks-for-nothing": (3, 11, ["eligible is empty", "remove it"]),
    "67-cool-off-over-what-is-kept": (
        3,
        42,
        ["within 20h and lasts 5h", "more than the 1d", "write less"],
    ),
    "68-unique-field-without-a-look": (7, 12, ["unique_field", "needs look"]),
    "69-native-key-guard-without-a-key": (7, 12, ["native_key", "say where the key goes"]),
    "70-version-guard-without-a-version": (7, 12, ["needs version", "condition"]),
    "71-native-key-without-window": (9, 17, ["window is missing", "add it", "or unknown"]),
    "72-native-key-without-the-effect": (9, 50, ["'{body.email}'", 'write "{effect}"']),
    "73-native-key-made-from-the-term": (9, 50, ["{term}", "changes between tries"]),
    "74-native-key-in-two-places": (9, 17, ["one of header, body and query", "header and query"]),
    "75-window-without-a-unit": (9, 70, ["window: 24", "write 30m, 24h, or unknown"]),
    "76-two-at-once": (9, 84, ["at_once: 2", "write 1"]),
    "77-misuse-that-tests-nothing": (9, 88, ["misuse_when is empty", "add a test"]),
    "78-key-in-a-header-of-the-transport": (9, 26, ["'Content-Length'", "frames the request"]),
    "79-stamp-and-form": (10, 5, ["JSON or a form", "stamp or stamp_form"]),
    "80-stamps-in-each-others-way": (9, 13, ["ref.id and ref", "keep one"]),
    "81-stamp-on-many-places": (9, 13, ["'items[*].ref'", "name one"]),
    "82-stamp-on-a-method-without-body": (9, 5, ["DELETE has no body", "route of its own"]),
    "83-stamp-of-a-probe": (9, 35, ["{probe}", "for a look alone"]),
    "84-empty-stamp": (10, 12, ["stamp is empty", "remove it"]),
    "85-look-for-another-form-of-the-mark": (
        10,
        5,
        ["asks for {effect}", "carries {effect | uuid4}", "same encoders"],
    ),
    "86-look-made-from-the-term": (11, 16, ["request", "{term}", "changes between tries"]),
    "87-send-as-a-read": (9, 24, ["'GET /contacts/{effect}'", "sends no write", "write POST"]),
    "88-send-as-nothing": (9, 14, ["send_as is empty", "remove it"]),
    "89-send-as-without-a-path": (9, 24, ["'PUT contacts/{effect}'", "write PUT /path"]),
    "90-send-as-a-credential": (9, 24, ["'Authorization'", "carries a credential"]),
    "91-unique-field-that-sends-no-mark": (10, 5, ["nothing that is sent carries it", "stamp"]),
    "92-version-that-is-not-sent": (9, 14, ["one of send and send_query", "neither"]),
    "93-version-without-lost-when": (9, 14, ["lost_when is missing", "add it"]),
    "94-version-that-is-always-lost": (9, 42, ["lost_when is empty", "add a test"]),
    "95-version-that-is-read-first": (9, 37, ["not available in this version", "from: worker"]),
    "96-uuid-cut-short": (9, 18, ["uuid4 | text 20", "36 characters", "remove it"]),
    "97-ascii-after-its-length": (9, 18, ["text 40 | ascii", "write ascii before text"]),
    "98-unix-of-no-time": (9, 18, ["unix is for first_sent alone", "remove it"]),
    "99-head-that-reads-a-body": (13, 14, ["HEAD has none", "GET"]),
    "100-get-with-a-body": (15, 7, ["GET sends none", "POST"]),
    "101-key-in-json-beside-a-form": (10, 24, ["JSON", "form"]),
}


def test_every_broken_file_is_in_the_table():
    assert sorted(path.stem for path in BROKEN.glob("*.yaml")) == sorted(TABLE)


@pytest.mark.parametrize("stem", TABLE)
def test_a_broken_file_gets_exactly_one_complaint_at_its_place(stem, tmp_path):
    line, column, words = TABLE[stem]
    shutil.copy(BROKEN / f"{stem}.yaml", tmp_path)

    loaded = load_policies(tmp_path, env={}, today=TODAY)

    assert loaded.policies is None
    assert len(loaded.complaints) == 1, [str(one) for one in loaded.complaints]
    said = str(loaded.complaints[0])
    assert said.startswith(f"{tmp_path}/{stem}.yaml:{line}:{column}: error: ")
    assert [word for word in words if word not in said] == []


def test_a_folder_of_broken_files_gets_every_complaint_at_once():
    loaded = load_policies(BROKEN, env={}, today=TODAY)

    files = {Path(one.file).stem for one in loaded.complaints}
    assert files == set(TABLE)
    assert len(loaded.complaints) == len(TABLE)


HEAD = "destination: crm\nbase_url: https://crm.example.com\nchecked: 2026-11-01\nroutes:\n"
LOOK = (
    '  - {match: POST /a, does: write, guard: look_first, covers: "a/{effect}", look: {request: '
    '"GET /a?x={effect}", settle: 5s, found: {json: {"[0]": {present: true}}}, '
    "missing: {status: 200}}}\n"
)
STAMPED = (
    LOOK.replace("does: write", 'does: write, stamp: {x: "{effect}"}')
    .replace('{json: {"[0]": {present: true}}}', '{same: {x: "{effect}"}}')
    .replace("x={effect}", "x={effect}&y=1")
)
KEYED = (
    '  - {match: POST /a, does: write, guard: native_key, covers: "a/{effect}", native_key: '
    '{header: Key, value: "{effect}", window: 24h}}\n'
)
WARNED = {
    "  - {match: POST /search, does: read}\n": "does: read on POST passes unfenced",
    '  - {match: GET /a, does: read, guard: none, covers: "a"}\n': "guard and covers do nothing",
    '  - {match: POST /a, does: write, covers: "a"}\n': "this write has no guard",
    "  - {match: POST /a, does: write, guard: none}\n": "this write has no covers",
    LOOK: "nothing that is sent carries our mark",
    KEYED.replace(
        "native_key,", "repeat, repeat_is_harmless: true, note: x,"
    ): "never relies on it",
    STAMPED.replace("look_first", "none"): "guard none never looks",
    STAMPED.replace("found", "each: items, found").replace("{effect}&", "all&"): (
        "cannot tell a full page from the end"
    ),
}
NOTED = [
    '  - {match: POST /search, does: read, note: "only searches"}\n',
    "  - {match: POST /search, when: {json: {kind: query}}, does: read}\n",
    LOOK.replace("does: write", 'does: write, note: "the worker puts the mark into x"'),
    KEYED,
    STAMPED,
    STAMPED.replace("found", "each: items, found"),
    STAMPED.replace("found", "each: items, found")
    .replace("{effect}&", "all&")
    .replace("missing: {status: 200", "missing: {status: 200, json: {has_more: false}"),
]


@pytest.mark.parametrize("route", WARNED)
def test_a_doubtful_route_loads_with_one_warning(route, tmp_path):
    (tmp_path / "crm.yaml").write_text(HEAD + route)

    loaded = load_policies(tmp_path, env={}, today=TODAY)

    assert loaded.policies is not None
    assert [one.severity for one in loaded.complaints] == ["warning"]
    assert WARNED[route] in loaded.complaints[0].message


@pytest.mark.parametrize("route", NOTED)
def test_a_note_or_a_body_test_settles_the_doubt(route, tmp_path):
    (tmp_path / "crm.yaml").write_text(HEAD + route)

    assert load_policies(tmp_path, env={}, today=TODAY).complaints == ()
