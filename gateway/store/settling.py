"""Settlement on a batch: what came of an attempt, and how a relayed stream ended."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from gateway.core.effect import FREE_AGAIN, Outcome, settled_attempt
from gateway.core.errors import RecordLost
from gateway.store.batch import Batch
from gateway.store.records import AnswerState, Settled, Settlement
from gateway.store.rows import AttemptRow, EffectRow
from gateway.store.wanted import Wanted


@dataclass(frozen=True, slots=True)
class Settling:
    """Record what came of an attempt. There is no check of the term: facts outlive authority."""

    settlement: Settlement

    def wants(self, wanted: Wanted) -> None:
        wanted.ids.add(self.settlement.effect_id)
        wanted.tries.add((self.settlement.effect_id, self.settlement.n))
        wanted.answers += self.settlement.answer is not None

    def run(self, batch: Batch) -> Settled:
        given = self.settlement
        effect = batch.effects.get(given.effect_id)
        attempt = effect.tries.get(given.n) if effect else None
        if effect is None or attempt is None:
            raise RecordLost(f"attempt {given.n} of effect {given.effect_id} is not on record")
        again = attempt.outcome is given.outcome and not attempt.decided
        late = attempt.outcome is not None and not again
        outcome = settled_attempt(attempt.outcome, given.outcome, decided=attempt.decided)
        own_answer = given.outcome is not Outcome.UNKNOWN
        if outcome is not None or (own_answer and attempt.open):
            self._write(batch, effect, attempt, outcome)
        disagrees = outcome is None and late and own_answer and attempt.outcome != given.outcome
        if late and (own_answer or disagrees):
            batch.journal(
                "late-answer",
                effect.scope,
                effect_id=effect.id,
                reason=given.reason,
                detail={"n": given.n, "outcome": given.outcome, "disagrees": disagrees},
            )
        highest = batch.scopes[effect.scope].highest_term
        return Settled(
            outcome=effect.outcome,
            highest_term=highest,
            superseded=highest > attempt.term,
            late=late,
            disagrees=disagrees,
        )

    def _write(
        self, batch: Batch, effect: EffectRow, attempt: AttemptRow, outcome: Outcome | None
    ) -> None:
        given = self.settlement
        if given.outcome is not Outcome.UNKNOWN:
            attempt.open = False
        if outcome is not None:
            if outcome is Outcome.REJECTED and attempt.outcome is not Outcome.REJECTED:
                effect.rejected += 1
            attempt.outcome = outcome
            attempt.reason = given.reason
            attempt.status = given.status
            attempt.ended_at_ms = batch.now_ms
            if given.for_all:
                self._speak_for_all(batch, effect, outcome)
            effect.recount()
            effect.settled_at_ms = batch.now_ms
            effect.resolved_by = given.by.value
            if given.resource:
                effect.resource = orjson.dumps(dict(given.resource)).decode()
            batch.change_effect(effect)
            if given.answer is not None and outcome not in FREE_AGAIN:
                batch.add_answer(effect, attempt, given.answer)
        batch.change_attempt(effect, attempt)

    def _speak_for_all(self, batch: Batch, effect: EffectRow, outcome: Outcome) -> None:
        """Give the unknown attempts before it the same outcome: it was their answer."""
        for other in effect.tries.values():
            if other.n < self.settlement.n and other.outcome is Outcome.UNKNOWN:
                other.outcome, other.decided = outcome, True
                other.reason, other.ended_at_ms = "native-replay", batch.now_ms
                other.open = batch.now_ms < other.seal_at_ms
                batch.change_attempt(effect, other)


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """Note how a relayed stream ended: its size, its digest, whether it was whole.

    It is queued after the settlement has returned, so its answer is on disk by then.
    """

    effect_id: str
    n: int
    state: AnswerState
    body_sha256: bytes
    body_bytes: int

    def wants(self, wanted: Wanted) -> None:
        return None

    def run(self, batch: Batch) -> None:
        batch.db.execute(
            "UPDATE answer SET state = ?, body_sha256 = ?, body_bytes = ? "
            "WHERE seq = (SELECT answer_seq FROM attempt WHERE effect_id = ? AND n = ?) "
            "AND state NOT IN ('evidence', 'expired')",
            (self.state.value, self.body_sha256, self.body_bytes, self.effect_id, self.n),
        )
