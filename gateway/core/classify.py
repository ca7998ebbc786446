"""From what came back to what we know.

Only two things prove that an effect did not happen: a refusal that the destination vouches
for, or that no byte of the request's head was written. Everything else that is not a success
is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.core.effect import Outcome
from gateway.core.facts import NOT_JSON, Facts
from gateway.core.guards import NativeKey
from gateway.core.policy import DEFAULT_MEANING, Destination, Is, Route, Rule
from gateway.core.template import RequestValues

KEY_BUSY: Final = "key-busy"
KEY_MISUSED: Final = "key-misused"
CONDITION_LOST: Final = "condition-lost"


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer came. `sent` is whether a byte of the head may have left."""

    sent: bool
    reason: str


@dataclass(slots=True)
class Reply:
    """The destination's answer. Header names in lower case; `json` parses the body when
    asked (it raises ValueError if it is none)."""

    status: int
    headers: Mapping[str, Sequence[str]]
    json: Callable[[], Any] | None = None


@dataclass(slots=True)
class Meaning:
    """What an answer proves about its attempt. `look` asks for a probe now.

    `replayed`: the destination says that it gave the answer of the first request under this
    native key, so it speaks for every attempt under it. `key_supported`: whether it says that
    it knows the key at all; None where the policy does not ask, or nothing was answered.
    """

    outcome: Outcome
    reason: str
    take: Mapping[str, Any] = field(default_factory=dict)
    look: bool = False
    alarm: bool = False
    replayed: bool = False
    key_supported: bool | None = None


def classify(
    answer: Reply | Silence,
    route: Route,
    destination: Destination,
    values: RequestValues,
    *,
    tried_before: bool = False,
) -> Meaning:
    """Return what `answer` proves (RFC 9110 section 15; docs/http.md has the defaults).

    `tried_before`: an earlier attempt of the same effect is unknown, so a "gone" or "already
    there" may be the echo of our own doing.
    """
    if isinstance(answer, Silence):
        outcome = Outcome.UNKNOWN if answer.sent else Outcome.NO_EFFECT
        return Meaning(outcome, answer.reason)
    facts = Facts(answer.status, answer.headers, _body(answer, route, destination))
    for slow in destination.slow_down:
        if slow.when.holds(facts, values):
            return Meaning(Outcome.NO_EFFECT, "slow-down")
    if route.native_key is not None:
        return _under_key(route.native_key, facts, route, values, tried_before)
    return _by_route(facts, route, values, tried_before)


def _under_key(
    key: NativeKey, facts: Facts, route: Route, values: RequestValues, tried_before: bool
) -> Meaning:
    if key.misuse_when is not None and key.misuse_when.holds(facts, values):
        # Another request went out under this key: never a fresh one, a person looks into it.
        return Meaning(Outcome.UNKNOWN, KEY_MISUSED, alarm=True)
    if key.busy_when is not None and key.busy_when.holds(facts, values):
        return Meaning(Outcome.UNKNOWN, KEY_BUSY)
    meaning = _by_route(facts, route, values, tried_before)
    meaning.replayed = key.replayed_when is not None and key.replayed_when.holds(facts, values)
    if key.supported_when is not None:
        meaning.key_supported = key.supported_when.holds(facts, values)
    return meaning


def _by_route(facts: Facts, route: Route, values: RequestValues, tried_before: bool) -> Meaning:
    if route.version is not None and route.version.lost_when.holds(facts, values):
        # It proves that this attempt did nothing; an earlier one may be what it lost to.
        return Meaning(Outcome.REJECTED, CONDITION_LOST, look=tried_before)
    for at, rule in enumerate(route.results, start=1):
        if rule.when.holds(facts, values):
            return _by_rule(rule, f"rule-{at}", facts, tried_before)
    status = facts.status or 0
    if route.results and 200 <= status < 300:
        return Meaning(Outcome.UNKNOWN, "no-rule-matched")
    outcome = DEFAULT_MEANING.get(status, Outcome.UNKNOWN)
    return Meaning(outcome, f"status-{status}")


def needs_body(route: Route, destination: Destination) -> bool:
    """Whether the meaning of an answer depends on its body."""
    return route.reads_answer or destination.reads_answer


def _body(answer: Reply, route: Route, destination: Destination) -> Any:
    if answer.json is None or not needs_body(route, destination):
        return NOT_JSON
    try:
        return answer.json()
    except ValueError:
        return NOT_JSON


def _by_rule(rule: Rule, reason: str, facts: Facts, tried_before: bool) -> Meaning:
    taken = {name: found[0] for name, path in rule.take if (found := path.find(facts.body))}
    match rule.means:
        case Is.LOOK:
            return Meaning(Outcome.UNKNOWN, reason, taken, look=True, alarm=rule.alarm)
        case Is.CONFIRMED_IF_TRIED_BEFORE:
            outcome = Outcome.CONFIRMED if tried_before else Outcome.REJECTED
            return Meaning(outcome, reason, taken, alarm=rule.alarm)
        case _:
            return Meaning(Outcome(rule.means.value), reason, taken, alarm=rule.alarm)
