"""Migrations: numbered, forward-only, checksummed, and whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.core.errors import StoreError
from gateway.store.migrate import Migration, migrate, shipped
from gateway.store.sqlite import SqliteDatabase

ONE = Migration(1, "one", "-- first\nCREATE TABLE a (x INTEGER) STRICT;\nCREATE TABLE b (x);\n")
TWO = Migration(2, "two", "ALTER TABLE a ADD COLUMN y TEXT;\nINSERT INTO b VALUES ('a;b');\n")

ADDS = Migration(2, "adds", "-- compatible: c is new.\nCREATE TABLE c (x INTEGER) STRICT;\n")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=SqliteDatabase)
    yield connection
    connection.close()


def tables(db: sqlite3.Connection) -> list[str]:
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in found]


def applied(db: sqlite3.Connection) -> list[tuple[int, str, int]]:
    return db.execute("SELECT number, name, applied_at_ms FROM schema_migration").fetchall()


def test_a_new_ledger_gets_every_step_in_order(db: sqlite3.Connection):
    assert migrate(db, 5, [ONE, TWO]).applied == 2

    assert tables(db) == ["a", "b", "schema_migration"]
    assert applied(db) == [(1, "one", 5), (2, "two", 5)]
    assert db.execute("SELECT x FROM b").fetchall() == [("a;b",)]


def test_only_what_is_missing_is_applied(db: sqlite3.Connection):
    migrate(db, 5, [ONE])

    assert migrate(db, 6, [ONE, TWO]).applied == 1
    assert migrate(db, 7, [ONE, TWO]).applied == 0
    assert applied(db) == [(1, "one", 5), (2, "two", 6)]


def test_a_ledger_of_a_newer_version_is_refused(db: sqlite3.Connection):
    migrate(db, 5, [ONE, TWO])

    with pytest.raises(StoreError, match="has migration 2, which this version does not know"):
        migrate(db, 6, [ONE])


def test_a_version_may_start_beside_newer_steps_that_only_add(db: sqlite3.Connection):
    migrate(db, 5, [ONE, ADDS, replace(ADDS, number=3, text="-- compatible\nCREATE TABLE d (x);")])

    found = migrate(db, 6, [ONE])

    assert (found.applied, found.newer) == (0, (2, 3))


def test_one_newer_step_that_is_not_compatible_is_one_too_many(db: sqlite3.Connection):
    migrate(db, 5, [ONE, replace(TWO, number=2), replace(ADDS, number=3)])

    with pytest.raises(StoreError, match="has migration 2, which this version does not know"):
        migrate(db, 6, [ONE])


def test_a_ledger_from_before_compatibility_was_recorded_goes_on(db: sqlite3.Connection):
    migrate(db, 5, [ONE])
    db.execute("ALTER TABLE schema_migration DROP COLUMN compatible")

    assert migrate(db, 6, [ONE, ADDS]).applied == 1
    assert db.execute("SELECT number, compatible FROM schema_migration").fetchall() == [
        (1, 0),
        (2, 1),
    ]


def test_a_ledger_in_use_is_asked_for_before_each_step_and_a_new_one_is_not(
    db: sqlite3.Connection,
):
    asked: list[int] = []
    migrate(db, 5, [ONE], lambda step: asked.append(step.number))
    assert asked == []

    def refuse(step: Migration) -> None:
        asked.append(step.number)
        raise StoreError("not now")

    with pytest.raises(StoreError, match="not now"):
        migrate(db, 6, [ONE, ADDS], refuse)
    assert (asked, tables(db)) == ([2], ["a", "b", "schema_migration"])


@pytest.mark.parametrize(("store", "before_the_rule"), [("sqlite", 3), ("postgres", 2)])
def test_every_shipped_step_says_whether_the_version_before_works_beside_it(
    store: str, before_the_rule: int
):
    silent = [
        step.number
        for step in shipped(store)
        if not step.text.startswith(("-- compatible", "-- not compatible"))
    ]
    assert silent == list(range(1, before_the_rule + 1))


def test_a_ledger_with_another_history_is_refused(db: sqlite3.Connection):
    migrate(db, 5, [ONE])

    with pytest.raises(StoreError, match=r"migration 1 \(one\) was applied in another form"):
        migrate(db, 6, [replace(ONE, text=ONE.text + " "), TWO])

    assert applied(db) == [(1, "one", 5)]


def test_a_step_that_fails_leaves_nothing_behind(db: sqlite3.Connection):
    broken = replace(TWO, text="CREATE TABLE c (x);\nINSERT INTO nowhere VALUES (1);\n")

    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(db, 5, [ONE, broken])

    assert not db.in_transaction
    assert tables(db) == ["a", "b", "schema_migration"]
    assert applied(db) == [(1, "one", 5)]
    assert migrate(db, 6, [ONE, TWO]).applied == 1


def test_a_last_statement_without_its_semicolon_is_not_lost(db: sqlite3.Connection):
    migrate(db, 5, [replace(ONE, text="CREATE TABLE a (x);\nCREATE TABLE b (x)\n-- the end\n")])

    assert tables(db) == ["a", "b", "schema_migration"]


def test_the_shipped_steps_are_numbered_without_a_gap_and_apply(db: sqlite3.Connection):
    steps = shipped()

    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert migrate(db, 5).applied == len(steps)
    assert migrate(db, 6).applied == 0
