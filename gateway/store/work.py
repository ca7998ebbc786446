"""The verbs of units of work on a batch. Each first asks the fence who speaks, under which term.

Items are many: what concerns all of them is one statement, and nothing of them is kept in
memory between batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import orjson

from gateway.core.errors import InvariantError
from gateway.core.fence import (
    Authority,
    Callers,
    FenceView,
    Refusal,
    Standing,
    may_speak,
)
from gateway.core.work import (
    ItemState,
    UnitStatus,
    WorkRefusal,
    judge_checkpoint,
    judge_completion,
    judge_report,
)
from gateway.store import work_rows
from gateway.store.batch import Batch, Wanted
from gateway.store.handover import raise_term
from gateway.store.work_records import Report, Speech, UnitPlan, WorkAnswer

MAX_CLAIM: Final = 1000


def want_speech(wanted: Wanted, speech: Speech) -> None:
    wanted.scopes.add(speech.scope)
    wanted.terms[speech.scope] = max(wanted.terms.get(speech.scope, 0), speech.term)
    if speech.rules.authority is Authority.LEASE:
        wanted.leases.add(speech.scope)


def refused_by_fence(batch: Batch, speech: Speech) -> WorkAnswer | None:
    """Return the refusal if the fence does not let this holder speak; raise the term if it is
    honestly higher."""
    batch.flush()  # what the batch has done so far counts for the statements that follow
    scope = batch.scopes[speech.scope]
    rules = speech.rules
    if speech.leader_only and rules.callers is Callers.LEADER_OR_CLAIMANT:
        rules = replace(rules, callers=Callers.LEADER)
    lease = batch.book.lease(speech.scope).lease if rules.authority is Authority.LEASE else None
    view = FenceView(
        now_ms=batch.now_ms,
        highest_term=scope.highest_term,
        holder=scope.holder,
        last_term=scope.last_term,
        grant=lease.for_fence() if lease else None,
        has_claim=not speech.leader_only,
    )
    refusal = may_speak(Standing(speech.term, speech.holder, rules), view)
    if refusal is not None:
        _count(batch, speech, refusal)
        return WorkAnswer(refusal=refusal, highest_term=scope.highest_term, now_ms=batch.now_ms)
    if speech.term > scope.highest_term:
        raise_term(batch, scope, speech.term, speech.holder, speech.principal)
    return None


def _count(batch: Batch, speech: Speech, refusal: Refusal) -> None:
    batch.count_refusal(
        (
            speech.scope.function, speech.unit, "", speech.principal, speech.holder,
            speech.term, refusal.value,
        )
    )  # fmt: skip


def _closed(batch: Batch, speech: Speech) -> WorkAnswer | None:
    """Return the refusal if there is no such unit, or it takes no more work."""
    status = work_rows.unit_status(batch.db, speech.scope.function, speech.unit)
    if status is UnitStatus.OPEN:
        return None
    reason = Refusal.UNIT_UNKNOWN if status is None else Refusal.UNIT_CLOSED
    _count(batch, speech, reason)
    return WorkAnswer(
        refusal=reason,
        highest_term=batch.scopes[speech.scope].highest_term,
        now_ms=batch.now_ms,
    )


def _taken(batch: Batch, speech: Speech, **more: Any) -> WorkAnswer:
    highest = batch.scopes[speech.scope].highest_term
    return WorkAnswer(highest_term=highest, now_ms=batch.now_ms, **more)


def _note(batch: Batch, speech: Speech, kind: str, reason: str, next_action: str) -> None:
    """Journal a unit's transition with its last checkpoint."""
    row = batch.db.execute("SELECT checkpoint FROM unit WHERE unit = ?", (speech.unit,)).fetchone()
    batch.journal(
        kind,
        speech.scope._replace(unit=speech.unit),
        term=speech.term,
        holder=speech.holder,
        principal=speech.principal,
        reason=reason,
        checkpoint=row[0] if row else None,
        next_action=next_action,
    )


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
                return WorkAnswer(
                    refusal=WorkRefusal.MANIFEST_CHANGED,
                    reasons=[f"the unit {speech.unit!r} belongs to function {found[0]!r}"],
                    now_ms=batch.now_ms,
                )
            return _taken(batch, speech, made=False)
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
        _note(batch, speech, "unit-open", "created", f"hand out {len(plan.items)} items")
        return _taken(batch, speech, made=True)


