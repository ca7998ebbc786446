"""Two at the same rows of a PostgreSQL ledger: every order in which they can meet.

One side is the gateway's own code; the other is another gateway that stands still before its
commit, or a person's session that holds the row. A plain read, or a condition inside the write,
admits an old term's write beside a takeover in each of these.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from gateway.core.effect import Outcome
from gateway.core.errors import LedgerUnavailable
from gateway.core.lease import Granted
from gateway.store.homes import PostgresHome
from gateway.store.ledger import Ledger
from gateway.store.upkeep import DEAD_AFTER_MS, Identity
from tests.conformance.books import (
    RULES,
    Books,
    Watcher,
    by,
    came_to,
    proposal,
    verdict,
)
from tests.conformance.shelves import PostgresShelf
from tests.postgres_server import Server

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


class HeldHome(PostgresHome):
    """Its writer stands still before each commit for as long as it is told."""

    def __init__(self, shelf: PostgresShelf) -> None:
        super().__init__(shelf.where, own_clock=True)
        self.free = threading.Event()
        self.free.set()
        self.there = threading.Event()

    def check(self) -> None:
        if not self.free.is_set():
            self.there.set()
            assert self.free.wait(10)

    async def held(self) -> None:
        """Come back when a transaction has done all but commit."""
        assert await asyncio.to_thread(self.there.wait, 10)


@pytest.fixture
async def one(postgres_url: str) -> AsyncIterator[Books]:
    books = await Books.open_at(PostgresShelf(postgres_url))
    try:
        yield books
    finally:
        await books.close()


@pytest.fixture
async def other(one: Books) -> AsyncIterator[Books]:
    """A second gateway on the same database, whose commits can be held up."""
    assert isinstance(one.shelf, PostgresShelf)
    home = HeldHome(one.shelf)
    ledger = await Ledger.open_at(home, one.clock)
    books = Books(PostgresShelf(one.shelf.where.dsn), one.clock, ledger, Watcher(), born=500)
    try:
        yield books
    finally:
        home.free.set()
        await books.close()


@pytest.fixture
async def person(postgres_url: str) -> AsyncIterator[Any]:
    """A session of somebody who knows nothing of the gateway's order of locks."""
    connection = await asyncpg.connect(postgres_url)
    try:
        yield connection
    finally:
        await connection.close()


def home_of(books: Books) -> HeldHome:
    assert isinstance(books.ledger._home, HeldHome)
    return books.ledger._home


def backend_of(books: Books) -> int:
    """Return the process of the server that serves a gateway's writer."""
    db: Any = books.ledger._writer._db
    pid: int = db._connection.get_server_pid()
    return pid


async def until_waiting(books: Books, count: int = 1) -> None:
    """Come back when so many sessions wait for a lock."""
    for _ in range(2000):
        if books.rows(WAITING)[0][0] >= count:
            return
        await asyncio.sleep(0.002)
    raise AssertionError("nobody waits")


async def test_an_admission_waits_for_a_raise_that_is_not_committed_and_is_refused(
    one: Books, person: Any
):
    """P1, P2: the condition alone would have been true when it was looked at."""
    await one.settled(Outcome.CONFIRMED, "before", term=7)
    await one.settled(Outcome.CONFIRMED, "again", term=7)
    raising = person.transaction()
    await raising.start()
    await person.execute("UPDATE scope SET highest_term = 8, holder = 'leader#8'")

    asked = asyncio.ensure_future(one.ask("k-1", term=7))
    await until_waiting(one)
    assert not asked.done()
    await raising.commit()

    assert await asked == "stale-term"
    assert one.rows("SELECT count(*) FROM attempt WHERE term = 7") == [(2,)]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
async def test_no_default_of_the_database_lets_an_old_snapshot_decide(
    postgres_url: str, postgres_server: Server, level: str
):
    """P3, P6: a snapshot from before the takeover would find the old term in force, and with the
    level set on one side only nothing would abort either."""
    database = postgres_server.ledger()
    change = f"ALTER DATABASE {database} SET default_transaction_isolation = '{level}'"
    await asyncio.to_thread(postgres_server.psql, change)
    person = await asyncpg.connect(postgres_url)
    books = await Books.open_at(PostgresShelf(postgres_url))
    try:
        await books.settled(Outcome.CONFIRMED, "before", term=7)
        raising = person.transaction()
        await raising.start()
        await person.execute("UPDATE scope SET highest_term = 8, holder = 'leader#8'")
        asked = asyncio.ensure_future(books.ask("k-1", term=7))
        await until_waiting(books)
        await raising.commit()

        assert await asked == "stale-term"
        assert books.rows("SELECT count(*) FROM attempt WHERE term = 7") == [(1,)]
    finally:
        await books.close()
        await person.close()
        reset = f"ALTER DATABASE {database} RESET default_transaction_isolation"
        await asyncio.to_thread(postgres_server.psql, reset)


