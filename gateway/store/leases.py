"""The verbs of leadership on a batch: decided by the pure machine, recorded with its grant.

A grant raises the fence and records the handover in the transaction that gives it out, so an
old leader is shut out before the new one has heard of its term.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gateway.core import lease as machine
from gateway.core.errors import InvariantError
from gateway.core.ids import Scope
from gateway.core.lease import (
    Answer,
    Ask,
    Changed,
    Ended,
    Granted,
    Lease,
    LeaseRefusal,
    LeaseView,
    Turned,
)
from gateway.store.alerts import leader_lost
from gateway.store.batch import Batch
from gateway.store.candidates import report
from gateway.store.handover import in_flight, unfinished
from gateway.store.lease_records import (
    CandidateReport,
    FunctionTerms,
    LeaseAnswer,
    LeaseRecord,
)
from gateway.store.lease_rows import CandidateRow, LeaseRow
from gateway.store.wanted import Wanted

_NEXT_WHEN_LOST: Final = "no new effect is admitted until an eligible candidate acquires the lease"
_NEXT_WHEN_DRAINING: Final = "what is in flight settles; then the lease ends or is handed off"


def end(batch: Batch, row: LeaseRow, ended: Lease, terms: FunctionTerms, principal: str) -> None:
    """Record that the scope's lease has ended, with what it leaves unfinished."""
    how = ended.ended
    if how is None:
        raise InvariantError(f"the lease of {row.scope} has not ended")
    batch.book.change(row, ended)
    if how is Ended.EXPIRED:
        batch.book.add_loss(row.scope.function, ended.holder, ended.expires_at_ms)
    left = len(unfinished(batch, row.scope, ended.term + 1))
    batch.journal(
        "leader-lost",
        row.scope,
        term=ended.term,
        holder=ended.holder,
        principal=principal or None,
        reason=how.value,
        lease_version=row.version,
        uncertain=left,
        next_action=_NEXT_WHEN_LOST,
        responsible=terms.owner if left else None,
        detail={"ended_at_ms": ended.ended_at_ms, "acquired_at_ms": ended.acquired_at_ms},
    )
    if how is Ended.EXPIRED and left:
        leader_lost(batch, row.scope, ended.holder, ended.term, left, terms.owner)


def bring_up_to_date(batch: Batch, row: LeaseRow, terms: FunctionTerms) -> int:
    """End what time has ended, draining included; return how many effects are in flight."""
    count = in_flight(batch, row.scope)
    if row.lease is not None:
        now = machine.lapse(row.lease, batch.now_ms, count)
        if now is not row.lease:
            end(batch, row, now, terms, "")
    return count


def view_of(
    batch: Batch, row: LeaseRow, count: int, asking: CandidateRow | None = None
) -> LeaseView:
    scope = batch.scopes[row.scope]
    return LeaseView(
        now_ms=batch.now_ms,
        last_term=max(scope.last_term, scope.highest_term, batch.lineage.floor),
        lease=row.lease,
        in_flight=count,
        candidates=batch.book.candidates(row.scope.function),
        asking_since_ms=asking.since_ms if asking else batch.now_ms,
    )


def _grant(
    batch: Batch, row: LeaseRow, granted: Granted, terms: FunctionTerms, principal: str
) -> None:
    """Record a new term: fence, handover, lease and journal in this one transaction."""
    scope, lease = batch.scopes[row.scope], granted.lease
    if lease.term <= max(scope.last_term, scope.highest_term):
        raise InvariantError(f"term {lease.term} of {row.scope} was given out before")
    if granted.before is not None:
        end(batch, row, granted.before, terms, principal)
    left = unfinished(batch, row.scope, lease.term)
    batch.add_handover(scope, lease.term, lease.holder, left)
    previous_term = scope.highest_term
    scope.highest_term = scope.last_term = lease.term
    scope.holder = lease.holder
    batch.change_scope(scope)
    row.transitions += 1
    row.uncertain_at_ms = None
    free_ms = None
    if row.lease is not None and row.lease.ended_at_ms is not None:
        free_ms = lease.acquired_at_ms - row.lease.ended_at_ms
    batch.book.change(row, lease)
    facts: dict[str, Any] = {
        "term": lease.term,
        "holder": lease.holder,
        "principal": principal,
        "lease_version": row.version,
        "uncertain": len(left),
        "responsible": terms.owner if left else None,
    }
    batch.journal(
        "leader-acquired",
        row.scope,
        reason="handed-off" if lease.handed_by else "acquired",
        next_action=(
            f"reconcile {len(left)} unfinished effects of earlier terms before repeating anything"
            if left
            else "the holder commands; older terms are refused"
        ),
        detail={"previous_term": previous_term, "free_ms": free_ms},
        **facts,
    )
    if left:
        batch.journal(
            "handover-reconciling",
            row.scope,
            reason="unfinished-effects",
            next_action=f"settle {len(left)} effects; writes to the same things wait until sealed",
            detail={"effects": left[:100]},
            **facts,
        )


def _record(batch: Batch, row: LeaseRow, count: int | None) -> LeaseRecord:
    scope = batch.scopes[row.scope]
    return LeaseRecord(
        scope=row.scope,
        last_term=scope.last_term,
        lease=row.lease,
        version=row.version,
        transitions=row.transitions,
        now_ms=batch.now_ms,
        in_flight=count,
    )