@dataclass(frozen=True, slots=True)
class Claiming:
    """Hand items to a worker for a while: its own live ones first, then those that are free.

    Items with an effect whose outcome is not known are not handed out again: they wait.
    """

    speech: Speech
    worker: str
    limit: int
    ttl_ms: int

    def wants(self, wanted: Wanted) -> None:
        want_speech(wanted, self.speech)

    def run(self, batch: Batch) -> WorkAnswer:
        speech = self.speech
        refused = refused_by_fence(batch, speech) or _closed(batch, speech)
        if refused is not None:
            return refused
        db, now_ms = batch.db, batch.now_ms
        open_items = [
            item for (item,) in db.execute(
                work_rows.OPEN_ITEMS, (speech.scope.function, speech.unit)
            ).fetchall()
        ]  # fmt: skip
        waiting = orjson.dumps(open_items).decode()
        own = [
            item for (item,) in db.execute(
                "SELECT item FROM unit_item WHERE unit = ? AND state = 'claimed' AND worker = ? "
                "AND term = ? AND expires_at_ms > ? ORDER BY ordinal LIMIT ?",
                (speech.unit, self.worker, speech.term, now_ms, self.limit),
            ).fetchall()
        ]  # fmt: skip
        fresh = [
            item for (item,) in db.execute(
                "SELECT item FROM unit_item WHERE unit = ? AND state IN ('pending', 'claimed') "
                "AND (state = 'pending' OR term < ? OR expires_at_ms <= ?) "
                "AND item NOT IN (SELECT value FROM json_each(?)) ORDER BY ordinal LIMIT ?",
                (speech.unit, speech.term, now_ms, waiting, self.limit - len(own)),
            ).fetchall()
        ]  # fmt: skip
        self._take(batch, fresh)
        items = _items(batch, speech.unit, [*own, *fresh])
        return _taken(batch, speech, items=items, waiting=sorted(open_items))

    def _take(self, batch: Batch, items: Sequence[str]) -> None:
        if not items:
            return
        speech = self.speech
        taken = batch.db.execute(
            "UPDATE unit_item SET state = 'claimed', attempt = attempt + 1, worker = ?, "
            "term = ?, claimed_at_ms = ?, expires_at_ms = ?, changed_at_ms = ? "
            "WHERE unit = ? AND item IN (SELECT value FROM json_each(?))",
            (
                self.worker, speech.term, batch.now_ms, batch.now_ms + self.ttl_ms, batch.now_ms,
                speech.unit, orjson.dumps(items).decode(),
            ),
        ).rowcount  # fmt: skip
        if taken != len(items):
            raise InvariantError(f"{taken} of {len(items)} items of {speech.unit!r} were claimed")
        started = batch.db.execute(
            "UPDATE unit SET started_at_ms = ?, version = version + 1 "
            "WHERE unit = ? AND started_at_ms IS NULL",
            (batch.now_ms, speech.unit),
        ).rowcount
        if started:
            _note(batch, speech, "unit-processing", "claimed", "its workers report each item")


