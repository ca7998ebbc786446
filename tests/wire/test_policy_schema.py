from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.wire.policy_file import load_policies
from gateway.wire.policy_schema import DIALECT, policy_schema

HEAD = "destination: crm\nbase_url: https://crm.example.com\nchecked: 2026-11-01\n"
ROUTE = "routes:\n  - match: POST /a\n    does: write\n    guard: none\n    covers: a\n"

DESTINATION_WORDS = [
    "destination",
    "base_url",
    "boundary",
    "checked",
    "login",
    "limits",
    "slow_down",
    "functions",
    "mode",
    "setup",
    "routes",
    "fence_policy",
    "connections",
]
LIMIT_WORDS = [
    "at_once",
    "timeout",
    "connect",
    "settle",
    "body_max",
    "barrier_wait",
    "max_attempts",
]
ROUTE_WORDS = [
    "name",
    "match",
    "graphql",
    "jsonrpc",
    "when",
    "does",
    "because",
    "key",
    "on_duplicate",
    "guard",
    "covers",
    "stamp",
    "stamp_form",
    "send_as",
    "native_key",
    "version",
    "repeat_is_harmless",
    "result",
    "look",
    "ignore_in_fingerprint",
    "note",
    "limits",
]
FUNCTION_WORDS = [
    "function",
    "authority",
    "leadership",
    "lease",
    "eligible",
    "callers",
    "units",
    "exceptions",
    "max_term_jump",
]
LEASE_WORDS = ["ttl", "renew_every", "margin"]
ELIGIBLE_WORDS = ["versions", "regions", "preferred", "upgrades", "cool_off"]
GUARDS = ["native_key", "unique_field", "version", "repeat", "look_first", "none"]
KEY_WORDS = [
    "header",
    "body",
    "query",
    "value",
    "window",
    "repeat_returns",
    "at_once",
    "replayed_when",
    "busy_when",
    "misuse_when",
    "supported_when",
]
SEND_AS_WORDS = ["request", "query", "header", "drop"]
VERSION_WORDS = ["send", "send_query", "from", "exact", "lost_when"]
LOOK_WORDS = [
    "request",
    "body",
    "reads",
    "settle",
    "each",
    "found",
    "missing",
    "take",
    "if_still_missing",
]


@pytest.fixture(scope="module")
def words():
    return {name: body["properties"] for name, body in policy_schema()["$defs"].items()}


def later_words(folder: Path, text: str) -> set[str]:
    (folder / "crm.yaml").write_text(text)
    loaded = load_policies(folder, env={})
    return {
        one.message.partition(" ")[0]
        for one in loaded.complaints
        if "not available in this version" in one.message
    }


def test_the_schema_is_one_destination_or_one_function():
    schema = policy_schema()

    assert schema["$schema"] == DIALECT
    assert [one["$ref"] for one in schema["oneOf"]] == [
        "#/$defs/DestinationWords",
        "#/$defs/FunctionWords",
    ]
    assert schema["$defs"]["DestinationWords"]["required"] == ["destination", "base_url", "routes"]
    assert schema["$defs"]["FunctionWords"]["required"] == ["function", "authority"]
    json.dumps(schema)


def test_every_word_is_closed_and_described(words):
    for name, body in policy_schema()["$defs"].items():
        assert body["additionalProperties"] is False
        for word, form in body["properties"].items():
            assert form.get("description"), f"{name}.{word}"


def test_every_reference_of_the_schema_leads_somewhere():
    text = json.dumps(policy_schema())

    for name in {piece.partition('"')[0] for piece in text.split("#/$defs/")[1:]}:
        assert name in policy_schema()["$defs"]
    assert '"null"' not in text.replace('"boolean", "null"', "")


def test_every_destination_word_and_limit_is_built(words):
    assert set(DESTINATION_WORDS) <= set(words["DestinationWords"])
    assert set(LIMIT_WORDS) == set(words["LimitsWords"])


def test_every_route_word_is_built_or_answered(words, tmp_path):
    missing = [word for word in ROUTE_WORDS if word not in words["RouteWords"]]
    text = HEAD + ROUTE + "".join(f"    {word}: {{a: b}}\n" for word in missing)

    assert later_words(tmp_path, text) == set(missing)


def test_every_function_word_is_built_or_answered(words, tmp_path):
    missing = [word for word in FUNCTION_WORDS if word not in words["FunctionWords"]]
    text = "function: sweep\nauthority: external\n"
    text += "".join(f"{word}: {{a: b}}\n" for word in missing)

    assert later_words(tmp_path, text) == set(missing)


def test_every_word_of_a_lease_and_of_eligible_is_built(words):
    assert set(LEASE_WORDS) == set(words["LeaseWords"])
    assert set(ELIGIBLE_WORDS) == set(words["EligibleWords"])
    assert words["FunctionWords"]["authority"]["enum"] == ["lease", "external"]
    assert words["EligibleWords"]["upgrades"]["enum"] == ["oldest-first", "newest-first"]


def test_every_guard_is_built(words):
    assert words["RouteWords"]["guard"]["enum"] == GUARDS


def test_every_word_of_what_is_sent_is_built(words):
    assert set(KEY_WORDS) == set(words["NativeKeyWords"])
    assert set(SEND_AS_WORDS) == set(words["SendAsWords"])
    assert set(VERSION_WORDS) == set(words["VersionWords"])
    assert set(LOOK_WORDS) == set(words["LookWords"])


def test_every_function_value_is_built(words):
    assert words["FunctionWords"]["callers"]["enum"] == ["leader", "leader-or-claimant", "any"]
    assert words["FunctionWords"]["units"]["enum"] == ["free", "registered"]
