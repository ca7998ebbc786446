"""Deciding an unknown effect by another word than its attempts' own answers."""

from __future__ import annotations

from typing import Any, Final

from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.errors import InvariantError
from gateway.store.batch import Batch
from gateway.store.rows import EffectRow

CLOSING_MS: Final = 1_000
"""How long past its time a probe's asker has for closing it."""


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
    close_lost_probes(batch, effect.id)
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


def close_lost_probes(batch: Batch, effect_id: str) -> None:
    """Close the probes of an effect that nobody will close: what they would have found is lost.

    Those are the ones of a run that is over, and those that should have ended long ago: closing
    them may have failed. A probe has as long as an attempt has.
    """
    over = "instance <> ?3"
    if not batch.db.alone:
        over += " AND instance NOT IN (SELECT id FROM instance WHERE stopped_at_ms IS NULL)"
    batch.db.execute(
        "UPDATE probe SET ended_at_ms = ?1, verdict = 'lost' "
        f"WHERE effect_id = ?2 AND ended_at_ms IS NULL AND (({over}) OR started_at_ms + ?4 "
        "+ (SELECT max(deadline_at_ms - created_at_ms) FROM attempt WHERE effect_id = ?2) <= ?1)",
        (batch.now_ms, effect_id, batch.instance, CLOSING_MS),
    )
