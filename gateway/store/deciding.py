"""Deciding an unknown effect by another word than its attempts' own answers."""

from __future__ import annotations

from typing import Any

from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.errors import InvariantError
from gateway.store.batch import Batch
from gateway.store.rows import EffectRow


def decide_effect(
    batch: Batch,
    effect: EffectRow,
    outcome: Outcome,
    by: ResolvedBy,
    *,
    principal: str,
    reason: str,
    detail: Any = None,
) -> None:
    """Give each unknown attempt of `effect` the outcome that a person or a probe found.

    Each holds others back until its seal all the same: a word stops no packet.
    """
    if effect.outcome is not Outcome.UNKNOWN:
        raise InvariantError(f"effect {effect.id} is {effect.outcome}, not unknown")
    for attempt in effect.tries.values():
        if attempt.outcome is not Outcome.UNKNOWN:
            continue
        if outcome is not Outcome.CONFIRMED and batch.now_ms < attempt.seal_at_ms:
            raise InvariantError(f"attempt {attempt.n} of effect {effect.id} is not sealed")
        attempt.outcome = outcome
        attempt.decided = True
        attempt.reason = by.value
        attempt.ended_at_ms = batch.now_ms
        attempt.open = batch.now_ms < attempt.seal_at_ms
        batch.change_attempt(effect, attempt)
    effect.recount()
    effect.resolved_by = by.value
    effect.settled_at_ms = batch.now_ms
    batch.change_effect(effect)
    batch.journal(
        "effect-resolved",
        effect.scope,
        effect_id=effect.id,
        principal=principal,
        reason=reason,
        detail={"as": outcome.value} | (detail or {}),
    )
