"""What can go wrong between a worker and the gateway, as types.

A problem of the gateway becomes an error that says what to do next. An answer of the destination
never does, whatever it looks like: it is the worker's to deal with. `is_retryable` is about the
same request under the same key; no error here is ever answered with a new key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

PROBLEM_TYPE: Final = "application/problem+json"
_STANDARD: Final = frozenset(
    {"type", "title", "status", "detail", "effect", "safe_to_retry_same_key", "instance"}
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the gateway (RFC 9457), taken apart.

    `effect` says what is known of the effect: none, confirmed or unknown. `facts` are its
    other members: `effect_id`, `highest_term`, `retry_after_s` and so on.
    """

    slug: str
    status: int
    title: str = ""
    detail: str = ""
    effect: str = "unknown"
    safe_to_retry_same_key: bool = False
    retry_after_s: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class FencegateError(Exception):
    """The gateway said no, or could not be asked."""

    retryable: ClassVar[bool] = False
    default_effect: ClassVar[str] = "none"
    default_same_key: ClassVar[bool] = False
    unanswered = False  # an earlier try of the same command got no answer

    def __init__(self, problem: Problem | None = None, message: str | None = None) -> None:
        self.problem = problem
        super().__init__(message or _words(problem) or (self.__doc__ or "").strip())

    def __reduce__(self) -> tuple[Any, ...]:
        # errors cross process borders in worker pools; the default would lose the problem
        return type(self), (self.problem, str(self)), {"unanswered": self.unanswered}

    @property
    def slug(self) -> str:
        return self.problem.slug if self.problem else ""

    @property
    def status(self) -> int | None:
        return self.problem.status if self.problem else None

    @property
    def effect(self) -> str:
        """What is known of the effect: `none`, `confirmed` or `unknown`."""
        known = self.problem.effect if self.problem else self.default_effect
        return "unknown" if known == "none" and self.unanswered else known

    @property
    def safe_to_retry_same_key(self) -> bool:
        return self.problem.safe_to_retry_same_key if self.problem else self.default_same_key

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.problem.facts if self.problem else {}

    @property
    def retry_after_s(self) -> float | None:
        return self.problem.retry_after_s if self.problem else None


def _words(problem: Problem | None) -> str:
    if problem is None:
        return ""
    effect_id = problem.facts.get("effect_id")
    about = f" [effect {effect_id}]" if effect_id else ""
    return f"{problem.slug} ({problem.status}): {problem.title}. {problem.detail}{about}"


class LeadershipLost(FencegateError):
    """There is no current proof of leadership; nothing was sent. Stop all work on the scope.

    `reason` says how it was lost. `answer` is the answer of a command that was under way and
    ended before the loss was raised.
    """

    def __init__(
        self,
        problem: Problem | None = None,
        message: str | None = None,
        *,
        reason: str = "no-proof",
        answer: Any = None,
    ) -> None:
        super().__init__(problem, message)
        self.reason = reason
        self.answer = answer

    def __reduce__(self) -> tuple[Any, ...]:
        told = (str(self), self.reason, self.answer)
        return _lost_again, told, {"unanswered": self.unanswered}

    @property
    def effect(self) -> str:
        confirmed = getattr(self.answer, "outcome", None) == "confirmed"
        return "confirmed" if confirmed else super().effect


def _lost_again(message: str, reason: str, answer: Any) -> LeadershipLost:
    return LeadershipLost(message=message, reason=reason, answer=answer)


class ClaimLost(FencegateError):
    """There is no proof any more that the claim on the item lives; nothing was sent. Leave the
    item: another worker may have it."""


class GatewayUnreachable(FencegateError):
    """No answer of the gateway arrived. Nobody knows what became of a command: the same request
    with the same key will tell."""

    retryable = True
    default_effect = "unknown"
    default_same_key = True


class NotReached(GatewayUnreachable):
    """No connection to the gateway stood; nothing was sent."""

    default_effect = "none"


class Refused(FencegateError):
    """The gateway answered with a problem of its own."""


class NotInCommand(Refused):
    """The gateway knows that this holder does not command. Stop, and do not retry."""


class StaleTerm(NotInCommand):
    """A newer leader has taken over."""


class TermNeverIssued(NotInCommand):
    """The gateway never granted this term."""


class TermContested(NotInCommand):
    """Another holder uses the same term."""


class NotHolder(NotInCommand):
    """The lease belongs to another holder, or to nobody."""


class LeaseExpired(NotInCommand):
    """The lease has expired in the gateway's time."""


class LeaderDraining(NotInCommand):
    """This leader is stepping down and starts nothing new."""


class LeaseGone(NotInCommand):
    """The lease is no longer this holder's; it cannot be renewed."""


class LeaseHeld(Refused):
    """Another holder leads."""


class NotEligible(Refused):
    """The function's policy does not let this candidate lead."""


class NotPreferred(Refused):
    """A better candidate is given the first chance; ask again later."""


class KeyReused(Refused):
    """The key names another request. Never answer this with a new key for the same effect."""


class OutcomeUnknown(Refused):
    """The effect may or may not have happened. Do not retry; it will be settled."""


class EffectAbandoned(Refused):
    """A person has given the effect up."""


