"""What is kept in memory of leases is what is on disk, whatever has failed in between."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.candidates import Eligibility, VersionRange
from gateway.core.effect import Outcome
from gateway.core.errors import InvariantError, LedgerUnavailable
from gateway.core.ids import Scope
from gateway.store.lease_records import CandidateReport
from gateway.store.lease_rows import (
    CANDIDATE_COLUMNS,
    LEASE_COLUMNS,
    CandidateRow,
    LeaseMemory,
    LeaseRow,
)
from tests.conformance.books import RULES, TERMS, Books, by, came_to

SCOPE = Scope("report")
NEW = replace(TERMS, eligible=Eligibility(versions=VersionRange.parse(">=2026.10")))
TABLES = ("lease", "scope", "handover", "transition", "candidate", "lease_loss")


def memory(store: Books) -> LeaseMemory:
    return store.ledger._writer._recent.leadership


def kept(store: Books) -> LeaseRow | None:
    return memory(store).leases.get(SCOPE)


def on_disk(store: Books) -> LeaseRow | None:
    found = store.rows(f"SELECT {LEASE_COLUMNS} FROM lease WHERE function = ? AND unit = ?", *SCOPE)
    return LeaseRow.read(found[0]) if found else None


def agrees(store: Books) -> bool:
    """Whether what memory holds, if anything, is what is on disk."""
    row = kept(store)
    if row is not None and (row.lease is not None or on_disk(store) is not None):
        assert row == on_disk(store)
    for function, candidates in memory(store).candidates.items():
        found = store.rows(
            f"SELECT {CANDIDATE_COLUMNS} FROM candidate WHERE function = ?", function
        )
        assert candidates == {row[1]: CandidateRow.read(row) for row in found}
    return True


def everything(store: Books) -> dict[str, list[Any]]:
    return {table: store.rows(f"SELECT * FROM {table}") for table in TABLES}


class Failing:
    """The store's connection, whose next statement of a kind fails."""

    def __init__(self, db: sqlite3.Connection, start: str, times: int) -> None:
        self._db, self._start, self._left = db, start, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, text: str, parameters: Any = ()) -> sqlite3.Cursor:
        if self._left and text.lstrip().startswith(self._start):
            self._left -= 1
            raise sqlite3.OperationalError(f"disk I/O error at {self._start}")
        return self._db.execute(text, parameters)


def fail(store: Books, start: str, times: int = 1) -> None:
    """Let the next statements fail that begin so; the writer has to be at rest."""
    writer = store.ledger._writer
    assert writer._db is not None
    writer._db = Failing(writer._db, start, times)


async def at_rest(store: Books) -> None:
    await store.report("bo#1")
    await store.report("cy#1")
    await store.leads("ana#1")
    assert kept(store) is not None


@pytest.mark.parametrize("start", ["COMMIT", "INSERT INTO lease", "INSERT INTO scope"])
async def test_a_grant_that_fails_leaves_no_lease_in_memory(store: Books, start: str):
    fail(store, start)

    with pytest.raises(LedgerUnavailable, match="disk I/O error"):
        await store.acquire("ana#1")

    assert kept(store) is None
    assert {table: found for table, found in everything(store).items() if found} == {}
    assert came_to(await store.acquire("bo#1")) == "granted 1 of bo#1"
    assert agrees(store)


@pytest.mark.parametrize("verb", ["supersede", "renew", "release", "step down", "hand off"])
async def test_a_verb_that_fails_changes_nothing_anywhere(store: Books, verb: str):
    await at_rest(store)
    await store.admitted("k", **by((await store.acquire("ana#1")).answer.lease))
    store.clock.advance(ms=100)
    before = everything(store)
    verbs = {
        "supersede": lambda: store.acquire("ana#2", supersede=True),
        "renew": lambda: store.renew("ana#1", 1),
        "release": lambda: store.release("ana#1", 1),
        "step down": lambda: store.step_down("ana#1", 1),
        "hand off": lambda: store.hand_off("ana#1", 1, "bo#1"),
    }
    fail(store, "COMMIT")

    with pytest.raises(LedgerUnavailable):
        await verbs[verb]()

    assert everything(store) == before
    assert agrees(store)
    assert came_to(await store.acquire("ana#1")) == "kept 1 of ana#1"
    await verbs[verb]()
    assert agrees(store)
    assert everything(store) != before


@pytest.mark.parametrize("table", ["lease", "scope", "handover"])
async def test_a_grant_whose_row_is_swallowed_is_not_given_out(store: Books, table: str):
    await at_rest(store)
    store.shelf.swallow(table)
    before = everything(store)

    with pytest.raises(InvariantError):
        await store.acquire("ana#2", supersede=True)

    assert everything(store) == before
    assert agrees(store)
    store.shelf.spit_out(table)
    assert came_to(await store.acquire("ana#2", supersede=True)) == "granted 2 of ana#2"


async def test_what_stood_beside_a_failure_in_its_batch_is_done_once(store: Books):
    await at_rest(store)

    results = await store.together(
        store.acquire("ana#2", supersede=True),
        store.settle("e-nowhere", Outcome.CONFIRMED),
        store.acquire("ana#3", supersede=True),
        store.renew("ana#2", 2),
        store.renew("ana#3", 3),
    )

    assert isinstance(results.pop(1), InvariantError)
    assert [came_to(one) for one in results] == [
        "granted 2 of ana#2", "granted 3 of ana#3", "lease-gone", "changed 3 of ana#3",
    ]  # fmt: skip
    assert [term for term, _, _ in store.handovers()] == [1, 2, 3]
    assert agrees(store)
    assert (await store.lease()).transitions == 3


async def test_memory_keeps_up_with_a_keeper(store: Books):
    await at_rest(store)
    store.clock.advance(ms=RULES.ttl_ms)
    await store.lapse()

    assert came_to(await store.release("ana#1", 1)) == "not-holder"
    assert agrees(store)
    assert memory(store).losses["report"] == {"ana": [on_disk(store).lease.expires_at_ms]}


async def test_a_keepers_turn_that_fails_is_made_up_for(store: Books):
    await at_rest(store)
    store.clock.advance(ms=RULES.ttl_ms)
    before = everything(store)
    due_at_ms = store.ledger.due_at_ms()
    fail(store, "COMMIT")

    with pytest.raises(LedgerUnavailable):
        await store.lapse()

    assert everything(store) == before
    assert store.ledger.due_at_ms() == due_at_ms
    assert (await store.lapse())[0].kind == "leader-lost"
    assert len(await store.transitions("leader-lost")) == 1


async def test_an_alarm_that_could_not_be_written_is_raised_by_the_next_turn(store: Books):
    await store.acquire("ana#1", terms=NEW, report=CandidateReport(version="2026.9"))
    fail(store, "COMMIT")

    with pytest.raises(LedgerUnavailable):
        await store.lapse(NEW)

    assert [one.kind for one in await store.lapse(NEW)] == ["no-eligible-candidate"]
    assert await store.lapse(NEW) == []


async def test_a_report_that_fails_is_no_candidate(store: Books):
    fail(store, "COMMIT")
    with pytest.raises(LedgerUnavailable):
        await store.report("bo#1")

    assert agrees(store)
    await store.leads("ana#1")
    assert came_to(await store.hand_off("ana#1", 1, "bo#1")) == "not-eligible"
