"""The promise of a route is worked out from its words, and says on what it rests."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.guarantee import Strength, guarantee
from gateway.core.guards import Look, NativeKey, Stamp, Version
from gateway.core.match import Match
from gateway.core.policy import Does, Guard, Route, Test
from gateway.core.template import Template

MARK = Template.parse("{effect}")
RECORD = Look("GET", MARK, Test(), Test(), 5_000)
INDEX = Look("GET", MARK, Test(), Test(), 120_000, reads="index")
RESEND = Look("GET", MARK, Test(), Test(), 5_000, if_still_missing="resend")
PARK = Look("GET", MARK, Test(), Test(), 5_000, if_still_missing="park")
STAMP = Stamp(form=(("a", MARK),))


def route(guard: Guard, *, does: Does = Does.WRITE, **words: Any) -> Route:
    return Route(name="r", match=Match("", frozenset(), ()), does=does, guard=guard, **words)


def key(**more: Any) -> NativeKey:
    words = {"window_ms": 86_400_000, "header": "Key", "repeat_returns": "everything"} | more
    return NativeKey(value=MARK, **words)


def version(*, exact: bool) -> Version:
    return Version(lost_when=Test(), header="If-Match", exact=exact)


TABLE = [
    (route(Guard.NONE), Strength.ONCE, []),
    (route(Guard.NONE, does=Does.READ), Strength.NOTHING, []),
    (route(Guard.NATIVE_KEY, does=Does.REFUSE), Strength.NOTHING, []),
    (route(Guard.NATIVE_KEY, native_key=key()), Strength.STRONG,
     ["80% of the 1d", "same key and bytes", "after that left to a person"]),
    (route(Guard.NATIVE_KEY, native_key=key(), look=INDEX), Strength.STRONG,
     ["after that looked for in the index", "left to a person"]),
    (route(Guard.NATIVE_KEY, native_key=key(repeat_returns="success_only", at_once=1)),
     Strength.GOOD, ["an error is not kept", "once the first cannot be running"]),
    (route(Guard.NATIVE_KEY, native_key=key(supported_when=Test())), Strength.STRONG,
     ["if an answer showed that the destination knows keys"]),
    (route(Guard.NATIVE_KEY, native_key=key(window_ms=None)), Strength.ONCE,
     ["nothing is sent again under it", "left to a person"]),
    (route(Guard.NATIVE_KEY, native_key=key(window_ms=None), look=RECORD), Strength.BEST_EFFORT,
     ["nothing is sent again under it", "looked for in the record"]),
    (route(Guard.NATIVE_KEY), Strength.ONCE, []),
    (route(Guard.UNIQUE_FIELD, stamp=STAMP, look=RECORD), Strength.STRONG,
     ["missing twice, from 5s after the seal on: sent again", "refuses or merges a second one"]),
    (route(Guard.UNIQUE_FIELD, stamp=STAMP, look=INDEX), Strength.GOOD, ["in the index"]),
    (route(Guard.UNIQUE_FIELD, stamp=STAMP, look=PARK), Strength.STRONG, ["left to a person"]),
    (route(Guard.UNIQUE_FIELD, stamp=STAMP), Strength.ONCE, []),
    (route(Guard.VERSION, version=version(exact=True), look=RECORD), Strength.STRONG,
     ["sent again under the same condition"]),
    (route(Guard.VERSION, version=version(exact=False), look=RECORD), Strength.BEST_EFFORT,
     ["not exact"]),
    (route(Guard.VERSION, version=version(exact=True)), Strength.GOOD,
     ["a person finds out to whom"]),
    (route(Guard.VERSION, version=version(exact=False), repeat_is_harmless=True),
     Strength.BEST_EFFORT, ["not exact"]),
    (route(Guard.VERSION, version=version(exact=False)), Strength.ONCE, ["there is no look"]),
    (route(Guard.VERSION), Strength.ONCE, []),
    (route(Guard.REPEAT, repeat_is_harmless=True), Strength.BEST_EFFORT, ["live term"]),
    (route(Guard.LOOK_FIRST, look=RECORD), Strength.BEST_EFFORT, ["left to a person"]),
    (route(Guard.LOOK_FIRST, look=RESEND), Strength.BEST_EFFORT, ["sent again"]),
    (route(Guard.LOOK_FIRST), Strength.ONCE, []),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "strength", "words"), TABLE)
def test_a_route_promises_what_its_words_can_keep(
    asked: Route, strength: Strength, words: list[str]
):
    promised = guarantee(asked)

    assert promised.strength is strength
    assert [word for word in words if word not in promised.holds] == []
    assert str(promised).startswith(strength.value)


def test_every_guard_has_its_guarantee():
    assert {asked.guard for asked, _, _ in TABLE} == set(Guard)
    assert {strength for _, strength, _ in TABLE} == set(Strength)
