"""What answers mean where a native key or a condition was sent."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.classify import Meaning, Reply, Silence, classify, needs_body
from gateway.core.effect import Outcome
from gateway.core.guards import NativeKey, Version
from gateway.core.jsonpath import Path
from gateway.core.match import Match
from gateway.core.policy import Destination, Does, Expect, Is, Route, Rule, SlowDown, Test
from gateway.core.template import RequestValues, Template

VALUES = RequestValues(parts={}, effect="m-1")


def on(*status: int, code: str | None = None, header: str | None = None) -> Test:
    json = () if code is None else ((Path.parse("code"), Expect(values=(code,))),)
    fields = () if header is None else ((header, Expect(present=True)),)
    return Test(status=frozenset(status) or None, header=fields, json=json)


KEY = NativeKey(
    value=Template.parse("{effect}"),
    window_ms=1,
    header="Key",
    replayed_when=on(header="replayed"),
    busy_when=on(409, code="busy"),
    misuse_when=on(409, code="misused"),
    supported_when=on(header="result"),
)
VERSION = Version(lost_when=on(200, code="none"), header="If-Match")


def meaning(
    status: int,
    code: str | None = None,
    *,
    tried_before: bool = False,
    rules: tuple[Rule, ...] = (),
    slow: tuple[SlowDown, ...] = (),
    headers: tuple[str, ...] = (),
    **words: Any,
) -> Meaning:
    route, destination = policy(rules, slow, **words)
    reply = Reply(status, {name: ["x"] for name in headers}, lambda: {"code": code})
    return classify(reply, route, destination, VALUES, tried_before=tried_before)


def policy(
    rules: tuple[Rule, ...] = (), slow: tuple[SlowDown, ...] = (), **words: Any
) -> tuple[Route, Destination]:
    match = Match("", frozenset(), ())
    route = Route(name="r", match=match, does=Does.WRITE, results=rules, **words)
    destination = Destination(
        name="d", scheme="http", host="h", port=80, prefix="", digest="", slow_down=slow
    )
    return route, destination


def test_another_request_under_the_key_is_an_alarm_and_proves_nothing():
    said = meaning(409, "misused", native_key=KEY, rules=(Rule(on(409), Is.REJECTED),))

    assert said == Meaning(Outcome.UNKNOWN, "key-misused", alarm=True)


def test_a_first_request_still_running_proves_nothing():
    said = meaning(409, "busy", native_key=KEY, rules=(Rule(on(409), Is.REJECTED),))

    assert said == Meaning(Outcome.UNKNOWN, "key-busy")


def test_slow_down_comes_before_the_key():
    said = meaning(409, "busy", native_key=KEY, slow=(SlowDown(on(409)),))

    assert said == Meaning(Outcome.NO_EFFECT, "slow-down")


@pytest.mark.parametrize("status", [201, 402, 500])
def test_a_replay_is_known_as_one_and_means_what_it_says(status: int):
    first = meaning(status, native_key=KEY)
    replay = meaning(status, native_key=KEY, headers=("replayed",))

    assert (first.replayed, replay.replayed) == (False, True)
    assert first.outcome is replay.outcome


def test_an_answer_says_whether_keys_are_known():
    assert meaning(500, native_key=KEY).key_supported is False
    assert meaning(500, native_key=KEY, headers=("result",)).key_supported is True
    assert meaning(409, "busy", native_key=KEY).key_supported is None
    plain = NativeKey(value=KEY.value, window_ms=1, header="Key")
    assert meaning(500, native_key=plain, headers=("result",)).key_supported is None


def test_silence_says_nothing_of_keys():
    route, destination = policy(native_key=KEY)

    said = classify(Silence(sent=True, reason="read-timeout"), route, destination, VALUES)

    assert said == Meaning(Outcome.UNKNOWN, "read-timeout")


def test_a_lost_condition_is_a_rejection_whatever_the_status():
    rules = (Rule(on(200), Is.CONFIRMED),)

    assert meaning(200, "none", version=VERSION, rules=rules) == Meaning(
        Outcome.REJECTED, "condition-lost"
    )
    assert meaning(200, "some", version=VERSION, rules=rules).outcome is Outcome.CONFIRMED


def test_a_condition_lost_after_an_unknown_attempt_asks_for_a_look():
    said = meaning(200, "none", version=VERSION, tried_before=True)

    assert said == Meaning(Outcome.REJECTED, "condition-lost", look=True)


def test_a_body_is_needed_where_the_key_or_the_condition_reads_it():
    assert needs_body(*policy(native_key=KEY))
    assert needs_body(*policy(version=VERSION))
    plain = NativeKey(value=KEY.value, window_ms=1, header="Key", misuse_when=on(422))
    assert not needs_body(*policy(native_key=plain))