def _items(batch: Batch, unit: str, names: Sequence[str]) -> list[Any]:
    found = batch.db.execute(
        f"SELECT {work_rows.ITEM_COLUMNS} FROM unit_item WHERE unit = ? "
        "AND item IN (SELECT value FROM json_each(?)) ORDER BY ordinal",
        (unit, orjson.dumps(list(names)).decode()),
    )
    return [work_rows.item_record(row) for row in found.fetchall()]


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """Write the durable point that a successor resumes from. `data` is JSON text."""

    speech: Speech
    item: str
    expected_version: int
    data: str

    def wants(self, wanted: Wanted) -> None:
        want_speech(wanted, self.speech)

    def run(self, batch: Batch) -> WorkAnswer:
        speech = self.speech
        refused = refused_by_fence(batch, speech) or _closed(batch, speech)
        if refused is not None:
            return refused
        item = work_rows.load_item(batch.db, speech.unit, self.item)
        why = judge_checkpoint(
            item, speech.holder, speech.term, self.expected_version, batch.now_ms
        )
        if why is not None:
            version = item.checkpoint_version if item else 0
            return _taken(batch, speech, refusal=why, version=version)
        batch.db.execute(
            "UPDATE unit_item SET checkpoint = ?, checkpoint_version = ?, changed_at_ms = ? "
            "WHERE unit = ? AND item = ?",
            (self.data, self.expected_version + 1, batch.now_ms, speech.unit, self.item),
        )
        batch.db.execute(
            "UPDATE unit SET checkpoint = ? WHERE unit = ?",
            (f"{self.item}@{self.expected_version + 1}", speech.unit),
        )
        return _taken(batch, speech, version=self.expected_version + 1)


@dataclass(frozen=True, slots=True)
class Reporting:
    """Take what a worker says of its items; each report stands for itself."""

    speech: Speech
    reports: Sequence[Report]

    def wants(self, wanted: Wanted) -> None:
        want_speech(wanted, self.speech)

    def run(self, batch: Batch) -> WorkAnswer:
        speech = self.speech
        refused = refused_by_fence(batch, speech) or _closed(batch, speech)
        if refused is not None:
            return refused
        turned: dict[str, WorkRefusal] = {}
        for report in self.reports:
            item = work_rows.load_item(batch.db, speech.unit, report.item)
            why = judge_report(
                item, report.state, speech.holder, speech.term, report.attempt, batch.now_ms
            )
            if why is not None:
                turned[report.item] = why
                continue
            batch.db.execute(
                "UPDATE unit_item SET state = ?, result = ?, reason = ?, changed_at_ms = ? "
                "WHERE unit = ? AND item = ?",
                (
                    report.state.value, report.result, report.reason, batch.now_ms, speech.unit,
                    report.item,
                ),
            )  # fmt: skip
            if report.state is ItemState.UNCERTAIN and item and item.state is not report.state:
                _note(
                    batch, speech, "unit-uncertain", f"item {report.item}: {report.reason or ''}",
                    "reconcile the item's effects before it is handed out again",
                )  # fmt: skip
        return _taken(batch, speech, turned=turned)


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
            return _taken(batch, speech)  # asked before; the answer was lost
        closed = _closed(batch, speech)
        if closed is not None:
            return closed
        found = work_rows.tally(batch.db, speech.scope.function, speech.unit)
        reasons = judge_completion(found, row[1], self.digest)
        if reasons:
            return _taken(batch, speech, refusal=WorkRefusal.UNIT_UNFINISHED, reasons=reasons)
        _close(batch, speech, UnitStatus.COMPLETED, "every item is final", self.result)
        return _taken(batch, speech)


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
        refused = refused or _closed(batch, speech)
        if refused is not None:
            return refused
        batch.db.execute(
            "UPDATE unit_item SET state = 'abandoned', reason = ?, changed_at_ms = ? "
            "WHERE unit = ? AND state IN ('pending', 'claimed', 'uncertain')",
            (self.reason, batch.now_ms, speech.unit),
        )
        _close(batch, speech, UnitStatus.ABANDONED, self.reason, None)
        return _taken(batch, speech)


def _close(
    batch: Batch, speech: Speech, status: UnitStatus, reason: str, result: str | None
) -> None:
    written = batch.db.execute(
        "UPDATE unit SET status = ?, closed_at_ms = ?, closed_term = ?, closed_reason = ?, "
        "result = ?, version = version + 1 WHERE unit = ? AND status = 'open'",
        (status.value, batch.now_ms, speech.term, reason, result, speech.unit),
    ).rowcount
    batch.units.clear()
    if written != 1:
        raise InvariantError(f"the unit {speech.unit!r} was not open")
    _note(batch, speech, f"unit-{status.value}", reason, "nothing; it takes no more work")


WorkVerb: TypeAlias = Creating | Claiming | Checkpointing | Reporting | Completing | Abandoning
