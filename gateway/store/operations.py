"""Admission on a batch: decide a proposal, and write the intent if it is admitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from gateway.core.effect import Fingerprint, Outcome
from gateway.core.fence import (
    Admit,
    Attempt,
    Authority,
    Callers,
    Decision,
    FenceView,
    Refuse,
    Replay,
    UnitState,
    Wait,
    decide,
)
from gateway.core.ids import Scope
from gateway.core.lease import Lease
from gateway.core.reconcile import LOST
from gateway.core.work import claim_is_live
from gateway.store import work_rows
from gateway.store.batch import Batch
from gateway.store.handover import raise_term
from gateway.store.records import Proposal, Ruling
from gateway.store.rows import AttemptRow, EffectRow
from gateway.store.wanted import Wanted

_NO_FINGERPRINT = Fingerprint(0, b"")


class Operation(Protocol):
    """Something that a batch can do: says what it needs, then does it."""

    def wants(self, wanted: Wanted) -> None: ...

    def run(self, batch: Batch) -> Any: ...


@dataclass(frozen=True, slots=True)
class Admission:
    """Decide a proposal and record the decision; write the intent if it is admitted."""

    proposal: Proposal

    def wants(self, wanted: Wanted) -> None:
        attempt = self.proposal.attempt
        wanted.things.add((self.proposal.destination, self.proposal.covers))
        if attempt is None:
            wanted.scopes.add(Scope(""))
            return
        wanted.keys.add(attempt.key)
        wanted.scopes.add(attempt.scope)
        wanted.covers.add((attempt.scope, attempt.key.destination, attempt.covers))
        granted = attempt.rules.authority is Authority.LEASE
        wanted.name_term(attempt.scope, attempt.term, granted=granted)
        if attempt.key.unit:
            wanted.units_read.add(attempt.key.unit)
        if attempt.item is not None and attempt.rules.callers is not Callers.LEADER:
            wanted.claimants = True

    def run(self, batch: Batch) -> Ruling:
        proposal = self.proposal
        attempt = proposal.attempt
        if attempt is None:
            return _observe(batch, proposal, proposal.observed_reason or "fence-missing", None)
        scope = batch.scopes[attempt.scope]
        prior = batch.by_key.get(attempt.key)
        if prior is not None:
            if _own_intent(prior, proposal):
                return _ruling(batch, proposal, Admit(1), prior.id, 1)
            batch.strand(prior)
        lease = _latest_lease(batch, attempt)
        view = FenceView(
            now_ms=batch.now_ms,
            highest_term=scope.highest_term,
            holder=scope.holder,
            last_term=scope.last_term,
            grant=lease.for_fence() if lease else None,
            is_grantee=lease is not None and lease.principal == proposal.principal,
            has_claim=_has_claim(batch, attempt),
            unit=_unit(batch, attempt),
            prior=prior.as_prior() if prior else None,
            open_attempts=[
                row.for_fence()
                for row in batch.open_below(
                    attempt.term + (attempt.item is not None),
                    attempt.scope,
                    attempt.key.destination,
                    attempt.covers,
                )
            ],
            doubted=_doubted(batch, attempt, prior),
        )
        decision = decide(attempt, view)
        if decision.raises_term:
            raise_term(batch, scope, attempt.term, attempt.holder, proposal.principal)
        if isinstance(decision, Admit):
            if not proposal.claim:
                return _ruling(batch, proposal, decision, prior.id if prior else "", None)
            return _admit(batch, proposal, attempt, prior, decision)
        reason = _reason(decision)
        if reason == LOST and proposal.claim and not proposal.observe:
            _count(batch, proposal, attempt, reason)
            return _hold(batch, proposal, attempt, prior, decision)
        if proposal.observe and proposal.claim:
            return _observe(batch, proposal, reason, decision)
        if not isinstance(decision, Replay):
            _count(batch, proposal, attempt, reason)
        return _ruling(batch, proposal, decision, prior.id if prior else "", None)


def _latest_lease(batch: Batch, attempt: Attempt) -> Lease | None:
    """Return the scope's latest lease, where the gateway grants its terms."""
    if attempt.rules.authority is not Authority.LEASE:
        return None
    return batch.book.lease(attempt.scope).lease


