"""The writer: what becomes of a batch when one operation, the disk or the commit fails."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from gateway.core.effect import Outcome
from gateway.core.errors import InvariantError, LedgerUnavailable
from gateway.store.ledger import Ledger
from gateway.store.upkeep import Kept
from gateway.store.writer import MAX_BATCH, Writer
from tests.conformance.books import Books, proposal, verdict


class Flaky:
    """A connection whose next statement of a kind fails as told."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.fails: dict[str, int] = {}
        self.closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)

    def execute(self, text: str, parameters: Any = ()) -> sqlite3.Cursor:
        for start, times in self.fails.items():
            if times and text.startswith(start):
                self.fails[start] -= 1
                raise sqlite3.OperationalError(f"disk I/O error at {start}")
        return self.db.execute(text, parameters)

    def close(self) -> None:
        self.closed = True
        self.db.close()


def writer_of(ledger: Ledger) -> Writer:
    return ledger._writer


async def make_flaky(books: Books) -> Flaky:
    """Put a flaky connection between the writer and its file, while the writer is at rest."""
    await books.ledger.beat()
    writer = writer_of(books.ledger)
    assert writer._db is not None
    flaky = Flaky(writer._db)
    writer._db = flaky
    return flaky


def sabotage(books: Books, text: str) -> None:
    """Change the schema under the ledger, as a person with a shell could."""
    db = sqlite3.connect(books.path, isolation_level=None)
    try:
        db.execute(text)
    finally:
        db.close()


async def test_one_poisoned_operation_fails_alone(books: Books):
    rulings = await books.together(
        books.ledger.admit(proposal("e-1", "k-1")),
        books.settle("e-nowhere", Outcome.CONFIRMED),
        books.ledger.admit(proposal("e-3", "k-3")),
        books.ledger.admit(proposal("e-4", "k-1")),
    )

    assert books.watcher.batches[-1] == 4
    assert isinstance(rulings[1], InvariantError)
    assert [verdict(rulings[at]) for at in (0, 2, 3)] == ["admit", "admit", "in-flight"]
    assert books.rows("SELECT id FROM effect ORDER BY id") == [("e-1",), ("e-3",)]
    assert books.watcher.up[-1] == (True, None)  # the ledger itself is well


async def test_what_a_failed_batch_had_changed_in_memory_is_forgotten(books: Books):
    first, second = await books.admitted("k-1"), await books.admitted("k-2")

    results = await books.together(
        books.settle(first, Outcome.CONFIRMED),
        books.ledger.admit(proposal("e-raise", "k-3", term=8, covers="z")),
        books.settle("e-nowhere", Outcome.CONFIRMED),
        books.settle(second, Outcome.REJECTED),
    )

    assert isinstance(results[2], InvariantError)
    assert (await books.effect(first)).outcome is Outcome.CONFIRMED
    assert (await books.effect(second)).outcome is Outcome.REJECTED
    assert books.handovers()[-1] == (8, 7, [second])
    assert await books.ask("k-2", term=8) == "admit"


@pytest.mark.parametrize("table", ["effect", "attempt", "scope", "handover"])
async def test_a_row_that_is_not_written_stops_the_effect(books: Books, table: str):
    sabotage(
        books, f"CREATE TRIGGER swallow BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END"
    )

    with pytest.raises(InvariantError):
        await books.admit("k-1")

    for name in ("effect", "attempt", "scope", "handover", "transition"):
        assert books.rows(f"SELECT count(*) FROM {name}") == [(0,)]
    sabotage(books, "DROP TRIGGER swallow")
    assert await books.ask("k-1") == "admit"


@pytest.mark.parametrize("table", ["effect", "attempt"])
async def test_an_outcome_that_is_not_written_is_told(books: Books, table: str):
    effect_id = await books.admitted()
    sabotage(
        books, f"CREATE TRIGGER swallow BEFORE UPDATE ON {table} BEGIN SELECT RAISE(IGNORE); END"
    )

    with pytest.raises(InvariantError, match=f"0 of 1 rows were there for UPDATE {table}"):
        await books.settle(effect_id, Outcome.CONFIRMED)

    sabotage(books, "DROP TRIGGER swallow")
    assert (await books.effect(effect_id)).outcome is None
    assert (await books.settle(effect_id, Outcome.CONFIRMED)).outcome is Outcome.CONFIRMED


async def test_of_a_batch_only_the_row_that_is_swallowed_is_stopped(books: Books):
    sabotage(
        books,
        "CREATE TRIGGER swallow BEFORE INSERT ON attempt WHEN NEW.effect_id = 'e-2' "
        "BEGIN SELECT RAISE(IGNORE); END",
    )

    rulings = await books.together(
        *(books.ledger.admit(proposal(f"e-{n}", f"k-{n}")) for n in (1, 2, 3))
    )

    assert [type(ruling).__name__ for ruling in rulings] == ["Ruling", "InvariantError", "Ruling"]
    assert books.rows("SELECT effect_id FROM attempt ORDER BY 1") == [("e-1",), ("e-3",)]
    assert books.rows("SELECT id FROM effect ORDER BY 1") == [("e-1",), ("e-3",)]