@dataclass(frozen=True, slots=True)
class Acquiring:
    """Ask for leadership of a scope."""

    scope: Scope
    ask: Ask
    supersede: bool
    report: CandidateReport | None
    terms: FunctionTerms

    def wants(self, wanted: Wanted) -> None:
        wanted.grants.add(self.scope)

    def run(self, batch: Batch) -> LeaseAnswer:
        function, ask, terms = self.scope.function, self.ask, self.terms
        row = batch.book.lease(self.scope)
        mine = report(batch, function, ask.holder, ask.principal, self.report)
        count = bring_up_to_date(batch, row, terms)
        answer = machine.acquire(
            ask, self.supersede, view_of(batch, row, count, mine), terms.rules, terms.eligible
        )
        if isinstance(answer, Granted):
            _grant(batch, row, answer, terms, ask.principal)
        elif isinstance(answer, Turned) and answer.reason is LeaseRefusal.LEASE_HELD:
            _note_follower(batch, row, mine, ask)
        return LeaseAnswer(answer, _record(batch, row, count))


def _note_follower(batch: Batch, row: LeaseRow, mine: CandidateRow, ask: Ask) -> None:
    """Journal once per term that this candidate follows its leader."""
    lease = row.lease
    if lease is None or mine.principal != ask.principal or mine.following_term >= lease.term:
        return
    mine.following_term = lease.term
    batch.book.put_candidate(mine)
    batch.journal(
        "follower",
        row.scope,
        term=lease.term,
        holder=ask.holder,
        principal=ask.principal,
        reason="lease-held",
        lease_version=row.version,
        next_action=f"it follows {lease.holder}",
    )


@dataclass(frozen=True, slots=True)
class Renewing:
    """Extend a live lease. It touches the lease's row alone, and counts nothing."""

    scope: Scope
    ask: Ask
    terms: FunctionTerms

    def wants(self, wanted: Wanted) -> None:
        wanted.leases.add(self.scope)
        wanted.renewals.add(self.scope)

    def run(self, batch: Batch) -> LeaseAnswer:
        row = batch.book.lease(self.scope)
        lease = row.lease
        if lease is not None:
            # Only judged here: a keeper, or the next verb, records that time has ended it.
            lease = machine.lapse(lease, batch.now_ms, in_flight=1)
        view = LeaseView(
            now_ms=batch.now_ms, last_term=batch.scopes[self.scope].last_term, lease=lease
        )
        answer = machine.renew(self.ask, view, self.terms.rules)
        if isinstance(answer, Changed):
            first = lease is not None and lease.renewed_at_ms == lease.acquired_at_ms
            late = row.uncertain_at_ms is not None
            row.uncertain_at_ms = None
            batch.book.change(row, answer.lease, counts=False)
            if first or late:
                batch.journal(
                    "leader-renewing",
                    self.scope,
                    term=answer.lease.term,
                    holder=answer.lease.holder,
                    principal=self.ask.principal,
                    reason="renewed-late" if late else "renewed",
                    lease_version=row.version,
                    next_action="the holder commands",
                )
        return LeaseAnswer(answer, _record(batch, row, None))


Ends = Callable[[LeaseView], Answer]


def _end_or_drain(
    batch: Batch, scope: Scope, ask: Ask, terms: FunctionTerms, verb: Ends
) -> LeaseAnswer:
    row = batch.book.lease(scope)
    count = bring_up_to_date(batch, row, terms)
    answer = verb(view_of(batch, row, count))
    if isinstance(answer, Granted):
        _grant(batch, row, answer, terms, ask.principal)
    elif isinstance(answer, Changed) and answer.lease.ended is not None:
        end(batch, row, answer.lease, terms, ask.principal)
    elif isinstance(answer, Changed):
        batch.book.change(row, answer.lease)
        batch.journal(
            "leader-renewing",
            scope,
            term=answer.lease.term,
            holder=answer.lease.holder,
            principal=ask.principal,
            reason="stepping-down",
            lease_version=row.version,
            uncertain=count,
            next_action=_NEXT_WHEN_DRAINING,
            detail={"drain_until_ms": answer.lease.drain_until_ms, "in_flight": count},
        )
    return LeaseAnswer(answer, _record(batch, row, count))


@dataclass(frozen=True, slots=True)
class Releasing:
    """Give a lease back."""

    scope: Scope
    ask: Ask
    terms: FunctionTerms

    def wants(self, wanted: Wanted) -> None:
        wanted.grants.add(self.scope)

    def run(self, batch: Batch) -> LeaseAnswer:
        return _end_or_drain(
            batch, self.scope, self.ask, self.terms, lambda view: machine.release(self.ask, view)
        )


@dataclass(frozen=True, slots=True)
class SteppingDown:
    """Let what is in flight settle, and admit nothing new."""

    scope: Scope
    ask: Ask
    drain_ms: int
    terms: FunctionTerms

    def wants(self, wanted: Wanted) -> None:
        wanted.grants.add(self.scope)

    def run(self, batch: Batch) -> LeaseAnswer:
        return _end_or_drain(
            batch,
            self.scope,
            self.ask,
            self.terms,
            lambda view: machine.step_down(self.ask, self.drain_ms, view),
        )


@dataclass(frozen=True, slots=True)
class HandingOff:
    """End a lease and grant the next term to a named candidate."""

    scope: Scope
    ask: Ask
    to: str
    terms: FunctionTerms

    def wants(self, wanted: Wanted) -> None:
        wanted.grants.add(self.scope)

    def run(self, batch: Batch) -> LeaseAnswer:
        terms = self.terms
        return _end_or_drain(
            batch,
            self.scope,
            self.ask,
            terms,
            lambda view: machine.hand_off(self.ask, self.to, view, terms.rules, terms.eligible),
        )


LeaseVerb: TypeAlias = Acquiring | Renewing | Releasing | SteppingDown | HandingOff