def _doubted(batch: Batch, attempt: Attempt, prior: EffectRow | None) -> bool:
    """Whether an attempt under this key may be missing since the ledger came back older."""
    doubt = batch.lineage.doubt
    if doubt is None or not doubt.about(attempt.key.function, attempt.key.unit):
        return False
    return prior is None or doubt.reaches(prior.outcome, prior.settled_at_ms)


def _has_claim(batch: Batch, attempt: Attempt) -> bool:
    """Whether this holder has a live claim on the item that it names, in a unit of this very
    function: terms are numbers, and another function's may be equal."""
    if attempt.item is None or attempt.rules.callers is not Callers.LEADER_OR_CLAIMANT:
        return False
    if _unit(batch, attempt) is None:
        return False
    item = work_rows.load_item(batch.db, attempt.key.unit, attempt.item)
    return item is not None and claim_is_live(item, attempt.holder, attempt.term, batch.now_ms)


def _unit(batch: Batch, attempt: Attempt) -> UnitState | None:
    unit = attempt.key.unit
    if not unit:
        return None
    scope = Scope(attempt.key.function, unit)
    if scope not in batch.units:
        batch.units[scope] = work_rows.unit_for_fence(batch.db, *scope)
    return batch.units[scope]


def _own_intent(prior: EffectRow, proposal: Proposal) -> bool:
    """Whether the record is this very proposal's: its commit had been thought lost."""
    return (
        prior.id == proposal.effect_id
        and prior.outcome is None
        and prior.attempts == 1  # a later one is somebody else's
        and proposal.claim
    )


def _reason(decision: Decision) -> str:
    match decision:
        case Refuse(reason):
            return reason.value
        case Wait():
            return "predecessor-in-flight"
        case _:
            return "duplicate"


def _count(batch: Batch, proposal: Proposal, attempt: Attempt, reason: str) -> None:
    batch.count_refusal(
        (
            attempt.key.function,
            attempt.key.unit,
            attempt.key.destination,
            proposal.principal,
            attempt.holder,
            attempt.term,
            reason,
        )
    )


def _admit(
    batch: Batch,
    proposal: Proposal,
    attempt: Attempt,
    prior: EffectRow | None,
    admit: Admit,
    *,
    held: bool = False,
) -> Ruling:
    if prior is None:
        effect = _new_effect(batch, proposal, observed=None)
    else:
        effect = prior
        effect.attempts = admit.n
        effect.outcome = effect.resolved_by = effect.settled_at_ms = None
        effect.scope = attempt.scope  # another one, if the function's leadership has changed
        effect.covers = proposal.covers
    tried_before = any(t.outcome is Outcome.UNKNOWN for t in effect.tries.values())
    _write_intent(batch, proposal, effect, admit.n, held=held)
    if prior is not None:
        batch.change_effect(effect)
    return _ruling(batch, proposal, admit, effect.id, admit.n, tried_before=tried_before)


def _hold(
    batch: Batch, proposal: Proposal, attempt: Attempt, prior: EffectRow | None, decision: Decision
) -> Ruling:
    """Record, in place of an intent, the attempt that may be missing: of unknown outcome, begun
    when the first missing one may have been, and sealed when the last one is."""
    first = Admit(prior.attempts + 1 if prior else 1)
    written = _admit(batch, proposal, attempt, prior, first, held=True)
    effect, n = batch.effects[written.effect_id], written.n or 1
    row = effect.tries[n]
    row.outcome, row.reason, row.ended_at_ms = Outcome.UNKNOWN, LOST, batch.now_ms
    batch.change_attempt(effect, row)
    effect.recount()
    batch.change_effect(effect)
    batch.journal(
        "effect-held",
        effect.scope,
        term=attempt.term,
        holder=attempt.holder,
        effect_id=effect.id,
        reason=LOST,
        next_action="find out at the destination whether it happened before the ledger was lost",
    )
    ruling = _ruling(batch, proposal, decision, effect.id, None)
    ruling.held = n
    return ruling


