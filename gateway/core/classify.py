"""From what came back to what we know.

Only two things prove that an effect did not happen: a refusal that the destination vouches
for, or that no byte of the request's head was written. Everything else that is not a success
is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.core.effect import Outcome
from gateway.core.policy import (
    DEFAULT_MEANING,
    NOT_JSON,
    Destination,
    Facts,
    Is,
    Route,
    Rule,
)
from gateway.core.template import RequestValues


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
    """What an answer proves about its attempt. `look` asks for a probe now."""

    outcome: Outcome
    reason: str
    take: Mapping[str, Any] = field(default_factory=dict)
    look: bool = False
    alarm: bool = False


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
    for at, rule in enumerate(route.results, start=1):
        if rule.when.holds(facts, values):
            return _by_rule(rule, f"rule-{at}", facts, tried_before)
    if route.results and 200 <= answer.status < 300:
        return Meaning(Outcome.UNKNOWN, "no-rule-matched")
    outcome = DEFAULT_MEANING.get(answer.status, Outcome.UNKNOWN)
    return Meaning(outcome, f"status-{answer.status}")


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
