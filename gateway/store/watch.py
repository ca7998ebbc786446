"""Compares the ledger with what was seen of it, and stops every write if it came back older.

All of it runs on the writer's thread: at each new connection and heartbeat in a transaction of
its own, and after each commit before anybody is told of it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from gateway.core.errors import LedgerUnavailable, StoreError
from gateway.core.ids import Scope
from gateway.store import rows
from gateway.store.batch import Batch
from gateway.store.connect import FileLock
from gateway.store.database import Database
from gateway.store.lineage import Lineage, read_lineage, write_lineage
from gateway.store.witness import Seen, WitnessFile

TOLD_MAX: Final = 5
_CHUNK: Final = 1000
_ONE_EACH: Final = (
    "each gateway needs a witness of its own: stop that one, or name another file with --witness"
)


class Restored(LedgerUnavailable):
    """The ledger is older than it was. Nothing is written until it is recovered."""


class Watch:
    """What this gateway has seen of its ledger; in a file, if there is one."""

    def __init__(self, path: Path | None = None) -> None:
        self.lineage = Lineage()
        self._file = WitnessFile(path) if path is not None else None
        self._lock = FileLock(path, _ONE_EACH) if path is not None else None
        self._seen: Seen | None = None
        self._unsaved = False

    def begin(self) -> None:
        """Take the file and read it. Raises StoreError if it is damaged or another's."""
        if self._file is None or self._lock is None:
            return
        path = self._file.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(
                f"the witness cannot be kept at {path}: {error.strerror}; give this user a folder "
                "that it may write in, or name another file with --witness"
            ) from error
        self._lock.take()
        try:
            self._seen = self._file.load()
        except StoreError:
            self.release()
            raise

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    @property
    def refusal(self) -> str | None:
        """Why nothing may be written; None if it may."""
        return self.lineage.restored

    def look(self, db: Database, now_ms: int, *, whole: bool) -> None:
        """Compare, inside a transaction that is then committed. `whole`: every scope's terms,
        as after a connection was lost; else what a heartbeat can afford."""
        found = read_lineage(db)
        seen = self._seen
        if found.restored is None and seen is not None:
            wrong = complaints(db, found, seen, whole=whole)
            if wrong:
                why = "; ".join(wrong[:TOLD_MAX])
                if len(wrong) > TOLD_MAX:
                    why += f"; and {len(wrong) - TOLD_MAX} more"
                found = replace(
                    found,
                    restored=f"the ledger is older than it was ({why}). Nothing is written until "
                    "somebody runs 'fencegate recover' with every gateway's witness",
                )
                write_lineage(db, found)
        self.lineage = found
        db.looked_at(found.recoveries)
        if found.restored is None:
            self._seen = _renewed(db, found, seen, now_ms)
            self._unsaved = True

    def ready(self) -> None:
        """Raise Restored if nothing may be written, OSError if the file has no room for what
        was seen: what is not in it would be told and forgotten."""
        if self.lineage.restored is not None:
            raise Restored(self.lineage.restored)
        self.save()

    def committed(self, batch: Batch) -> None:
        """Take note of what a batch has committed, before anybody hears of it."""
        seen = self._seen
        if seen is None:
            return
        if batch.last_attempt is not None:
            seen.attempt = batch.last_attempt
        seen.answer = max(seen.answer, batch.last_answer)
        if batch.raised and seen.raise_terms(batch.raised):
            self._unsaved = True
            self.save()

    def save(self) -> None:
        if self._unsaved and self._file is not None and self._seen is not None:
            self._file.save(self._seen)
        self._unsaved = False


def complaints(db: Database, found: Lineage, seen: Seen, *, whole: bool = True) -> list[str]:
    """Return in what the ledger falls short of what was seen of it."""
    same = found.identity == seen.identity
    if not same and not (
        seen.identity in found.predecessors and found.recoveries > seen.recoveries
    ):
        return [f"it is another ledger, {found.identity[:8]} and not {seen.identity[:8]}"]
    wrong = []
    if found.recoveries < seen.recoveries:
        wrong.append(
            f"it was recovered {found.recoveries} times and had been {seen.recoveries} times"
        )
    if found.recoveries == seen.recoveries:
        wrong += _short_marks(db, seen)
    return wrong + (short_terms(db, seen) if whole else [])


def _short_marks(db: Database, seen: Seen) -> list[str]:
    wrong = []
    for what, there, known in (
        ("the journal", _largest(db, "id", "transition"), seen.transition),
        ("the answers", _largest(db, "seq", "answer"), seen.answer),
    ):
        if there < known:
            wrong.append(f"{what} end at {there} and had come to {known}")
    if seen.attempt is not None:
        effect_id, n = seen.attempt
        row = db.execute("SELECT attempts FROM effect WHERE id = ?", (effect_id,)).fetchone()
        if row is None or row[0] < n:
            wrong.append(f"attempt {n} of effect {effect_id} is not there any more")
    return wrong


def short_terms(db: Database, seen: Seen) -> list[str]:
    """Return which scopes' terms have fallen below what was seen."""
    wrong = []
    scopes = list(seen.scopes)
    for at in range(0, len(scopes), _CHUNK):
        there = rows.load_scopes(db, scopes[at : at + _CHUNK])
        for scope, row in there.items():
            highest, last = seen.scopes[scope]
            if row.highest_term < highest or row.last_term < last:
                wrong.append(
                    f"{name_of(scope)} stands at term {row.last_term} and had come to {last}"
                )
    return wrong


def name_of(scope: Scope) -> str:
    return f"{scope.function}/{scope.unit}" if scope.unit else scope.function


def _largest(db: Database, column: str, table: str) -> int:
    row = db.execute(f"SELECT coalesce(max({column}), 0) FROM {table}").fetchone()
    return int(row[0])


def _renewed(db: Database, found: Lineage, seen: Seen | None, now_ms: int) -> Seen:
    """Return what is seen of a ledger that is no older than it was."""
    if seen is None or (seen.identity, seen.recoveries) != (found.identity, found.recoveries):
        kept = seen.scopes if seen is not None else {}
        rest = seen.rest if seen is not None else {}
        seen = Seen(identity=found.identity, recoveries=found.recoveries, scopes=kept, rest=rest)
        seen.raise_terms(_all_terms(db))
    seen.transition = _largest(db, "id", "transition")
    seen.answer = _largest(db, "seq", "answer")
    seen.at_ms = now_ms
    return seen


def _all_terms(db: Database) -> dict[Scope, tuple[int, int]]:
    found = db.execute(
        "SELECT function, unit, highest_term, last_term FROM scope ORDER BY raised_at_ms"
    )
    return {Scope(row[0], row[1]): (row[2], row[3]) for row in found}