def _observe(batch: Batch, proposal: Proposal, reason: str, decision: Decision | None) -> Ruling:
    """Record what would have been refused, outside the uniqueness of keys, and let it go."""
    effect = _new_effect(batch, proposal, observed=reason)
    _write_intent(batch, proposal, effect, 1)
    return _ruling(batch, proposal, decision, effect.id, 1, observed=reason)


def _new_effect(batch: Batch, proposal: Proposal, *, observed: str | None) -> EffectRow:
    attempt = proposal.attempt
    scope = attempt.scope if attempt else Scope("")
    unit = attempt.key.unit if attempt else ""
    effect = EffectRow(
        id=proposal.effect_id,
        key=attempt.key if attempt and observed is None else None,
        scope=scope,
        destination=proposal.destination,
        covers=proposal.covers,
        outcome=None,
        attempts=1,
        rejected=0,
        version=1,
        abandoned=False,
        resolved_by=None,
        resource=None,
        settled_at_ms=None,
    )
    key = effect.key.key if effect.key else None
    batch.add_effect(
        effect,
        (
            effect.id,
            proposal.destination,
            scope.function,
            unit,
            key,
            scope.unit,
            proposal.item,
            proposal.covers,
            proposal.principal,
            None,
            1,
            observed,
            batch.now_ms,
        ),
    )
    return effect


def _write_intent(
    batch: Batch, proposal: Proposal, effect: EffectRow, n: int, *, held: bool = False
) -> None:
    attempt = proposal.attempt
    fingerprint = attempt.fingerprint if attempt else _NO_FINGERPRINT
    deadline = batch.now_ms + proposal.timeout_ms
    doubt = batch.lineage.doubt if held else None
    sent = proposal.sent
    row = AttemptRow(
        n=n,
        term=attempt.term if attempt else 0,
        outcome=None,
        open=True,
        decided=False,
        deadline_at_ms=deadline,
        seal_at_ms=deadline + proposal.settle_ms,
        instance=batch.instance,
        fingerprint=fingerprint,
    )
    batch.add_attempt(
        effect,
        row,
        attempt.holder if attempt else "",
        proposal.item,
        (
            effect.id,
            n,
            effect.scope.function,
            effect.scope.unit,
            effect.destination,
            effect.covers,
            row.term,
            attempt.holder if attempt else "",
            proposal.principal,
            batch.instance,
            proposal.method,
            proposal.target,
            fingerprint.version,
            fingerprint.raw,
            fingerprint.canonical,
            proposal.policy_digest,
            doubt.from_ms if doubt else batch.now_ms,
            row.deadline_at_ms,
            row.seal_at_ms,
            proposal.request_head,
            proposal.request_body,
            proposal.request_file,
            proposal.item,
            proposal.route,
            sent.method if sent else None,
            sent.target if sent else None,
            sent.head if sent else None,
            sent.body if sent else None,
        ),
    )


def _ruling(
    batch: Batch,
    proposal: Proposal,
    decision: Decision | None,
    effect_id: str,
    n: int | None,
    *,
    tried_before: bool = False,
    observed: str | None = None,
) -> Ruling:
    scope = batch.scopes.get(proposal.attempt.scope) if proposal.attempt else None
    return Ruling(
        decision=decision,
        effect_id=effect_id,
        n=n,
        now_ms=batch.now_ms,
        highest_term=scope.highest_term if scope else 0,
        tried_before=tried_before,
        observed=observed,
    )
