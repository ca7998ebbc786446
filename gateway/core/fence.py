"""The fence: may this attempt reach its destination, and if not, why not.

Theory of operation
-------------------
A lease cannot stop a worker that was paused past its expiry and wakes up believing it still
leads; only the boundary in front of the destination can. So each attempt carries the term
its holder was elected under, and the fence refuses any term below the highest that it has
accepted for the same scope. Equal passes, lower fails: a leader sends many attempts under
one term.

Rules of this file
------------------
1. Every admission rule lives here. Nothing here does I/O, reads a clock or rolls dice.
2. The caller loads the view, asks, and writes the answer down in ONE transaction. A view
   that outlives its transaction is worthless.
3. Values made for every request are not frozen (that would cost them threefold), but nobody
   changes one.
4. Checks run in the order of `Refusal`. Reordering them changes the contract, and
   tests/core/test_fence.py will say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from gateway.core.effect import (
    FREE_AGAIN,
    Fingerprint,
    OpenAttempt,
    Outcome,
    PriorEffect,
    unsealed,
)
from gateway.core.ids import EffectKey, Scope


class Authority(StrEnum):
    """Who grants terms."""

    LEASE = "lease"  # the gateway
    EXTERNAL = "external"  # someone else; the gateway keeps the highest that it has seen


class Callers(StrEnum):
    """Who may send effects under a term."""

    LEADER = "leader"
    LEADER_OR_CLAIMANT = "leader-or-claimant"
    ANY = "any"


class OnDuplicate(StrEnum):
    """What a repetition of a confirmed effect gets."""

    REPLAY = "replay"
    REJECT = "reject"


class Refusal(StrEnum):
    """Why an attempt is turned away, highest precedence first."""

    STALE_TERM = "stale-term"  # a newer leader has been accepted
    TERM_NEVER_ISSUED = "term-never-issued"  # forged, or the store is older than it was
    NOT_HOLDER = "not-holder"  # the grant went to another holder
    TERM_JUMP = "term-jump"  # suspiciously far above the highest term
    TERM_CONTESTED = "term-contested"  # two holders under one term
    KEY_REUSED = "key-reused"  # same key, different request
    IN_FLIGHT = "in-flight"  # same key, first attempt not answered yet
    OUTCOME_UNKNOWN = "outcome-unknown"  # same key, sent, never settled
    EFFECT_ABANDONED = "effect-abandoned"  # same key, given up by a person
    DUPLICATE = "duplicate"  # same key, confirmed, and the route wants no replay
    ATTEMPTS_EXHAUSTED = "attempts-exhausted"  # rejected too often
    LEASE_EXPIRED = "lease-expired"  # the grant is not live at the store's time
    LEADER_DRAINING = "leader-draining"  # stepping down: no new effects
    UNIT_UNKNOWN = "unit-unknown"  # the function wants registered units
    UNIT_CLOSED = "unit-closed"  # completed or abandoned
    LEDGER_RESTORED = "ledger-restored"  # the key may be spent in a record that was lost

    @property
    def slug(self) -> str:
        """The problem that tells it. Of what a lost record may say, the outcome is unknown."""
        return "outcome-unknown" if self is Refusal.LEDGER_RESTORED else self.value


@dataclass(frozen=True, slots=True)
class FunctionRules:
    """What a function's policy says about admission. `max_term_jump` None is unlimited."""

    authority: Authority = Authority.EXTERNAL
    callers: Callers = Callers.LEADER
    max_term_jump: int | None = None
    registered_units: bool = False


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One request as the fence sees it."""

    key: EffectKey
    scope: Scope
    term: int
    holder: str
    fingerprint: Fingerprint
    covers: str
    rules: FunctionRules = FunctionRules()
    on_duplicate: OnDuplicate = OnDuplicate.REPLAY
    max_attempts: int = 20
    item: str | None = None
    resend: bool = False
    """Sent again by the gateway itself, because the route's guard allows it after "unknown"."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Somebody who speaks under a term about something else than an effect: a unit's items."""

    term: int
    holder: str
    rules: FunctionRules


@dataclass(frozen=True, slots=True)
class Grant:
    """The latest grant of a scope whose terms the gateway gives out."""

    holder: str
    expires_at_ms: int
    draining: bool = False


class UnitState(StrEnum):
    """What the fence has to know of a registered unit."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(slots=True, kw_only=True)
