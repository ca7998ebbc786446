"""Who speaks to a unit of work: each write to one asks the fence first, like an effect does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.core.fence import (
    Authority,
    Callers,
    FenceView,
    Refusal,
    Standing,
    may_speak,
)
from gateway.core.lease import Lease
from gateway.core.work import UnitStatus, WorkRefusal
from gateway.store import work_rows
from gateway.store.batch import Batch
from gateway.store.handover import raise_term
from gateway.store.wanted import Wanted
from gateway.store.work_records import Speech, WorkAnswer


def want_speech(wanted: Wanted, speech: Speech) -> None:
    wanted.scopes.add(speech.scope)
    wanted.units.add(speech.unit)
    granted = speech.rules.authority is Authority.LEASE
    wanted.name_term(speech.scope, speech.term, granted=granted)


def refused_by_fence(batch: Batch, speech: Speech) -> WorkAnswer | None:
    """Return the refusal if the fence does not let this holder speak; raise the term if it is
    honestly higher."""
    batch.flush()  # what the batch has done so far counts for the statements that follow
    scope = batch.scopes[speech.scope]
    rules = speech.rules
    by_claim = rules.callers is Callers.LEADER_OR_CLAIMANT and not speech.leader_only
    if speech.leader_only and rules.callers is Callers.LEADER_OR_CLAIMANT:
        rules = replace(rules, callers=Callers.LEADER)
    lease = _latest_lease(batch, speech)
    view = FenceView(
        now_ms=batch.now_ms,
        highest_term=scope.highest_term,
        holder=scope.holder,
        last_term=scope.last_term,
        grant=lease.for_fence() if lease else None,
        is_grantee=lease is not None and lease.principal == speech.principal,
        has_claim=not speech.leader_only,
    )
    refusal = may_speak(Standing(speech.term, speech.holder, rules), view)
    if refusal is Refusal.LEADER_DRAINING and speech.ends_work:
        refusal = None
    if refusal is not None:
        count_refusal(batch, speech, refusal)
        return WorkAnswer(refusal=refusal, highest_term=scope.highest_term, now_ms=batch.now_ms)
    if speech.term > scope.highest_term:
        if by_claim:
            # Who first uses a term leads under it, and that is never a worker that only claims.
            why = f"nobody has led under term {speech.term} here yet: its leader comes first"
            return WorkAnswer(
                refusal=WorkRefusal.NOT_CLAIMED,
                reasons=[why],
                highest_term=scope.highest_term,
                now_ms=batch.now_ms,
            )
        raise_term(batch, scope, speech.term, speech.holder, speech.principal)
    return None


def leads(batch: Batch, speech: Speech) -> bool:
    """Whether the speaker, whom the fence has let through, is the leader itself."""
    if batch.scopes[speech.scope].holder != speech.holder:
        return False
    if speech.rules.authority is not Authority.LEASE:
        return True
    # Where anybody may call, the fence lets anybody use the leader's name.
    lease = _latest_lease(batch, speech)
    return lease is not None and lease.principal == speech.principal


def _latest_lease(batch: Batch, speech: Speech) -> Lease | None:
    if speech.rules.authority is not Authority.LEASE:
        return None
    return batch.book.lease(speech.scope).lease


def refused_as_closed(batch: Batch, speech: Speech) -> WorkAnswer | None:
    """Return the refusal if there is no such unit, or it takes no more work."""
    status = work_rows.unit_status(batch.db, speech.scope.function, speech.unit)
    if status is UnitStatus.OPEN:
        return None
    reason = Refusal.UNIT_UNKNOWN if status is None else Refusal.UNIT_CLOSED
    count_refusal(batch, speech, reason)
    return taken(batch, speech, refusal=reason)


def count_refusal(batch: Batch, speech: Speech, refusal: Refusal) -> None:
    batch.count_refusal(
        (
            speech.scope.function, speech.unit, "", speech.principal, speech.holder,
            speech.term, refusal.value,
        )
    )  # fmt: skip


def taken(batch: Batch, speech: Speech, **more: Any) -> WorkAnswer:
    highest = batch.scopes[speech.scope].highest_term
    return WorkAnswer(highest_term=highest, now_ms=batch.now_ms, **more)


def note(
    batch: Batch, speech: Speech, kind: str, reason: str, next_action: str, **more: Any
) -> None:
    """Journal a unit's transition with its last checkpoint."""
    row = batch.db.execute("SELECT checkpoint FROM unit WHERE unit = ?", (speech.unit,)).fetchone()
    batch.journal(
        kind,
        speech.scope._replace(unit=speech.unit),
        term=speech.term or None,
        holder=speech.holder or None,
        principal=speech.principal,
        reason=reason,
        checkpoint=row[0] if row else None,
        next_action=next_action,
        **more,
    )
