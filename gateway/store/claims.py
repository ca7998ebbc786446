"""Items in the hands of workers: handed out for a while, checkpointed, reported on.

Items are many: what concerns all of them is one statement, and nothing of them is kept in
memory between batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.core.errors import InvariantError
from gateway.core.work import ItemState, WorkRefusal, judge_checkpoint, judge_report
from gateway.store import work_rows
from gateway.store.batch import Batch
from gateway.store.speech import (
    leads,
    note,
    refused_as_closed,
    refused_by_fence,
    taken,
    want_speech,
)
from gateway.store.wanted import Wanted
from gateway.store.work_records import ItemRecord, Report, Speech, WorkAnswer

_NAMED: Final = 5
"""So many items a transition names; the others are counted."""

# What core.work.may_be_claimed says, of all items at once and in their order: the claimed ones
# that are free again are few, and the pending ones come by the index.
_FREE: Final = (
    "SELECT item, ordinal, attempt, term FROM unit_item WHERE unit = ? AND state = 'claimed' "
    "AND (term < ? OR expires_at_ms <= ?) AND item NOT IN (SELECT value FROM json_each(?)) "
    "ORDER BY ordinal LIMIT ?"
)
_PENDING: Final = (
    "SELECT item, ordinal, attempt, term FROM unit_item WHERE unit = ? AND state = 'pending' "
    "AND item NOT IN (SELECT value FROM json_each(?)) ORDER BY ordinal LIMIT ?"
)
_OWN: Final = (
    "SELECT item FROM unit_item WHERE unit = ? AND state = 'claimed' AND worker = ? "
    "AND term = ? AND expires_at_ms > ? ORDER BY ordinal LIMIT ?"
)
_LAST_TERM: Final = (
    "SELECT term FROM transition WHERE function = ? AND unit = ? AND kind = 'unit-processing' "
    "ORDER BY id DESC LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Claiming:
    """Hand items to a worker for a while: its own live ones first, then those that are free.

    Asking again gives the same claims, for longer; a lost answer costs nothing. Items with an
    effect whose outcome is not known are not handed out again: they wait.
    """

    speech: Speech
    worker: str
    limit: int
    ttl_ms: int

    def wants(self, wanted: Wanted) -> None:
        want_speech(wanted, self.speech)

    def run(self, batch: Batch) -> WorkAnswer:
        speech, db, now_ms = self.speech, batch.db, batch.now_ms
        refused = refused_by_fence(batch, speech) or refused_as_closed(batch, speech)
        if refused is not None:
            return refused
        waiting = work_rows.open_items(db, speech.scope.function, speech.unit)
        own = [
            item for (item,) in db.execute(
                _OWN, (speech.unit, self.worker, speech.term, now_ms, self.limit)
            ).fetchall()
        ]  # fmt: skip
        fresh = self._free(batch, waiting, self.limit - len(own))
        names = [row[0] for row in fresh]
        self._extend(batch, own)
        self._take(batch, names)
        resumed = sum(1 for _, _, attempt, term in fresh if attempt and term < speech.term)
        return taken(
            batch,
            speech,
            items=_items(batch, speech.unit, [*own, *names]),
            waiting=waiting,
            resumed_items=resumed,
            resumed_unit=bool(names) and self._note_start(batch, len(names)),
        )

    def _free(self, batch: Batch, waiting: Sequence[str], limit: int) -> list[Any]:
        """Return the first items, in their order, that nobody works on."""
        db, unit, left_out = batch.db, self.speech.unit, orjson.dumps(waiting).decode()
        again = db.execute(
            _FREE, (unit, self.speech.term, batch.now_ms, left_out, limit)
        ).fetchall()
        pending = db.execute(_PENDING, (unit, left_out, limit)).fetchall()
        return sorted([*again, *pending], key=lambda row: int(row[1]))[:limit]

    def _extend(self, batch: Batch, items: Sequence[str]) -> None:
        batch.db.execute(
            "UPDATE unit_item SET expires_at_ms = max(expires_at_ms, ?) "
            "WHERE unit = ? AND item IN (SELECT value FROM json_each(?))",
            (batch.now_ms + self.ttl_ms, self.speech.unit, orjson.dumps(items).decode()),
        )

    def _take(self, batch: Batch, items: Sequence[str]) -> None:
        speech, now_ms = self.speech, batch.now_ms
        written = batch.db.execute(
            "UPDATE unit_item SET state = 'claimed', attempt = attempt + 1, worker = ?, "
            "term = ?, claimed_at_ms = ?, expires_at_ms = ?, changed_at_ms = ? "
            "WHERE unit = ? AND item IN (SELECT value FROM json_each(?))",
            (
                self.worker, speech.term, now_ms, now_ms + self.ttl_ms, now_ms, speech.unit,
                orjson.dumps(items).decode(),
            ),
        ).rowcount  # fmt: skip
        if written != len(items):
            raise InvariantError(f"{written} of {len(items)} items of {speech.unit!r} were claimed")

    def _note_start(self, batch: Batch, count: int) -> bool:
        """Journal that the unit is worked on, once under each term; say whether another term
        had begun it."""
        speech = self.speech
        last = batch.db.execute(_LAST_TERM, (speech.scope.function, speech.unit)).fetchone()
        if last is not None and last[0] >= speech.term:
            return False
        batch.db.execute(
            "UPDATE unit SET started_at_ms = coalesce(started_at_ms, ?), version = version + 1 "
            "WHERE unit = ?",
            (batch.now_ms, speech.unit),
        )
        reason = "claimed" if last is None else f"resumed; last worked on under term {last[0]}"
        next_action = "its workers report each item"
        note(batch, speech, "unit-processing", reason, next_action, detail={"first_claim": count})
        return last is not None


def _items(batch: Batch, unit: str, names: Sequence[str]) -> list[ItemRecord]:
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
        speech, version = self.speech, self.expected_version + 1
        refused = refused_by_fence(batch, speech) or refused_as_closed(batch, speech)
        if refused is not None:
            return refused
        item = work_rows.load_item(batch.db, speech.unit, self.item)
        why = judge_checkpoint(
            item, speech.holder, speech.term, self.expected_version, batch.now_ms
        )
        if why is WorkRefusal.VERSION_CONFLICT and self._was_written(batch):
            return taken(batch, speech, version=version)
        if why is not None:
            known = item.checkpoint_version if item else 0
            return taken(batch, speech, refusal=why, version=known)
        batch.db.execute(
            "UPDATE unit_item SET checkpoint = ?, checkpoint_version = ?, changed_at_ms = ? "
            "WHERE unit = ? AND item = ?",
            (self.data, version, batch.now_ms, speech.unit, self.item),
        )
        batch.db.execute(
            "UPDATE unit SET checkpoint = ? WHERE unit = ?",
            (f"{self.item}@{version}", speech.unit),
        )
        return taken(batch, speech, version=version)

    def _was_written(self, batch: Batch) -> bool:
        """Whether this very checkpoint stands there: it was asked before, and the answer lost."""
        row = batch.db.execute(
            "SELECT checkpoint, checkpoint_version FROM unit_item WHERE unit = ? AND item = ?",
            (self.speech.unit, self.item),
        ).fetchone()
        return row is not None and tuple(row) == (self.data, self.expected_version + 1)


def asking(speech: Speech) -> Reporting:
    """Return a verb that asks the fence whether its speaker is heard. An honest higher term
    counts; nothing is written to a unit."""
    return Reporting(speech, ())


@dataclass(frozen=True, slots=True)
class Reporting:
    """Take what a worker says of its items; each report stands for itself. Without reports it
    is of no unit, so that one that is not there yet can be asked for.
    """

    speech: Speech
    reports: Sequence[Report]

    def wants(self, wanted: Wanted) -> None:
        want_speech(wanted, self.speech)

    def run(self, batch: Batch) -> WorkAnswer:
        speech = self.speech
        refused = refused_by_fence(batch, speech)
        if refused is None and self.reports:
            refused = refused_as_closed(batch, speech)
        if refused is not None:
            return refused
        leading = leads(batch, speech)
        turned: dict[str, WorkRefusal] = {}
        uncertain: list[str] = []
        for report in self.reports:
            item = work_rows.load_item(batch.db, speech.unit, report.item)
            why = judge_report(
                item, report.state, speech.holder, speech.term, report.attempt, leads=leading
            )
            if why is not None:
                turned[report.item] = why
            elif item is not None and item.state is not report.state:  # else: reported before
                self._write(batch, report)
                if report.state is ItemState.UNCERTAIN:
                    uncertain.append(report.item)
        if uncertain:
            self._note_uncertain(batch, uncertain)
        return taken(batch, speech, turned=turned)

    def _write(self, batch: Batch, report: Report) -> None:
        # Worker and term are those of who said it: the leader, where it settles what another
        # has left uncertain. Its own question again then finds its own answer.
        speech = self.speech
        written = batch.db.execute(
            "UPDATE unit_item SET state = ?, result = ?, reason = ?, worker = ?, term = ?, "
            "changed_at_ms = ? WHERE unit = ? AND item = ? AND attempt = ?",
            (
                report.state.value, report.result, report.reason, speech.holder, speech.term,
                batch.now_ms, speech.unit, report.item, report.attempt,
            ),
        ).rowcount  # fmt: skip
        if written != 1:
            raise InvariantError(f"the item {report.item!r} of {speech.unit!r} was not written")

    def _note_uncertain(self, batch: Batch, items: Sequence[str]) -> None:
        named = ", ".join(items[:_NAMED]) + (", …" if len(items) > _NAMED else "")
        note(
            batch,
            self.speech,
            "unit-uncertain",
            f"{len(items)} items are uncertain: {named}",
            "reconcile their effects; the leader then reports what became of them",
            uncertain=len(items),
        )
