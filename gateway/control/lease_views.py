"""Records of leadership as they are shown, to `/v1` and the command line alike."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.candidates import Eligibility, cooling, is_fresh, rank, why_not
from gateway.core.fence import Authority
from gateway.core.lease import Lease, LeaseRules, state_of
from gateway.core.policy import Function
from gateway.store.lease_records import (
    CandidateRecord,
    FunctionTerms,
    LeaseRecord,
    TransitionRecord,
)
from gateway.wire.control import instant
from gateway.wire.leadership import (
    CandidateOut,
    CoolOffOut,
    EligibleOut,
    ExceptionsOut,
    FunctionOut,
    LeaseOut,
    LeaseTimesOut,
    TransitionOut,
)


def terms_of(function: Function | None) -> FunctionTerms:
    """Return what the policy says of leadership; the defaults where no policy says anything."""
    if function is None:
        return FunctionTerms(rules=LeaseRules(), eligible=Eligibility())
    return FunctionTerms(
        rules=function.lease or LeaseRules(),
        eligible=function.eligible,
        owner=function.exceptions_owner,
    )


def page_of_leases(
    records: Sequence[LeaseRecord], cursor: str | None, limit: int
) -> tuple[Sequence[LeaseRecord], str | None]:
    """Return the page behind `cursor` of `records`, which are in the order of their scopes, and
    the cursor of the next."""
    if cursor is not None:
        behind = tuple(cursor.split("/", 1))
        records = [record for record in records if tuple(record.scope) > behind]
    page = records[:limit]
    return page, "/".join(page[-1].scope) if len(records) > limit else None


def live_lease(record: LeaseRecord) -> Lease | None:
    """Return the lease if it is live. Time may have ended it before a keeper notes that."""
    lease = record.lease
    if lease is None or lease.ended is not None or record.now_ms >= lease.expires_at_ms:
        return None
    return lease


def lease_out(
    record: LeaseRecord,
    margin_ms: int,
    *,
    counted: bool = False,
    attempt_in_ms: int | None = None,
) -> LeaseOut:
    """Return a lease for showing. `counted` shows how many effects are in flight."""
    lease, live = record.lease, live_lease(record)
    reason = None
    if lease is not None and live is None:
        reason = lease.ended.value if lease.ended else "expired"
    return LeaseOut(
        function=record.scope.function,
        unit=record.scope.unit or None,
        holder=live.holder if live else None,
        term=record.last_term,
        acquired_at=instant(lease.acquired_at_ms) if lease else None,
        renewed_at=instant(lease.renewed_at_ms) if lease else None,
        expires_at=instant(live.expires_at_ms) if live else None,
        duration_ms=lease.duration_ms if lease else None,
        remaining_ms=live.expires_at_ms - record.now_ms if live else 0,
        transitions=record.transitions,
        version=record.version,
        state=state_of(lease, record.now_ms, margin_ms).value,
        draining=live is not None and live.draining,
        reason=reason,
        last_holder=lease.holder if lease else None,
        attempt_in_ms=None if live else attempt_in_ms,
        in_flight=record.in_flight if counted else None,
    )


def candidate_out(record: CandidateRecord, terms: FunctionTerms, now_ms: int) -> CandidateOut:
    candidate = record.candidate
    fresh_for_ms = terms.rules.fresh_for_ms
    reasons = [why] if (why := why_not(candidate, terms.eligible)) else []
    if not is_fresh(candidate, now_ms, fresh_for_ms):
        silent_ms = now_ms - candidate.reported_at_ms
        reasons.append(
            f"{candidate.holder!r} has not reported for {silent_ms} ms; a report counts for "
            f"{fresh_for_ms} ms"
        )
    return CandidateOut(
        function=record.function,
        holder=candidate.holder,
        principal=candidate.principal,
        version=candidate.version,
        region=candidate.region,
        ready=candidate.ready,
        priority=candidate.priority,
        reported_at=instant(candidate.reported_at_ms),
        fresh_for_ms=max(0, candidate.reported_at_ms + fresh_for_ms - now_ms),
        cooling_off_ms=cooling(candidate, terms.eligible, now_ms),
        eligible=not reasons,
        reasons=reasons,
    )


def candidates_out(
    records: Sequence[CandidateRecord], terms: FunctionTerms, now_ms: int
) -> list[CandidateOut]:
    """Return those that may lead, best first, and then the others."""
    ranked = rank(
        [record.candidate for record in records], terms.eligible, now_ms, terms.rules.fresh_for_ms
    )
    place = {candidate.holder: at for at, candidate in enumerate(ranked)}
    in_order = sorted(
        records, key=lambda one: (place.get(one.candidate.holder, len(place)), one.candidate.holder)
    )
    return [candidate_out(record, terms, now_ms) for record in in_order]


def function_out(function: Function) -> FunctionOut:
    leased = function.rules.authority is Authority.LEASE
    exceptions = None
    if function.exceptions_owner:
        exceptions = ExceptionsOut(
            owner=function.exceptions_owner, deadline_ms=function.exceptions_deadline_ms
        )
    return FunctionOut(
        function=function.name,
        authority=function.rules.authority.value,
        leadership="unit" if function.per_unit else "function",
        callers=function.rules.callers.value,
        units="registered" if function.rules.registered_units else "free",
        max_term_jump=function.rules.max_term_jump,
        lease=_times_out(function.lease or LeaseRules()) if leased else None,
        eligible=_eligible_out(function.eligible) if leased else None,
        exceptions=exceptions,
        digest=function.digest,
    )


def _times_out(rules: LeaseRules) -> LeaseTimesOut:
    return LeaseTimesOut(
        ttl_ms=rules.ttl_ms,
        renew_every_ms=rules.renew_every_ms,
        margin_ms=rules.margin_ms,
        prefer_for_ms=rules.prefer_for_ms,
        fresh_for_ms=rules.fresh_for_ms,
    )


def _eligible_out(eligible: Eligibility) -> EligibleOut:
    cool_off = eligible.cool_off
    return EligibleOut(
        versions=None if eligible.versions is None else str(eligible.versions),
        regions=None if eligible.regions is None else sorted(eligible.regions),
        preferred=eligible.preferred,
        upgrades=eligible.upgrades.value,
        cool_off=None
        if cool_off is None
        else CoolOffOut(
            losses=cool_off.losses, within_ms=cool_off.within_ms, lasts_ms=cool_off.lasts_ms
        ),
    )


def transition_out(record: TransitionRecord) -> TransitionOut:
    return TransitionOut(
        id=record.id,
        at=instant(record.at_ms),
        kind=record.kind,
        function=record.function,
        unit=record.unit or None,
        term=record.term,
        holder=record.holder,
        lease_version=record.lease_version,
        reason=record.reason,
        checkpoint=record.checkpoint,
        uncertain_effects=record.uncertain,
        next_action=record.next_action,
        responsible=record.responsible,
        effect_id=record.effect_id,
        principal=record.principal,
        detail=None if record.detail is None else dict(record.detail),
    )
