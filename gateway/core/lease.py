"""The lease of a scope: who leads, under which term, until when. A pure state machine.

A lease keeps honest workers apart; it stops nobody who was paused and wakes up late. That is
the fence's work (`gateway.core.fence`), and a grant raises the fence in the same transaction.

Rules of this file
------------------
1. Nothing here does I/O, reads a clock or rolls dice. The caller loads the view, asks, and
   writes the answer down in ONE transaction, at the store's time.
2. Every verb works on a lease that has been brought up to date by `lapse` first.
3. A lease that has ended never lives again: the next leadership is a new term.
4. A term is never given out twice, whatever is released, deleted or restarted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from gateway.core.candidates import (
    Candidate,
    Eligibility,
    is_fresh,
    rank,
    why_not,
    worker_name,
)
from gateway.core.fence import Grant
from gateway.core.lease_words import GIVEN_BACK as GIVEN_BACK
from gateway.core.lease_words import Ended as Ended
from gateway.core.lease_words import LeaseRefusal as LeaseRefusal
from gateway.core.lease_words import LeaseRules as LeaseRules
from gateway.core.lease_words import LeaseState as LeaseState


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The latest lease of a scope, live or ended. Instants are the store's."""

    term: int
    holder: str
    principal: str
    acquired_at_ms: int
    renewed_at_ms: int
    expires_at_ms: int
    duration_ms: int
    drain_until_ms: int | None = None
    ended: Ended | None = None
    ended_at_ms: int | None = None
    handed_by: str | None = None

    @property
    def draining(self) -> bool:
        return self.drain_until_ms is not None

    def end(self, how: Ended, at_ms: int) -> Lease:
        return replace(self, ended=how, ended_at_ms=at_ms)

    def for_fence(self) -> Grant:
        """Return what the fence has to know. One that has ended counts no further than that."""
        until_ms = self.expires_at_ms
        if self.ended_at_ms is not None:
            until_ms = min(until_ms, self.ended_at_ms)
        return Grant(self.holder, until_ms, self.draining)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who asks, and what it says that it holds. `operator` may end what another holds, but
    has to name it exactly all the same."""

    holder: str
    principal: str
    term: int = 0
    operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseView:
    """What is on record of a scope, read in the transaction that will record the answer.

    `in_flight` counts the scope's effects in flight. `candidates` are those of the function,
    the asking one among them. `asking_since_ms` is when the asking one first reported.
    """

    now_ms: int
    last_term: int
    lease: Lease | None
    in_flight: int = 0
    candidates: Sequence[Candidate] = ()
    asking_since_ms: int = 0


@dataclass(frozen=True, slots=True)
class Granted:
    """A new term. `before` is the lease that it ended, if one was live."""

    lease: Lease
    before: Lease | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """Nothing changes: asked before, and answered so."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Changed:
    """The lease as it is from now on, under the same term."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Turned:
    """Nothing changes. `why` is a sentence; `rival` who holds the lease, or is preferred."""

    reason: LeaseRefusal
    why: str
    rival: str | None = None
    retry_ms: int | None = None


Answer: TypeAlias = Granted | Kept | Changed | Turned


def lapse(lease: Lease, now_ms: int, in_flight: int) -> Lease:
    """Return the lease as it stands at `now_ms`: time may have ended it, or its draining."""
    if lease.ended is not None:
        return lease
    if lease.drain_until_ms is not None:
        done_ms = lease.drain_until_ms
        if in_flight == 0:
            done_ms = min(done_ms, now_ms)  # met late, it ended no later for that
        if done_ms <= now_ms and done_ms < lease.expires_at_ms:
            return lease.end(Ended.DRAINED, done_ms)
    if now_ms >= lease.expires_at_ms:
        return lease.end(Ended.EXPIRED, lease.expires_at_ms)
    return lease


def state_of(lease: Lease | None, now_ms: int, margin_ms: int) -> LeaseState:
    """Return how a lease is shown at `now_ms`."""
    if lease is None:
        return LeaseState.CANDIDATE
    if lease.ended is not None or now_ms >= lease.expires_at_ms:
        return LeaseState.LOST
    if now_ms >= lease.expires_at_ms - margin_ms:
        return LeaseState.UNCERTAIN
    if lease.renewed_at_ms > lease.acquired_at_ms:
        return LeaseState.RENEWING
    return LeaseState.ACQUIRED


def acquire(
    ask: Ask, supersede: bool, view: LeaseView, rules: LeaseRules, eligible: Eligibility
) -> Answer:
    """Ask for leadership."""
    lease = view.lease
    now_ms = view.now_ms
    if lease is not None and lease.ended is None:
        same_principal = lease.principal == ask.principal
        if lease.holder == ask.holder and same_principal:
            return Kept(lease)
        again = worker_name(lease.holder) == worker_name(ask.holder) and same_principal
        # Another principal under the very same holder's name would get a term that the fence
        # cannot tell from the one before: it tells holders apart by name.
        if not (supersede and again):
            return _held(lease, now_ms)
    me = next((c for c in view.candidates if c.holder == ask.holder), None)
    if me is None:
        me = Candidate(holder=ask.holder, principal=ask.principal)
    if me.principal != ask.principal:
        # What is reported under this name is another's: it says nothing about who asks.
        why: str | None = f"{ask.holder!r} is the name of a candidate of another principal"
    else:
        why = why_not(me, eligible)
    if why is not None:
        return Turned(LeaseRefusal.NOT_ELIGIBLE, why)
    if lease is None or lease.ended is not None:
        polite = _polite(me, view, rules, eligible)
        if polite is not None:
            return polite
    before = None
    if lease is not None and lease.ended is None:
        before = lease.end(Ended.SUPERSEDED, now_ms)
    return Granted(_grant(view, ask.holder, ask.principal, rules), before)


def _held(lease: Lease, now_ms: int) -> Turned:
    left_ms = max(lease.expires_at_ms - now_ms, 0)
    return Turned(
        LeaseRefusal.LEASE_HELD,
        f"{lease.holder} leads under term {lease.term} for another {left_ms} ms unless it renews.",
        rival=lease.holder,
        retry_ms=left_ms,
    )


def _polite(
    me: Candidate, view: LeaseView, rules: LeaseRules, eligible: Eligibility
) -> Turned | None:
    """Leave a better candidate its turn, for a bounded time.

    Bounded for each asker by its own first report, so that candidates which report and never
    ask cannot stall an election.
    """
    free_since_ms = view.asking_since_ms
    if view.lease is not None and view.lease.ended_at_ms is not None:
        free_since_ms = max(free_since_ms, view.lease.ended_at_ms)
    left_ms = free_since_ms + rules.prefer_for_ms - view.now_ms
    if left_ms <= 0:
        return None
    ranked = heirs(view.lease, view.candidates, view.now_ms, rules, eligible)
    if not ranked or ranked[0].holder == me.holder:
        return None
    return Turned(
        LeaseRefusal.NOT_PREFERRED,
        f"{ranked[0].holder} is preferred and has reported lately; anyone who is eligible may "
        f"acquire in {left_ms} ms.",
        rival=ranked[0].holder,
        retry_ms=left_ms,
    )


def heirs(
    lease: Lease | None,
    candidates: Sequence[Candidate],
    now_ms: int,
    rules: LeaseRules,
    eligible: Eligibility,
) -> list[Candidate]:
    """Return who may lead next, best first. Whoever gave the lease back is nobody's better:
    it wanted to go, and others need not wait for it."""
    ranked = rank(candidates, eligible, now_ms, rules.fresh_for_ms)
    if lease is None or lease.ended not in GIVEN_BACK:
        return ranked
    return sorted(ranked, key=lambda one: one.holder == lease.holder)


def _grant(
    view: LeaseView, holder: str, principal: str, rules: LeaseRules, handed_by: str | None = None
) -> Lease:
    return Lease(
        term=view.last_term + 1,
        holder=holder,
        principal=principal,
        acquired_at_ms=view.now_ms,
        renewed_at_ms=view.now_ms,
        expires_at_ms=view.now_ms + rules.ttl_ms,
        duration_ms=rules.ttl_ms,
        handed_by=handed_by,
    )


def _holds(ask: Ask, lease: Lease | None) -> bool:
    """Whether `lease` is exactly the one that the ask names."""
    if lease is None or lease.holder != ask.holder or lease.term != ask.term:
        return False
    return ask.operator or lease.principal == ask.principal


def _not(reason: LeaseRefusal, ask: Ask, view: LeaseView) -> Turned:
    """Say what is on record instead of what the ask names."""
    lease = view.lease
    if lease is None:
        found = "nobody has been granted this scope yet"
    elif lease.ended is not None:
        found = f"term {lease.term} of {lease.holder} has ended ({lease.ended.value})"
    else:
        found = f"{lease.holder} leads under term {lease.term}"
    rival = lease.holder if lease is not None and lease.ended is None else None
    return Turned(reason, f"{ask.holder} names term {ask.term}, but {found}.", rival=rival)


def renew(ask: Ask, view: LeaseView, rules: LeaseRules) -> Answer:
    """Extend a live lease. There is no resurrection: at its expiry a lease is over."""
    lease = view.lease
    # An operator may end what another holds, never prolong it.
    if lease is None or lease.ended is not None or not _holds(replace(ask, operator=False), lease):
        return _not(LeaseRefusal.LEASE_GONE, ask, view)
    return Changed(
        replace(
            lease,
            renewed_at_ms=view.now_ms,
            # Never shorter: the holder was told, and counts on it.
            expires_at_ms=max(lease.expires_at_ms, view.now_ms + rules.ttl_ms),
            duration_ms=rules.ttl_ms,
        )
    )


def release(ask: Ask, view: LeaseView) -> Answer:
    """Give a lease back. What it does not name exactly, it does not touch."""
    lease = view.lease
    if lease is None or not _holds(ask, lease):
        return _not(LeaseRefusal.NOT_HOLDER, ask, view)
    if lease.ended in (Ended.RELEASED, Ended.DRAINED):
        return Kept(lease)
    if lease.ended is not None:
        return _not(LeaseRefusal.NOT_HOLDER, ask, view)
    return Changed(lease.end(Ended.RELEASED, view.now_ms))


def step_down(ask: Ask, drain_ms: int, view: LeaseView) -> Answer:
    """Let what is in flight settle and admit nothing new, for at most `drain_ms`."""
    lease = view.lease
    if lease is None or not _holds(ask, lease):
        return _not(LeaseRefusal.NOT_HOLDER, ask, view)
    if lease.ended is Ended.DRAINED or (lease.ended is None and lease.draining):
        return Kept(lease)
    if lease.ended is not None:
        return _not(LeaseRefusal.NOT_HOLDER, ask, view)
    draining = replace(lease, drain_until_ms=view.now_ms + drain_ms)
    return Changed(lapse(draining, view.now_ms, view.in_flight))


def hand_off(
    ask: Ask, to: str, view: LeaseView, rules: LeaseRules, eligible: Eligibility
) -> Answer:
    """End a lease and grant the next term to the candidate `to`, in one step.

    `to` is a holder, or a worker's name where any of its incarnations will do.
    """
    lease = view.lease
    if lease is not None and lease.handed_by == _handing(ask) and _names(to, lease.holder):
        return Kept(lease)  # asked before; the answer was lost
    if lease is None or not _holds(ask, lease) or lease.ended not in (None, Ended.DRAINED):
        return _not(LeaseRefusal.NOT_HOLDER, ask, view)
    if to == lease.holder:
        return Turned(LeaseRefusal.NOT_ELIGIBLE, f"{to} is the one who hands off.")
    target = _target(to, view, rules, eligible, besides=lease.holder)
    if isinstance(target, Turned):
        return target
    granted = _grant(view, target.holder, target.principal, rules, handed_by=_handing(ask))
    before = lease.end(Ended.HANDED_OFF, view.now_ms) if lease.ended is None else None
    return Granted(granted, before)


def _handing(ask: Ask) -> str:
    return f"{ask.holder}/{ask.term}/{ask.principal}"


def _names(to: str, holder: str) -> bool:
    return to in (holder, worker_name(holder))


def _target(
    to: str, view: LeaseView, rules: LeaseRules, eligible: Eligibility, besides: str
) -> Candidate | Turned:
    """Return the candidate that `to` names, if it may lead now; never `besides`."""
    named = [c for c in view.candidates if _names(to, c.holder) and c.holder != besides]
    for candidate in rank(named, eligible, view.now_ms, rules.fresh_for_ms):
        return candidate
    if not named:
        why = f"{to} is no candidate of this function; it has to report itself first."
    else:
        fresh = [c for c in named if is_fresh(c, view.now_ms, rules.fresh_for_ms)]
        reason = why_not(fresh[0], eligible) if fresh else None
        why = reason or f"{to} has not reported for {rules.fresh_for_ms} ms or longer."
    return Turned(LeaseRefusal.NOT_ELIGIBLE, why)


def no_candidate(view: LeaseView, rules: LeaseRules, eligible: Eligibility) -> list[str] | None:
    """Return why nobody can lead a free scope, one sentence per fresh candidate that may not;
    None while somebody can, or while somebody leads."""
    if view.lease is not None and view.lease.ended is None:
        return None
    fresh = [c for c in view.candidates if is_fresh(c, view.now_ms, rules.fresh_for_ms)]
    reasons = [why_not(candidate, eligible) for candidate in fresh]
    if any(reason is None for reason in reasons):
        return None
    return [reason for reason in reasons if reason is not None]