async def test_a_raise_waits_for_an_admission_that_is_not_committed_and_lists_it(
    one: Books, other: Books
):
    """P4b: the one that was first is in the handover's set."""
    await one.admitted("before", term=7, covers="a")
    home_of(other).free.clear()
    first = asyncio.ensure_future(other.admitted("k-1", term=7, covers="b"))
    await home_of(other).held()

    raised = asyncio.ensure_future(one.ask("k-2", term=8, covers="c"))
    await until_waiting(one)
    assert not raised.done()
    home_of(other).free.set()

    effect_id = await first
    assert await raised == "admit"
    assert one.handovers()[-1] == (8, 7, ["e-001", effect_id])


async def test_an_admission_waits_for_a_grant_that_is_not_committed_and_is_refused(
    one: Books, other: Books
):
    """P4, between two gateways: fenced before the new leader has heard of its term."""
    lease = await one.leads("ana#1")
    home_of(other).free.clear()
    granted = asyncio.ensure_future(other.acquire("ana#2", supersede=True))
    await home_of(other).held()

    asked = asyncio.ensure_future(one.ask("k-1", **by(lease)))
    await until_waiting(one)
    home_of(other).free.set()

    assert isinstance((await granted).answer, Granted)
    assert await asked == "stale-term"
    assert one.handovers()[-1] == (2, 1, [])


async def test_a_grant_lists_what_settles_meanwhile_as_it_is_at_its_commit(
    one: Books, other: Books
):
    lease = await one.leads("ana#1")
    effect_id = await one.admitted("k-1", covers="a", **by(lease))
    left = await one.admitted("k-2", covers="b", **by(lease))
    home_of(other).free.clear()
    settled = asyncio.ensure_future(other.settle(effect_id, Outcome.CONFIRMED))
    await home_of(other).held()

    granted = asyncio.ensure_future(one.acquire("ana#2", supersede=True))
    await until_waiting(one)
    home_of(other).free.set()

    await settled
    assert came_to(await granted) == "granted 2 of ana#2"
    assert one.handovers()[-1] == (2, 1, [left])


async def test_a_renewal_that_waits_past_its_expiry_stays_dead(one: Books, person: Any):
    """P5: the clock is read after the row is held, not before the wait."""
    lease = await one.leads("ana#1")
    holding = person.transaction()
    await holding.start()
    await person.execute("SELECT 1 FROM lease FOR UPDATE")

    renewed = asyncio.ensure_future(one.renew("ana#1", lease.term))
    await until_waiting(one)
    one.clock.advance(ms=RULES.ttl_ms)
    await holding.rollback()

    assert came_to(await renewed) == "lease-gone"
    assert one.rows("SELECT renewed_at_ms FROM lease") == [(lease.renewed_at_ms,)]


async def test_a_renewal_does_not_wait_for_admissions_nor_they_for_it(one: Books, other: Books):
    lease = await one.leads("ana#1")
    await one.admitted("k-0", covers="a", **by(lease))
    await one.admitted("k-00", covers="b", **by(lease))
    home_of(other).free.clear()
    held = asyncio.ensure_future(other.ask("k-1", covers="c", **by(lease)))
    await home_of(other).held()

    assert came_to(await one.renew("ana#1", lease.term)) == "changed 1 of ana#1"
    assert await one.ask("k-2", covers="d", **by(lease)) == "admit"
    assert not held.done()
    home_of(other).free.set()
    assert await held == "admit"


async def test_two_at_one_key_are_one_behind_the_other(one: Books, other: Books):
    await one.admitted("first", covers="a")
    home_of(other).free.clear()
    first = asyncio.ensure_future(other.ask("k-1"))
    await home_of(other).held()

    second = asyncio.ensure_future(one.ask("k-1"))
    await until_waiting(one)
    home_of(other).free.set()

    assert (await first, await second) == ("admit", "in-flight")


async def test_two_writes_to_one_thing_know_of_each_other(one: Books, other: Books):
    """The mark of the one may be overwritten by the other: neither is concluded from later."""
    await one.admitted("first", covers="a")
    home_of(other).free.clear()
    first = asyncio.ensure_future(other.admitted("k-1", covers="deal 7"))
    await home_of(other).held()
    second = asyncio.ensure_future(one.admitted("k-2", covers="deal 7"))
    await until_waiting(one)
    home_of(other).free.set()
    await asyncio.gather(first, second)

    found = one.rows("SELECT superseded FROM effect WHERE covers = 'deal 7'")
    assert found == [(1,), (1,)]


