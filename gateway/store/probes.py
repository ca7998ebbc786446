"""The reconciler's verbs on a batch: open a probe, close it, conclude, send again, put off.

A probe is written down before it is asked, so that after a crash there is no question of which
nobody knows whether it was asked. What it found counts by what stands in the ledger then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.probe import Verdict
from gateway.store.batch import Batch
from gateway.store.case_records import OpenedProbe
from gateway.store.deciding import close_lost_probes, decide_effect
from gateway.store.operations import Admission
from gateway.store.records import Proposal, Ruling
from gateway.store.wanted import Wanted

RECONCILER: Final = "reconciler"
"""The principal in whose name the gateway settles effects by itself."""


@dataclass(frozen=True, slots=True)
class OpeningProbe:
    """Ask for leave to probe: one at a time for an effect, and only while it is unknown."""

    effect_id: str
    version: int

    def wants(self, wanted: Wanted) -> None:
        wanted.ids.add(self.effect_id)

    def run(self, batch: Batch) -> OpenedProbe | None:
        effect = batch.effects.get(self.effect_id)
        if effect is None or effect.version != self.version:
            return None
        if effect.outcome is not Outcome.UNKNOWN:
            return None
        batch.flush()
        db = batch.db
        close_lost_probes(batch, effect.id)
        last, still_open = db.execute(
            "SELECT coalesce(max(n), 0), count(*) FILTER (WHERE ended_at_ms IS NULL) "
            "FROM probe WHERE effect_id = ?",
            (effect.id,),
        ).fetchone()
        if still_open:
            return None
        term = batch.scopes[effect.scope].highest_term
        db.execute(
            "INSERT INTO probe (effect_id, n, term, instance, started_at_ms) "
            "VALUES (?, ?, ?, ?, ?)",
            (effect.id, last + 1, term, batch.instance, batch.now_ms),
        )
        return OpenedProbe(n=last + 1, term=term, started_at_ms=batch.now_ms)


@dataclass(frozen=True, slots=True)
class ClosingProbe:
    """Write down what a probe found. That it happened counts at once, whoever leads by now.

    `resource` is JSON text of what was taken from the answer.
    """

    effect_id: str
    n: int
    verdict: Verdict
    status: int | None
    evidence: str
    moved: bool | None = None
    resource: str | None = None
    due_in_ms: int = 0

    def wants(self, wanted: Wanted) -> None:
        wanted.ids.add(self.effect_id)

    def run(self, batch: Batch) -> Outcome | None:
        batch.flush()
        batch.db.execute(
            "UPDATE probe SET ended_at_ms = ?, verdict = ?, status = ?, moved = ?, evidence = ? "
            "WHERE effect_id = ? AND n = ? AND ended_at_ms IS NULL",
            (
                batch.now_ms, self.verdict.value, self.status, self.moved, self.evidence,
                self.effect_id, self.n,
            ),
        )  # fmt: skip
        failed = self.verdict is Verdict.ERROR
        put_off(batch, self.effect_id, self.due_in_ms, failed=failed, note=self.verdict.value)
        effect = batch.effects.get(self.effect_id)
        if effect is None:
            return None
        if self.verdict is Verdict.FOUND and effect.outcome is Outcome.UNKNOWN:
            if self.resource is not None:
                effect.resource = self.resource
            decide_effect(
                batch, effect, Outcome.CONFIRMED, ResolvedBy.PROBE,
                principal=RECONCILER, reason="found", detail={"probe": self.n},
            )  # fmt: skip
        return effect.outcome


@dataclass(frozen=True, slots=True)
class Concluding:
    """Conclude from negative probes that an effect did not happen.

    Taken only if all that it was concluded from still stands: the effect's version, the term
    that the probes were opened under, the seals, and that nobody has written to the thing.
    """

    effect_id: str
    version: int
    term: int
    probes: tuple[int, ...]
    started_at_ms: int

    def wants(self, wanted: Wanted) -> None:
        wanted.ids.add(self.effect_id)

    def run(self, batch: Batch) -> bool:
        effect = batch.effects.get(self.effect_id)
        if effect is None or effect.version != self.version:
            return False
        if effect.outcome is not Outcome.UNKNOWN:
            return False
        if batch.scopes[effect.scope].highest_term != self.term:
            return False
        unknown = [t for t in effect.tries.values() if t.outcome is Outcome.UNKNOWN]
        if any(self.started_at_ms < attempt.seal_at_ms for attempt in unknown):
            return False
        if _is_superseded(batch, effect.id):
            return False
        decide_effect(
            batch, effect, Outcome.NO_EFFECT, ResolvedBy.PROBE, principal=RECONCILER,
            reason="missing", detail={"probes": self.probes, "started_at_ms": self.started_at_ms},
        )  # fmt: skip
        return True


@dataclass(frozen=True, slots=True)
class Resending:
    """Admit an effect's next attempt in the gateway's own name; None if it must not be sent.

    Whether somebody has written to the thing since, or sent the effect again, is looked at in the
    admission's own transaction: a resend that comes after such a write would undo it. With
    `after`, the effect is first concluded not to have happened, and nobody gets in between.
    """

    proposal: Proposal
    effect_id: str
    version: int
    after: Concluding | None = None

    def wants(self, wanted: Wanted) -> None:
        wanted.ids.add(self.effect_id)
        Admission(self.proposal).wants(wanted)

    def run(self, batch: Batch) -> Ruling | None:
        effect = batch.effects.get(self.effect_id)
        if effect is None or effect.version != self.version:
            return None
        if self.after is not None:
            if not self.after.run(batch):
                return None
        elif _is_superseded(batch, self.effect_id):
            return None
        return Admission(self.proposal).run(batch)


@dataclass(frozen=True, slots=True)
class PuttingOff:
    """Look at an effect again later."""

    effect_id: str
    due_in_ms: int
    note: str

    def wants(self, wanted: Wanted) -> None:
        wanted.ids.add(self.effect_id)

    def run(self, batch: Batch) -> None:
        close_lost_probes(batch, self.effect_id)
        put_off(batch, self.effect_id, self.due_in_ms, failed=False, note=self.note)


def _is_superseded(batch: Batch, effect_id: str) -> bool:
    """Whether somebody has written to the effect's thing since its first attempt, in this very
    batch included."""
    batch.flush()
    row = batch.db.execute("SELECT superseded FROM effect WHERE id = ?", (effect_id,)).fetchone()
    return row is None or bool(row[0])


def look_anew(batch: Batch, effect_id: str) -> None:
    """Look at an effect at once, as if it had not been looked at before."""
    put_off(batch, effect_id, 0, failed=False, note="asked by a person")
    batch.db.execute(
        "UPDATE reconciliation SET from_probe = "
        "(SELECT coalesce(max(n), 0) FROM probe WHERE effect_id = ?1) WHERE effect_id = ?1",
        (effect_id,),
    )


def put_off(batch: Batch, effect_id: str, due_in_ms: int, *, failed: bool, note: str) -> None:
    """Note when an effect is looked at next. A failure is counted, anything else ends the row."""
    batch.db.execute(
        "INSERT INTO reconciliation (effect_id, next_at_ms, failures, note) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (effect_id) DO UPDATE SET next_at_ms = excluded.next_at_ms, "
        "failures = CASE WHEN excluded.failures > 0 THEN reconciliation.failures + 1 ELSE 0 END, "
        "note = excluded.note",
        (effect_id, batch.now_ms + due_in_ms, int(failed), note),
    )
