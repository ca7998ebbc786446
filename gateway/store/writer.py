"""The one writer: a thread that owns the connection, and group commit in front of it.

Whatever waits at the same moment shares one transaction and one fsync; nothing lingers to
make a batch larger. The next batch is handed to the thread one turn of the event loop after the
last one ended: what the futures that it woke lead to at once still comes along, which makes
fewer batches of the same work, and each has a price of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from gateway.core.errors import LedgerUnavailable, StoreError
from gateway.core.fence import Replay
from gateway.core.ids import Scope
from gateway.store.batch import Batch
from gateway.store.bell import Bell
from gateway.store.clock import WRITTEN_EVERY_MS, Timekeeper
from gateway.store.database import Conflict, ConnectionBroken, Database
from gateway.store.operations import Operation
from gateway.store.recent import Recent
from gateway.store.records import Ruling
from gateway.store.rows import read_answer
from gateway.store.wanted import Wanted
from gateway.store.watch import Restored, Watch

MAX_BATCH: Final = 256
TURNS: Final = 5
"""How often a batch is decided anew because others were first, before it is taken apart."""
T = TypeVar("T")


class Observer(Protocol):
    """Who is told how the ledger fares. Called on the event loop."""

    def batch_done(self, operations: int, transaction_s: float, waited_s: float) -> None: ...

    def ledger_is(self, up: bool, error: str | None) -> None: ...

    def ledger_is_newer(self, migrations: Sequence[int]) -> None: ...


class Quiet:
    """Nobody is told."""

    def batch_done(self, operations: int, transaction_s: float, waited_s: float) -> None: ...

    def ledger_is(self, up: bool, error: str | None) -> None: ...

    def ledger_is_newer(self, migrations: Sequence[int]) -> None: ...


@dataclass(slots=True)
class _Job:
    """One operation, and who waits for it. A solo job has a transaction of its own."""

    operation: Operation | None
    solo: Callable[[Database, int], Any] | None
    forgets: bool
    always: bool
    future: asyncio.Future[Any]
    queued_s: float


@dataclass(slots=True)
class _Report:
    """What the thread says of a batch."""

    jobs: Sequence[_Job]
    results: list[Any]
    transaction_s: float
    began_s: float
    error: str | None
    journalled: set[Scope]


class Writer:
    """Runs operations in order, many to a transaction."""

    def __init__(
        self,
        connect: Callable[[], Database],
        clock: Timekeeper,
        instance: str,
        observer: Observer | None = None,
        before_commit: Callable[[], None] | None = None,
        bell: Bell | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`before_commit` runs on the thread; what it raises undoes the transaction.
        `connect` is called on the thread too."""
        self._before_commit = before_commit or (lambda: None)
        self._connect = connect
        self._watch = watch or Watch()
        self._clock = clock
        self._instance = instance
        self._observer = observer or Quiet()
        self._loop = asyncio.get_running_loop()
        self._recent = Recent()
        self._bell = bell or Bell()
        self._journalled: set[Scope] = set()
        self._batch: Batch | None = None
        self._clock_written_ms = 0
        self._waiting: list[_Job] = []
        self._busy = False
        self._closed = False
        self._batches: queue.SimpleQueue[Sequence[_Job] | None] = queue.SimpleQueue()
        self._db: Database | None = None
        self._thread = threading.Thread(target=self._work, name="ledger-writer", daemon=True)
        self._thread.start()

    # -- event loop side

    def submit(self, operation: Operation) -> asyncio.Future[Any]:
        """Queue an operation; the future ends after the commit that holds its result."""
        return self._queue(operation, None)

    def run(
        self,
        solo: Callable[[Database, int], T],
        *,
        forgets: bool = True,
        always: bool = False,
    ) -> asyncio.Future[T]:
        """Run `solo(db, now_ms)` in a transaction of its own. `forgets` False says that it
        touches nothing that batches keep in memory; `always` that it may be done to a ledger
        that came back older, too."""
        return self._queue(None, solo, forgets, always)

    def look(self, first: Callable[[Database, int], T]) -> asyncio.Future[T]:
        """Do `first`, compare the ledger with what was seen of it, and return what `first` did."""
        return self.run(partial(self._look_again, first), forgets=False, always=True)

    def _queue(
        self, operation: Operation | None, solo: Any, forgets: bool = False, always: bool = False
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._closed:
            future.set_exception(LedgerUnavailable("the ledger is closed"))
            return future
        self._waiting.append(_Job(operation, solo, forgets, always, future, time.perf_counter()))
        if not self._busy:
            self._release()
        return future

    def _release(self) -> None:
        """Hand the thread whatever waits. A solo job goes alone, in its place in the order."""
        jobs = self._waiting
        if not jobs:
            self._busy = False
            return
        self._busy = True
        count = next((i for i, job in enumerate(jobs) if job.solo is not None), len(jobs))
        count = min(max(count, 1), MAX_BATCH)
        self._batches.put(jobs[:count])
        self._waiting = jobs[count:]

    def _done(self, report: _Report) -> None:
        self._loop.call_soon(self._release)
        for job, result in zip(report.jobs, report.results, strict=True):
            if job.future.done():
                continue
            if isinstance(result, BaseException):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)
        self._bell.ring(report.journalled)
        waited = report.began_s - report.jobs[0].queued_s
        self._observer.batch_done(len(report.jobs), report.transaction_s, waited)
        self._observer.ledger_is(report.error is None, report.error)

    async def close(self) -> None:
        """Finish what was queued, then close the connection."""
        self._closed = True
        while self._busy or self._waiting:
            last = self._loop.create_future()
            self._loop.call_later(0.005, last.set_result, None)
            await last
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join)

    # -- thread side

    def _work(self) -> None:
        while (jobs := self._batches.get()) is not None:
            began = time.perf_counter()
            self._journalled = set()
            results, error = self._run(jobs)
            spent = time.perf_counter() - began
            error = self._watch.refusal or error
            report = _Report(jobs, results, spent, began, error, self._journalled)
            try:
                self._loop.call_soon_threadsafe(self._done, report)
            except RuntimeError:  # the loop is gone: nobody waits for an answer any more
                break
        if self._db is not None:
            self._db.close()

    def _run(self, jobs: Sequence[_Job]) -> tuple[list[Any], str | None]:
        failure: Exception
        for _ in range(TURNS):
            try:
                return self._transaction(jobs), None
            except Conflict as error:  # others were first: decide again on what they wrote
                failure = error
                self._undo()
            except Exception as error:  # whatever went wrong, the batch is undone and split
                failure = error
                self._undo()
                break
        if len(jobs) == 1 or isinstance(failure, ConnectionBroken | Restored):
            unavailable = [_as_unavailable(failure) for _ in jobs]
            known = unavailable[0] is not failure
            return list(unavailable), str(failure) if known else None
        results: list[Any] = []
        failed: str | None = None
        for job in jobs:
            one, error_text = self._run([job])
            results += one
            failed = failed or error_text
        return results, failed

    def _transaction(self, jobs: Sequence[_Job]) -> list[Any]:
        db = self._begin()
        if not jobs[0].always:
            self._watch.ready()
        solo = jobs[0].solo
        self._batch = None
        if not db.alone or (solo is not None and jobs[0].forgets):
            self._recent.forget()
        if solo is not None:
            now_ms = self._clock.read(db)
            results = [solo(db, now_ms)]
        else:
            operations = [job.operation for job in jobs if job.operation is not None]
            now_ms, results = self._decide(db, operations)
        write_clock = now_ms - self._clock_written_ms >= WRITTEN_EVERY_MS
        if write_clock:
            self._clock.write(db, now_ms)
        self._before_commit()
        db.announce(self._instance, None if self._batch is None else self._batch.journalled)
        db.execute("COMMIT")
        if write_clock:
            self._clock_written_ms = now_ms
        if self._batch is not None:
            if db.alone:
                self._recent.learn(self._batch.effects.values(), self._batch.scopes)
            self._journalled |= self._batch.journalled
            self._watch.committed(self._batch)
        else:
            self._watch.save()
        return [self._with_answer(db, result) for result in results]

    def _begin(self) -> Database:
        """Begin a transaction. Where the connection has broken while nothing was under way,
        nothing is lost, and a new one takes over."""
        if self._db is not None:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                return self._db
            except ConnectionBroken:
                self._undo()
        if self._db is None:
            self._db = self._connect_and_look()
        self._db.execute("BEGIN IMMEDIATE")
        return self._db

    def _connect_and_look(self) -> Database:
        """Connect; what is found there may be older than what was there before."""
        db = self._connect()
        try:
            db.execute("BEGIN IMMEDIATE")
            self._watch.look(db, self._clock.read(db), whole=True)
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        self._recent.lineage = self._watch.lineage
        return db

    def _look_again(self, first: Callable[[Database, int], T], db: Database, now_ms: int) -> T:
        done = first(db, now_ms)
        before = self._watch.refusal
        self._watch.look(db, now_ms, whole=before is not None)
        self._recent.lineage = self._watch.lineage
        return done

    def _decide(self, db: Database, operations: Sequence[Operation]) -> tuple[int, list[Any]]:
        wanted = Wanted()
        for operation in operations:
            operation.wants(wanted)
        db.lock(wanted)
        now_ms = self._clock.read(db)  # after the locks: what waited must not decide in the past
        batch = Batch(db, now_ms, self._instance, self._recent)
        batch.load(wanted)
        results = [operation.run(batch) for operation in operations]
        batch.flush()
        self._batch = batch
        return now_ms, results

    def _with_answer(self, db: Database, result: Any) -> Any:
        if not isinstance(result, Ruling) or not isinstance(result.decision, Replay):
            return result
        if result.n is not None:  # observed: it is sent all the same
            return result
        try:
            return result.answered(read_answer(db, result.decision.effect_id))
        except (
            sqlite3.Error,
            StoreError,
        ) as error:  # after the commit: only this one answer is lost
            return _as_unavailable(error)

    def _undo(self) -> None:
        self._recent.forget()
        self._roll_back()

    def _roll_back(self) -> None:
        """Roll back; if the connection will not, the next transaction begins on a new one."""
        if self._db is None:
            return
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except (sqlite3.Error, StoreError):
            with contextlib.suppress(sqlite3.Error, StoreError):
                self._db.close()
            self._db = None


def _as_unavailable(error: Exception) -> Exception:
    """A fault of the disk or the database means: not durable, so not done."""
    if isinstance(error, Restored):
        return error
    if isinstance(error, sqlite3.Error | OSError | StoreError):
        return LedgerUnavailable(f"{type(error).__name__}: {error}")
    return error