async def test_a_grant_is_not_passed_over_by_a_stream_of_admissions(one: Books, other: Books):
    lease = await one.leads("ana#1")
    granted = asyncio.Event()

    async def stream(books: Books, name: str) -> int:
        count = 0
        while True:
            said = await books.ask(f"{name}-{count}", covers=f"{name}-{count}", **by(lease))
            if said != "admit":
                assert said == "stale-term"
                return count
            count += 1
            assert not granted.is_set()

    streams = [
        asyncio.ensure_future(stream(books, f"{n}-{at}"))
        for at, books in enumerate((one, other))
        for n in range(20)
    ]
    assert isinstance(one.shelf, PostgresShelf)
    third = await Ledger.open_at(PostgresHome(one.shelf.where, own_clock=True), one.clock)
    books = Books(PostgresShelf(one.shelf.where.dsn), one.clock, third, born=900)
    try:
        answer = await asyncio.wait_for(books.acquire("ana#2", supersede=True), 4)
        assert isinstance(answer.answer, Granted)
        counts = await asyncio.gather(*streams)
        assert sum(counts) > 0
        left = [row[0] for row in one.rows("SELECT effect_id FROM attempt WHERE term = 1")]
        assert one.handovers()[-1] == (2, 1, sorted(left))
    finally:
        await books.close()


async def test_an_intent_of_a_gateway_that_lives_is_not_stranded_before_its_deadline(
    one: Books, other: Books
):
    effect_id = await one.admitted("k-1", timeout_ms=60_000)

    assert await other.ledger.strand() == 0
    assert await other.ask("k-1") == "in-flight"
    one.clock.advance(ms=DEAD_AFTER_MS - 1)
    await one.ledger.beat()
    one.clock.advance(ms=DEAD_AFTER_MS - 1)
    await other.ledger.beat()
    assert await other.ask("k-1") == "in-flight"

    one.clock.advance(ms=2)
    await other.ledger.beat()
    assert await other.ask("k-1") == "outcome-unknown"
    # it had only been away: what it knows is the truth all the same
    await one.ledger.beat()
    await one.settle(effect_id, Outcome.CONFIRMED)
    assert await other.ask("k-1") == "replay"


async def test_a_gateway_that_stopped_in_order_leaves_nothing_in_flight(one: Books, other: Books):
    await one.admitted("k-1", timeout_ms=60_000)
    await one.ledger.close()

    assert await other.ask("k-1") == "outcome-unknown"
    one.ledger = await Ledger.open_at(one.shelf.home(), one.clock)


async def test_a_gateway_with_other_policies_than_those_in_force_does_not_write(
    one: Books, other: Books
):
    same = [Identity("destination", "crm", '["a"]')]
    assert await one.ledger.adopt(same, {}) == []
    assert await other.ledger.adopt(same, {}) == []
    effect_id = await one.admitted("k-1")
    await one.settle(effect_id, Outcome.CONFIRMED)
    assert await other.ask("k-1") == "replay"

    assert await other.ledger.adopt([Identity("destination", "crm", '["b"]')], {}) == []

    with pytest.raises(LedgerUnavailable, match="another gateway has changed"):
        await one.admitted("k-2")
    assert await other.ask("k-2") == "admit"
    assert await one.ledger.adopt([Identity("destination", "crm", '["b"]')], {}) == []
    assert await one.ask("k-3", covers="c") == "admit"


async def test_a_connection_that_was_cut_is_replaced_before_anybody_notices(
    one: Books, person: Any
):
    await one.admitted("k-1")
    await person.execute("SELECT pg_terminate_backend($1)", backend_of(one))

    assert verdict(await one.ledger.admit(proposal("e-9", "k-9", covers="b"))) == "admit"


async def test_a_connection_that_is_cut_inside_a_transaction_records_nothing(
    one: Books, other: Books, person: Any
):
    await one.admitted("k-0")
    home_of(other).free.clear()
    asked = asyncio.ensure_future(other.ask("k-1", covers="b"))
    await home_of(other).held()
    await person.execute("SELECT pg_terminate_backend($1)", backend_of(other))
    home_of(other).free.set()

    with pytest.raises(LedgerUnavailable):
        await asked
    assert await other.ask("k-1", covers="b") == "admit"
    assert other.rows("SELECT count(*) FROM effect") == [(2,)]


async def test_a_gateway_that_stands_still_before_its_commit_is_let_go_of(one: Books, other: Books):
    await one.admitted("k-0", covers="a")
    home_of(other).free.clear()
    still = asyncio.ensure_future(other.ask("k-1"))
    await home_of(other).held()

    assert await one.ask("k-1") == "admit"
    home_of(other).free.set()

    with pytest.raises(LedgerUnavailable):
        await still
    assert await other.ask("k-1") == "in-flight"
    assert one.rows("SELECT count(*) FROM attempt") == [(2,)]