async def test_a_full_disk_records_nothing_and_service_resumes_when_there_is_room(books: Books):
    kept = await books.settled(Outcome.CONFIRMED, "k-1")
    (pages,) = await writer_of(books.ledger).run(_limit_pages(0))
    before = dump(books)
    await writer_of(books.ledger).run(_limit_pages(1))
    big = b"x" * 100_000

    results = await books.together(
        *(books.ledger.admit(proposal(f"f-{n}", f"full-{n}", request_body=big)) for n in range(20))
    )

    assert {type(result) for result in results} == {LedgerUnavailable}
    assert books.watcher.up[-1][0] is False
    assert "full" in str(books.watcher.up[-1][1])
    assert dump(books) == before

    await writer_of(books.ledger).run(_limit_pages(pages))
    assert await books.ask("full-3") == "admit"
    assert books.watcher.up[-1] == (True, None)
    assert await books.ask("k-1") == "replay"
    assert (await books.effect(kept)).outcome is Outcome.CONFIRMED


def _limit_pages(limit: int) -> Callable[[sqlite3.Connection, int], Any]:
    return lambda db, now_ms: db.execute(f"PRAGMA max_page_count = {limit}").fetchone()


def dump(books: Books) -> dict[str, list[Any]]:
    tables = ("effect", "attempt", "scope", "handover", "transition", "refusal", "answer")
    return {table: books.rows(f"SELECT * FROM {table}") for table in tables}


async def test_a_commit_that_fails_records_nothing(books: Books):
    flaky = await make_flaky(books)
    flaky.fails = {"COMMIT": 1}

    with pytest.raises(LedgerUnavailable, match="disk I/O error at COMMIT"):
        await books.admit("k-1")

    assert books.watcher.up[-1][0] is False
    assert books.rows("SELECT count(*) FROM effect") == [(0,)]
    assert await books.ask("k-1") == "admit"


async def test_a_batch_whose_commit_fails_is_run_again_one_by_one(books: Books):
    flaky = await make_flaky(books)
    flaky.fails = {"COMMIT": 2}  # of the heartbeat ahead of the batch, and of the batch

    rulings = await books.together(
        *(books.ledger.admit(proposal(f"e-{n}", f"k-{n}")) for n in range(3))
    )

    assert [verdict(ruling) for ruling in rulings] == ["admit"] * 3
    assert books.rows("SELECT count(*) FROM attempt") == [(3,)]


async def test_a_connection_that_cannot_even_roll_back_is_replaced(books: Books):
    flaky = await make_flaky(books)
    flaky.fails = {"COMMIT": 1, "ROLLBACK": 1}

    with pytest.raises(LedgerUnavailable):
        await books.admit("k-1")
    assert flaky.closed

    assert await books.ask("k-1") == "admit"
    assert writer_of(books.ledger)._db is not flaky


async def test_a_ledger_that_cannot_be_reopened_says_so_and_is_tried_again(books: Books):
    flaky = await make_flaky(books)
    writer = writer_of(books.ledger)
    connect = writer._connect
    tries = 0

    def refuse() -> sqlite3.Connection:
        nonlocal tries
        tries += 1
        raise sqlite3.OperationalError("unable to open database file")

    writer._connect = refuse
    flaky.fails = {"COMMIT": 1, "ROLLBACK": 1}
    with pytest.raises(LedgerUnavailable, match="COMMIT"):
        await books.admit("k-1")
    for _ in range(2):
        with pytest.raises(LedgerUnavailable, match="unable to open database file"):
            await books.admit("k-1")
    assert tries == 2

    writer._connect = connect
    assert await books.ask("k-1") == "admit"
    assert books.watcher.up[-1] == (True, None)


async def test_jobs_keep_their_order_and_a_solo_job_goes_alone(books: Books):
    order: list[str] = []

    async def note(name: str, job: Any) -> None:
        await job
        order.append(name)

    before = len(books.watcher.batches)
    await asyncio.gather(
        note("beat", books.ledger.beat()),
        note("a", books.admit("a")),
        note("b", books.admit("b")),
        note("strand", books.ledger.strand()),
        note("c", books.admit("c")),
        note("kept", books.ledger.forget(Kept())),
        note("beat", books.ledger.beat()),
        note("d", books.admit("d")),
    )

    assert order == ["beat", "a", "b", "strand", "c", "kept", "beat", "d"]
    assert books.watcher.batches[before:] == [1, 2, 1, 1, 1, 1, 1]


async def test_a_batch_is_bounded(books: Books):
    before = len(books.watcher.batches)

    await books.together(
        *(books.ledger.admit(proposal(f"e-{n}", f"k-{n}")) for n in range(MAX_BATCH + 10))
    )

    assert books.watcher.batches[before:] == [1, MAX_BATCH, 10]


async def test_nothing_is_answered_before_its_commit(books: Books):
    flaky = await make_flaky(books)
    await books.settled(Outcome.CONFIRMED, "k-1")
    flaky.fails = {"COMMIT": 1}

    with pytest.raises(LedgerUnavailable):  # a replay waits for the commit too
        await books.admit("k-1")


async def test_a_caller_that_leaves_does_not_stop_what_it_asked_for(books: Books):
    first = asyncio.ensure_future(books.admit("k-1"))
    second = asyncio.ensure_future(books.admit("k-2"))
    await asyncio.sleep(0)
    second.cancel()

    await first
    assert await books.ask("k-2") == "in-flight"


async def test_closing_finishes_what_was_queued(books: Books):
    jobs = [asyncio.ensure_future(books.admit(f"k-{n}")) for n in range(30)]
    await asyncio.sleep(0)

    await books.ledger.close()

    assert {verdict(await job) for job in jobs} == {"admit"}
    with pytest.raises(LedgerUnavailable, match="closed"):
        await books.admit("k-99")
    await books.reopen()
    assert books.rows("SELECT count(*) FROM attempt WHERE outcome = 'unknown'") == [(30,)]
