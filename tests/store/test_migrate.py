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
    assert migrate(db, 5, [ONE, TWO]) == 2

    assert tables(db) == ["a", "b", "schema_migration"]
    assert applied(db) == [(1, "one", 5), (2, "two", 5)]
    assert db.execute("SELECT x FROM b").fetchall() == [("a;b",)]


def test_only_what_is_missing_is_applied(db: sqlite3.Connection):
    migrate(db, 5, [ONE])

    assert migrate(db, 6, [ONE, TWO]) == 1
    assert migrate(db, 7, [ONE, TWO]) == 0
    assert applied(db) == [(1, "one", 5), (2, "two", 6)]


def test_a_ledger_of_a_newer_version_is_refused(db: sqlite3.Connection):
    migrate(db, 5, [ONE, TWO])

    with pytest.raises(StoreError, match="has migration 2, which this version does not know"):
        migrate(db, 6, [ONE])


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
    assert migrate(db, 6, [ONE, TWO]) == 1


def test_a_last_statement_without_its_semicolon_is_not_lost(db: sqlite3.Connection):
    migrate(db, 5, [replace(ONE, text="CREATE TABLE a (x);\nCREATE TABLE b (x)\n-- the end\n")])

    assert tables(db) == ["a", "b", "schema_migration"]


def test_the_shipped_steps_are_numbered_without_a_gap_and_apply(db: sqlite3.Connection):
    steps = shipped()

    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert migrate(db, 5) == len(steps)
    assert migrate(db, 6) == 0
