"""SQLite as the ledger's database: a transaction that has begun holds everything."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Final

from gateway.core.ids import Scope
from gateway.store.wanted import Wanted

_OF_LIST: Final = re.compile(r"\b[kv]\.column(\d+)")
_LIST: Final = re.compile(r"FROM \(\{\}\) v |\(\{\}\) k CROSS JOIN ")


@lru_cache(maxsize=4096)
def values(rows: int, columns: int) -> str:
    """Return the text of a VALUES list of so many rows and columns."""
    row = "(" + ",".join("?" * columns) + ")"
    return "VALUES " + ",".join([row] * rows)


@lru_cache(maxsize=64)
def for_one(text: str) -> str:
    """Return `text`, written for a list of rows called k or v, for a single row.

    The list of one costs several times the statement itself, and at quiet times each batch is
    of one.
    """
    return _OF_LIST.sub(r"?\1", _LIST.sub("", text))


@lru_cache(maxsize=1024)
def _listed(text: str, rows: int, columns: int) -> str:
    return for_one(text) if rows == 1 else text.format(values(rows, columns))


class SqliteDialect:
    """VALUES lists; a list of one row is written into the statement itself."""

    name = "sqlite"

    def inserting(
        self, head: str, rows: Sequence[Sequence[Any]], tail: str = ""
    ) -> tuple[str, Sequence[Any]]:
        flat = [value for row in rows for value in row]
        return f"{head} {values(len(rows), len(rows[0]))}{tail}", flat

    def listing(
        self, text: str, types: str, rows: Sequence[Sequence[Any]], more: Sequence[Any] = ()
    ) -> tuple[str, Sequence[Any]]:
        flat = [value for row in rows for value in row]
        return _listed(text, len(rows), len(types)), [*flat, *more]


SQLITE: Final = SqliteDialect()


class SqliteDatabase(sqlite3.Connection):
    """A connection to the ledger's file, which one process owns."""

    alone = True
    dialect = SQLITE

    def lock(self, wanted: Wanted, /) -> None:
        """Nothing is left to lock: the transaction has begun, and nobody else can."""

    def alone_with(self, scope: Scope, /) -> None:
        """Nobody shares anything."""

    def adopted(self, *, changed: bool) -> None:
        """There is nobody who could run others."""

    def announce(self, instance: str, scopes: Collection[Scope] | None, /) -> None:
        """Nobody else is there to hear it."""

    def looked_at(self, recoveries: int, /) -> None:
        """Nobody else could have found it older, or recovered it."""