class Duplicate(Refused):
    """The effect is confirmed already. Count it as done."""


class AttemptsExhausted(Refused):
    """The destination has rejected this too often."""


class UnitUnknown(Refused):
    """The unit of work is not registered."""


class UnitClosed(Refused):
    """The unit of work takes no more effects."""


class UnitTaken(Refused):
    """The unit's key belongs to another function."""


class UnitUnfinished(Refused):
    """Something of the unit is open yet: `facts["reasons"]`. It was not completed."""


class NotClaimed(Refused):
    """There is no claim on the item, or it is over. Stop work on it; another may have it."""


class ItemUnknown(Refused):
    """The unit has no such item."""


class VersionConflict(Refused):
    """It has changed since it was read: `facts["version"]`. Read it again."""


class FenceMissing(Refused):
    """A write lacks function, term, holder or key."""


class Forbidden(Refused):
    """This principal may not do that."""


class RouteRefused(Refused):
    """The destination's policy does not let the request through."""


class Malformed(Refused):
    """A header, key or value does not have its form."""


class InFlight(Refused):
    """The first request with this key is not answered yet."""

    retryable = True


class PredecessorInFlight(Refused):
    """An older leader's write to the same thing may still be under way; nothing was sent."""

    retryable = True


class LedgerUnavailable(Refused):
    """The decision could not be made durable; nothing was sent."""

    retryable = True


class Busy(Refused):
    """The gateway or the destination takes nothing more now; nothing was sent."""

    retryable = True


class DestinationUnreachable(Refused):
    """No byte of a write reached the destination."""

    retryable = True


_BY_SLUG: Final[dict[str, type[Refused]]] = {
    "stale-term": StaleTerm,
    "term-never-issued": TermNeverIssued,
    "term-contested": TermContested,
    "not-holder": NotHolder,
    "lease-expired": LeaseExpired,
    "leader-draining": LeaderDraining,
    "lease-gone": LeaseGone,
    "lease-held": LeaseHeld,
    "not-eligible": NotEligible,
    "not-preferred": NotPreferred,
    "key-reused": KeyReused,
    "outcome-unknown": OutcomeUnknown,
    "effect-abandoned": EffectAbandoned,
    "duplicate": Duplicate,
    "result-unavailable": Duplicate,
    "attempts-exhausted": AttemptsExhausted,
    "unit-unknown": UnitUnknown,
    "unit-closed": UnitClosed,
    "unit-taken": UnitTaken,
    "unit-unfinished": UnitUnfinished,
    "not-claimed": NotClaimed,
    "item-unknown": ItemUnknown,
    "version-conflict": VersionConflict,
    "fence-missing": FenceMissing,
    "forbidden": Forbidden,
    "function-unknown": Forbidden,
    "unauthenticated": Forbidden,
    "route-refused": RouteRefused,
    "malformed": Malformed,
    "bad-target": Malformed,
    "in-flight": InFlight,
    "predecessor-in-flight": PredecessorInFlight,
    "ledger-unavailable": LedgerUnavailable,
    "busy": Busy,
    "draining": Busy,
    "destination-unreachable": DestinationUnreachable,
}


def error_for(status: int, headers: Mapping[str, str], body: bytes) -> FencegateError | None:
    """Return the error for an answer that is a problem of the gateway's own, else None.

    `Fence-Verdict` decides where it is there: the gateway drops a destination's own, and gives
    a `reason` only with its own answers. `would-refuse` marks an answer of the destination.
    """
    fields = {name.lower(): value for name, value in headers.items()}
    if fields.get("content-type", "").partition(";")[0].strip().lower() != PROBLEM_TYPE:
        return None
    verdict, _, reason = fields.get("fence-verdict", "").partition(";")
    if verdict and (verdict.strip() == "would-refuse" or not reason.strip()):
        return None
    members = _members(body)
    kind = str(members.get("type", ""))
    if not verdict and "/problems/" not in kind:
        return None
    slug = kind.rpartition("/problems/")[2] or reason.strip().removeprefix("reason=")
    problem = Problem(
        slug=slug,
        status=status,
        title=str(members.get("title", "")),
        detail=str(members.get("detail", "")),
        effect=str(members.get("effect", "unknown")),
        safe_to_retry_same_key=members.get("safe_to_retry_same_key") is True,
        retry_after_s=_retry_after_s(members, fields.get("retry-after", "")),
        facts={name: fact for name, fact in members.items() if name not in _STANDARD},
    )
    return _BY_SLUG.get(slug, Refused)(problem)


def is_retryable(error: BaseException) -> bool:
    """Say whether the same request, under the same key, may do better later."""
    if not isinstance(error, FencegateError):
        return False
    return error.retryable


def _members(body: bytes) -> dict[str, Any]:
    try:
        members = json.loads(body)
    except ValueError:  # UnicodeDecodeError too
        return {}
    return members if isinstance(members, dict) else {}


def _retry_after_s(members: Mapping[str, Any], header: str) -> float | None:
    said_ms, said_s = members.get("retry_after_ms"), members.get("retry_after_s")
    if isinstance(said_ms, int | float):
        return said_ms / 1000
    if isinstance(said_s, int | float):
        return float(said_s)
    return float(header) if header.isascii() and header.isdigit() else None