class FenceView:
    """What is on record, read in the transaction that will record the decision.

    `highest_term` 0 means that the scope has accepted none yet. `open_attempts` are those of
    the attempt's scope, destination and `covers` value, of whatever term and effect.
    `is_grantee` says that the principal who asks is the one that the grant was given to; a name
    alone can be said by anybody. `doubted`: the ledger came back older than it was, and an attempt
    under this key may be missing in it.
    """

    now_ms: int
    highest_term: int = 0
    holder: str | None = None
    last_term: int = 0
    grant: Grant | None = None
    is_grantee: bool = False
    has_claim: bool = False
    unit: UnitState | None = None
    prior: PriorEffect | None = None
    open_attempts: Sequence[OpenAttempt] = ()
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class Admit:
    """Write the intent as attempt `n` of its effect, then send."""

    n: int
    raises_term: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """It happened already; give the recorded answer."""

    effect_id: str
    raises_term: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """A predecessor's write to the same thing may still be under way."""

    predecessor: OpenAttempt
    raises_term: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Turned away. `prior` is the effect under the same key where that is the reason."""

    reason: Refusal
    raises_term: bool = False
    prior: PriorEffect | None = None


Decision: TypeAlias = Admit | Replay | Wait | Refuse


def decide(attempt: Attempt, view: FenceView) -> Decision:
    """Decide what to do with `attempt`, given what is on record."""
    refusal = _authority(attempt, view)
    if refusal is not None:
        return Refuse(refusal)
    # From here on an honest higher term counts, whatever follows: a new leader that has to
    # wait already shuts the old one out.
    raises = attempt.term > view.highest_term

    spent = _spent_key(attempt, view.prior)
    if isinstance(spent, Refusal):
        return Refuse(spent, raises, view.prior)
    if spent is not None:
        return Replay(spent.effect_id, raises)

    refusal = _liveness(attempt, view)
    if refusal is not None:
        return Refuse(refusal, raises)
    if view.doubted:
        # Recorded as unknown in the same transaction: it must not be sent by itself.
        return Refuse(Refusal.LEDGER_RESTORED, raises, view.prior)

    predecessor = _predecessor(attempt, view)
    if predecessor is not None:
        return Wait(predecessor, raises)
    return Admit(view.prior.attempts + 1 if view.prior else 1, raises)


def may_speak(standing: Standing, view: FenceView) -> Refusal | None:
    """Decide whether a holder may write to its function's units: steps 1, 2 and 5.

    None lets it, and a term above the highest then counts, as it does for an attempt.
    """
    return _authority(standing, view) or _lease_liveness(standing, view)


def _authority(attempt: Attempt | Standing, view: FenceView) -> Refusal | None:
    """Steps 1 and 2: does this holder speak under a term that still counts?"""
    if attempt.term < view.highest_term:
        return Refusal.STALE_TERM
    rules = attempt.rules
    match rules.authority:
        case Authority.LEASE:
            if attempt.term > view.last_term:
                return Refusal.TERM_NEVER_ISSUED
            named = view.grant is not None and view.grant.holder == attempt.holder
            if not (_is_holder(attempt, view) if named else _may_call(attempt, view)):
                return Refusal.NOT_HOLDER
        case Authority.EXTERNAL:
            jump = attempt.term - view.highest_term
            if view.highest_term and rules.max_term_jump is not None and jump > rules.max_term_jump:
                return Refusal.TERM_JUMP
            contested = attempt.term == view.highest_term and attempt.holder != view.holder
            if contested and not _may_call(attempt, view):
                return Refusal.TERM_CONTESTED
        case never:
            assert_never(never)
    return None


def _is_holder(attempt: Attempt | Standing, view: FenceView) -> bool:
    """Whether who uses the name of the grant's holder may: a claim does not stand in for it.

    The gateway sends again in the holder's name. Where anybody may call, a name is no right.
    """
    by_gateway = isinstance(attempt, Attempt) and attempt.resend
    return view.is_grantee or by_gateway or attempt.rules.callers is Callers.ANY


def _may_call(attempt: Attempt | Standing, view: FenceView) -> bool:
    """Whether somebody else than the leader may send this."""
    match attempt.rules.callers:
        case Callers.ANY:
            return True
        case Callers.LEADER_OR_CLAIMANT:
            return view.has_claim
        case Callers.LEADER:
            return False
        case never:
            assert_never(never)


def _spent_key(attempt: Attempt, prior: PriorEffect | None) -> Refusal | PriorEffect | None:
    """Steps 3 and 4: is the key spent, and by this very request?

    A rejected or no-effect attempt leaves the key free: nothing happened, so nothing can
    happen twice, and a corrected request may go on under the same key.
    """
    if prior is None:
        return None
    if prior.outcome in FREE_AGAIN and not prior.abandoned:
        if prior.rejected >= attempt.max_attempts:
            return Refusal.ATTEMPTS_EXHAUSTED
        return None
    if not prior.fingerprint.same_request(attempt.fingerprint):
        return Refusal.KEY_REUSED
    if prior.abandoned:
        return Refusal.EFFECT_ABANDONED
    if prior.outcome is None:
        return Refusal.IN_FLIGHT
    if prior.outcome is Outcome.UNKNOWN:
        return None if attempt.resend else Refusal.OUTCOME_UNKNOWN
    return Refusal.DUPLICATE if attempt.on_duplicate is OnDuplicate.REJECT else prior


def _liveness(attempt: Attempt, view: FenceView) -> Refusal | None:
    """Step 5: may this leader start anything new?"""
    refusal = _lease_liveness(attempt, view)
    if refusal is not None:
        return refusal
    if attempt.rules.registered_units and view.unit is None:
        return Refusal.UNIT_UNKNOWN
    if view.unit is UnitState.CLOSED:
        return Refusal.UNIT_CLOSED
    return None


def _lease_liveness(attempt: Attempt | Standing, view: FenceView) -> Refusal | None:
    if attempt.rules.authority is not Authority.LEASE:
        return None
    if view.grant is None or view.now_ms >= view.grant.expires_at_ms:
        return Refusal.LEASE_EXPIRED
    return Refusal.LEADER_DRAINING if view.grant.draining else None


def _predecessor(attempt: Attempt, view: FenceView) -> OpenAttempt | None:
    """Step 6: the barrier. A newer term never overtakes an older write to the same thing.

    Only the older attempt's own answer or its seal lifts it; what became of its effect does
    not: an exception or an operator's word stops no packet.
    """
    older = [
        open_
        for open_ in view.open_attempts
        if open_.term < attempt.term or _earlier_claimant(open_, attempt)
    ]
    return unsealed(older, view.now_ms)


def _earlier_claimant(open_: OpenAttempt, attempt: Attempt) -> bool:
    """Whether another worker of the same term has begun on the same item before."""
    return (
        attempt.item is not None
        and open_.item == attempt.item
        and open_.term == attempt.term
        and open_.holder != attempt.holder
    )
