"""The verbs of units of work on a batch. Each first asks the fence who speaks, under which term.

A unit is created once, worked on by claims (see claims.py), and ends once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gateway.core.errors import InvariantError
from gateway.core.work import UnitStatus, WorkRefusal, judge_completion
from gateway.store import work_rows
from gateway.store.batch import Batch
from gateway.store.claims import Checkpointing, Claiming, Reporting
from gateway.store.speech import note, refused_as_closed, refused_by_fence, taken, want_speech
from gateway.store.wanted import Wanted
from gateway.store.work_records import Speech, UnitPlan, WorkAnswer

__all__ = [
    "Abandoning",
    "Checkpointing",
    "Claiming",
    "Completing",
    "Creating",
    "Reporting",
    "WorkVerb",
]


@dataclass(frozen=True, slots=True)
class Creating:
    """Create a unit if its key does not exist; else it stands as it is."""

    speech: Speech
    plan: UnitPlan

    def wants(self, wanted: Wanted) -> None:
        want_speech(wanted, self.speech)

    def run(self, batch: Batch) -> WorkAnswer:
        speech, plan = self.speech, self.plan
        refused = refused_by_fence(batch, speech)
        if refused is not None:
            return refused
        found = batch.db.execute(
            "SELECT function FROM unit WHERE unit = ?", (speech.unit,)
        ).fetchone()
        if found is not None:
            if found[0] != speech.scope.function:
                return taken(batch, speech, refusal=WorkRefusal.UNIT_TAKEN)
            return taken(batch, speech, made=False)
        batch.db.execute(
            "INSERT INTO unit (unit, function, status, period_start, period_end, policy_version, "
            "manifest, manifest_digest, created_term, created_by, created_at_ms, version) "
            "VALUES (?, ?, 'open', ?, ?, ?, ?, ?, ?, ?, ?, 1)",
            (
                speech.unit, speech.scope.function, plan.period_start, plan.period_end,
                plan.policy_version, plan.manifest, plan.digest, speech.term, speech.holder,
                batch.now_ms,
            ),
        )  # fmt: skip
        batch.db.executemany(
            "INSERT INTO unit_item (unit, ordinal, item, data, state, attempt, term, "
            "expires_at_ms, checkpoint_version, changed_at_ms) "
            "VALUES (?, ?, ?, ?, 'pending', 0, 0, 0, 0, ?)",
            (
                (speech.unit, ordinal, item, data, batch.now_ms)
                for ordinal, (item, data) in enumerate(plan.items)
            ),
        )
        batch.units.clear()
        note(batch, speech, "unit-open", "created", f"hand out {len(plan.items)} items")
        return taken(batch, speech, made=True)


@dataclass(frozen=True, slots=True)
class Completing:
    """End a unit whose items are all final and whose effects are known. It ends once."""

    speech: Speech
    digest: str | None
    result: str | None

    def wants(self, wanted: Wanted) -> None:
        want_speech(wanted, self.speech)

    def run(self, batch: Batch) -> WorkAnswer:
        speech = self.speech
        refused = refused_by_fence(batch, speech)
        if refused is not None:
            return refused
        row = batch.db.execute(
            "SELECT status, manifest_digest, result FROM unit WHERE unit = ? AND function = ?",
            (speech.unit, speech.scope.function),
        ).fetchone()
        if row is not None and row[0] == "completed" and row[2] == self.result:
            return taken(batch, speech)  # asked before; the answer was lost
        closed = refused_as_closed(batch, speech)
        if closed is not None:
            return closed
        found = work_rows.tally(batch.db, speech.scope.function, speech.unit)
        reasons = judge_completion(found, row[1], self.digest)
        if reasons:
            return taken(
                batch, speech, refusal=WorkRefusal.UNIT_UNFINISHED, reasons=reasons, tally=found
            )
        _close(batch, speech, UnitStatus.COMPLETED, "every item is final", self.result)
        return taken(batch, speech, ended=True)


@dataclass(frozen=True, slots=True)
class Abandoning:
    """Give a unit up, with a reason; its unfinished items are abandoned with it."""

    speech: Speech
    reason: str
    operator: bool = False

    def wants(self, wanted: Wanted) -> None:
        want_speech(wanted, self.speech)

    def run(self, batch: Batch) -> WorkAnswer:
        speech = self.speech
        refused = None if self.operator else refused_by_fence(batch, speech)
        if refused is not None:
            return refused
        row = batch.db.execute(
            "SELECT status, closed_reason FROM unit WHERE unit = ? AND function = ?",
            (speech.unit, speech.scope.function),
        ).fetchone()
        if row is not None and tuple(row) == ("abandoned", self.reason):
            return taken(batch, speech)  # asked before; the answer was lost
        closed = refused_as_closed(batch, speech)
        if closed is not None:
            return closed
        batch.db.execute(
            "UPDATE unit_item SET state = 'abandoned', reason = ?, changed_at_ms = ? "
            "WHERE unit = ? AND state IN ('pending', 'claimed', 'uncertain')",
            (self.reason, batch.now_ms, speech.unit),
        )
        _close(batch, speech, UnitStatus.ABANDONED, self.reason, None)
        return taken(batch, speech, ended=True)


def _close(
    batch: Batch, speech: Speech, status: UnitStatus, reason: str, result: str | None
) -> None:
    written = batch.db.execute(
        "UPDATE unit SET status = ?, closed_at_ms = ?, closed_term = ?, closed_reason = ?, "
        "result = ?, version = version + 1 WHERE unit = ? AND status = 'open'",
        (status.value, batch.now_ms, speech.term or None, reason, result, speech.unit),
    ).rowcount
    batch.units.clear()
    if written != 1:
        raise InvariantError(f"the unit {speech.unit!r} was not open")
    note(batch, speech, f"unit-{status.value}", reason, "nothing; it takes no more work")


WorkVerb: TypeAlias = Creating | Claiming | Checkpointing | Reporting | Completing | Abandoning
