"""The words about what is sent, from the file to the guards."""

from __future__ import annotations

from tests.wire.policy_folder import FULL, HEAD, good, load, said


def test_every_word_of_what_is_sent_arrives(tmp_path):
    env = {"SUBDOMAIN": "a", "CRM_TOKEN": "t"}
    loaded = load(tmp_path, env, crm=FULL, sweep="function: sweep\nauthority: external\n")

    route = loaded.policies.destinations["crm"].routes[0]
    stamps = [(path.text, template.text) for path, template in route.stamp.json]
    assert stamps == [("external_id", "{effect | text 64}"), ("fence.term", "{term}")]
    send_as = route.send_as
    assert (send_as.method, send_as.target.text) == ("PUT", "/{kind}/upsert/{effect | text 64}")
    assert [(name, t.text) for name, t in (*send_as.query, *send_as.header)] == [
        ("by", "{kind}"),
        ("Prefer", "merge"),
    ]
    assert [path.text for path in send_as.drop] == ["id"]
    key = route.native_key
    assert (key.header, key.body, key.query, key.value.text) == (
        "Idempotency-Key", None, None, "{effect}",
    )  # fmt: skip
    assert (key.window_ms, key.at_once, key.repeat_returns) == (86_400_000, 1, "everything")
    assert [test.status for test in key.tests] == [None, {409}, {422}, None]
    version = route.version
    assert (version.header, version.query, version.exact) == ("If-Match", (), True)
    assert (route.dresses, route.edits_body) == (True, True)


KEY = '{header: X-Key, value: "{effect}", window: unknown}'
PUT = (
    "routes:\n  - match: PUT /a\n    does: write\n    guard: native_key\n    covers: a\n"
    f"    native_key: {KEY}\n"
)


def test_a_window_that_is_not_published_and_a_worker_that_sends_the_version(tmp_path):
    version = "    version: {send: If-Match, from: worker, lost_when: {status: 412}}\n"

    route = good(tmp_path, HEAD + PUT + version).routes[0]

    assert (route.native_key.window_ms, route.native_key.repeat_returns) == (None, "success_only")
    assert (route.stamp, route.send_as) == (None, None)


def test_a_condition_in_the_query_and_a_form_that_is_stamped(tmp_path):
    words = (
        '    version: {send_query: {or: "(t.lte.{term})"}, lost_when: {status: 412}}\n'
        '    stamp_form: {"metadata[term]": "{term}"}\n'
    )

    route = good(tmp_path, HEAD + PUT + words).routes[0]

    assert [(name, t.text) for name, t in route.version.query] == [("or", "(t.lte.{term})")]
    assert [(name, t.text) for name, t in route.stamp.form] == [("metadata[term]", "{term}")]


def test_a_route_never_sets_the_header_of_the_login(tmp_path):
    login = 'login: {kind: header, name: x_key, value: "${env:K}"}\n'

    loaded = load(tmp_path, {"K": "s3cr3t"}, crm=HEAD + login + PUT)

    assert said(loaded) == [
        "6:1 error route 'PUT /a' sets 'X-Key', which carries the login; remove it"
    ]
