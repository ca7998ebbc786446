"""What a scope's older terms left behind, as a batch sees it."""

from __future__ import annotations

from gateway.core.effect import Outcome
from gateway.core.ids import Scope
from gateway.store.batch import Batch
from gateway.store.rows import ScopeRow


def unfinished(batch: Batch, scope: Scope, below_term: int) -> list[str]:
    """Return the effects of older terms that are still in flight or unknown.

    The scope's open attempts and their effects have to be loaded.
    """
    older = {row.effect_id for row in batch.open.get(scope, {}).values() if row.term < below_term}
    return sorted(
        effect_id
        for effect_id in older
        if batch.effects[effect_id].outcome in (None, Outcome.UNKNOWN)
    )


def in_flight(batch: Batch, scope: Scope) -> int:
    """Return how many effects of the scope are under way. Stranded ones are not."""
    ids = {row.effect_id for row in batch.open.get(scope, {}).values()}
    for effect_id in ids:
        batch.strand(batch.effects[effect_id])
    return sum(batch.effects[effect_id].outcome is None for effect_id in ids)


def raise_term(batch: Batch, scope: ScopeRow, term: int, holder: str, principal: str) -> None:
    """Raise the highest term and record, in the same transaction, what the older terms left."""
    left = unfinished(batch, scope.scope, term)
    batch.add_handover(scope, term, holder, left)
    batch.journal(
        "leader-acquired",
        scope.scope,
        term=term,
        holder=holder,
        principal=principal,
        reason="higher-term-seen",
        uncertain=len(left),
        detail={"previous_term": scope.highest_term, "unfinished": len(left)},
    )
    scope.highest_term = term
    scope.last_term = max(scope.last_term, term)
    scope.holder = holder
    batch.change_scope(scope)
