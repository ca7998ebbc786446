"""The words of leadership: what `/v1/leases`, candidates, functions and transitions take and
give."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from gateway.core.ids import MAX_TERM
from gateway.wire.control import Wire

MAX_DRAIN_S: Final = 3600.0
MAX_PRIORITY: Final = 1_000_000

StateWord = Literal[
    "candidate", "leader-acquired", "leader-renewing", "leader-uncertain", "leader-lost"
]
EndWord = Literal["released", "expired", "drained", "handed-off", "superseded"]

_TOKEN: Final = r"^[!-~]{0,100}$"
"""Printable and without spaces: it is shown in logs and on terminals as it came."""


class _Given(Wire):
    """What a caller sends. Types count: "7" is no term."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CandidateIn(_Given):
    """What a candidate says of itself."""

    version: Annotated[str, Field(pattern=_TOKEN)] = ""
    region: Annotated[str, Field(pattern=_TOKEN)] = ""
    ready: bool = True
    priority: int = Field(default=0, ge=-MAX_PRIORITY, le=MAX_PRIORITY)


class AcquireIn(_Given):
    """Ask for leadership. `supersede` takes a new term over one's own earlier incarnation."""

    holder: str
    unit: str | None = None
    supersede: bool = False
    candidate: CandidateIn | None = None


class RenewIn(_Given):
    """Extend the lease that is named exactly."""

    holder: str
    term: int = Field(ge=1, le=MAX_TERM)
    unit: str | None = None


class ReleaseIn(RenewIn):
    """Give back the lease that is named exactly."""


class StepDownIn(RenewIn):
    """Start nothing new, and let what is in flight settle for at most `drain_s`."""

    drain_s: float | None = Field(default=None, ge=0, le=MAX_DRAIN_S)


class HandOffIn(RenewIn):
    """Grant the next term to the candidate `to`: a holder, or a worker's name."""

    to: str


class LeaseOut(Wire):
    """The leadership of a scope. `version` grows with every change but a renewal; `reason` says
    how the latest lease ended; `attempt_in_ms` when a follower should ask."""

    function: str
    unit: str | None
    holder: str | None
    term: int
    acquired_at: str | None
    renewed_at: str | None
    expires_at: str | None
    duration_ms: int | None
    remaining_ms: int
    transitions: int
    version: int
    state: StateWord
    draining: bool
    reason: EndWord | None
    last_holder: str | None
    attempt_in_ms: int | None
    in_flight: int | None


class LeasePage(Wire):
    """Leases, by function and unit."""

    items: list[LeaseOut]
    next: str | None


class CandidateOut(Wire):
    """A candidate. `fresh_for_ms` is how much longer its report counts; `reasons` are why it
    may not lead now; while it cools off it ranks last."""

    function: str
    holder: str
    principal: str
    version: str
    region: str
    ready: bool
    priority: int
    reported_at: str
    fresh_for_ms: int
    cooling_off_ms: int
    eligible: bool
    reasons: list[str]


class CandidatePage(Wire):
    """The candidates of a function: those that may lead, best first, then the others."""

    items: list[CandidateOut]
    next: str | None


class LeaseTimesOut(Wire):
    """The times of a function's leases."""

    ttl_ms: int
    renew_every_ms: int
    margin_ms: int
    prefer_for_ms: int
    fresh_for_ms: int


class CoolOffOut(Wire):
    """After `losses` expiries within `within_ms`, a worker ranks last for `lasts_ms`."""

    losses: int
    within_ms: int
    lasts_ms: int


class EligibleOut(Wire):
    """Who may lead, and how ties break."""

    versions: str | None
    regions: list[str] | None
    preferred: str | None
    upgrades: Literal["oldest-first", "newest-first"]
    cool_off: CoolOffOut | None


class ExceptionsOut(Wire):
    """Who answers for exceptions, and within which time."""

    owner: str
    deadline_ms: int


class FunctionOut(Wire):
    """A function's policy as loaded. `lease` and `eligible` are null where terms come from an
    authority outside."""

    function: str
    authority: Literal["lease", "external"]
    leadership: Literal["function", "unit"]
    callers: Literal["leader", "leader-or-claimant", "any"]
    units: Literal["free", "registered"]
    max_term_jump: int | None
    lease: LeaseTimesOut | None
    eligible: EligibleOut | None
    exceptions: ExceptionsOut | None
    digest: str


class FunctionPage(Wire):
    """All functions, by name."""

    items: list[FunctionOut]
    next: str | None


class ScopeOut(Wire):
    """What one leader leads, with its terms, and how many effects are unfinished in it."""

    unit: str | None
    highest_term: int
    last_term: int
    unfinished_effects: int
    lease: LeaseOut | None


class FunctionDetailOut(FunctionOut):
    """A function with its scopes and candidates. Of many scopes those with a live lease, then
    the latest, are shown; `scopes_left_out` counts the others."""

    scopes: list[ScopeOut]
    scopes_left_out: int
    candidates: list[CandidateOut]


class TransitionOut(Wire):
    """One recorded change of state. `uncertain_effects` are the unfinished ones of earlier
    terms, which `responsible` has to settle."""

    id: int
    at: str
    kind: str
    function: str
    unit: str | None
    term: int | None
    holder: str | None
    lease_version: int | None
    reason: str | None
    checkpoint: str | None
    uncertain_effects: int | None
    next_action: str | None
    responsible: str | None
    effect_id: str | None
    principal: str | None
    detail: dict[str, Any] | None


class TransitionPage(Wire):
    """Transitions, oldest first. `next` is the `after` of the page behind, or null."""

    items: list[TransitionOut]
    next: str | None
