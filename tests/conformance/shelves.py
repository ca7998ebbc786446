"""Where a ledger under test lives, and how it is looked at beside the gateway."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from gateway.store.homes import FileHome, Home, PostgresHome
from gateway.store.postgres import PostgresDatabase, Where


class Shelf(Protocol):
    """The place of a ledger under test, to open it and to look at what is committed."""

    def home(self) -> Home: ...

    def rows(self, text: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Read, beside the writer."""

    def columns(self, table: str) -> list[str]: ...

    def change(self, text: str) -> None:
        """Change the ledger behind the gateway's back, as a person with a shell could."""

    def swallow(self, table: str) -> None:
        """Let the database lose what is inserted into a table, without a word."""

    def spit_out(self, table: str) -> None: ...

    def close(self) -> None: ...


class FileShelf:
    """A file of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def home(self) -> Home:
        return FileHome(self.path)

    def rows(self, text: str, parameters: Sequence[Any] = ()) -> list[Any]:
        db = sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            return db.execute(text, parameters).fetchall()
        finally:
            db.close()

    def columns(self, table: str) -> list[str]:
        return [row[1] for row in self.rows(f"PRAGMA table_info({table})")]

    def change(self, text: str) -> None:
        db = sqlite3.connect(self.path, isolation_level=None)
        try:
            db.execute(text)
        finally:
            db.close()

    def swallow(self, table: str) -> None:
        self.change(
            f"CREATE TRIGGER swallow BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END"
        )

    def spit_out(self, table: str) -> None:
        self.change("DROP TRIGGER swallow")

    def close(self) -> None:
        return None


class PostgresShelf:
    """A database of its own. The clock that is handed in is the store's."""

    def __init__(self, url: str) -> None:
        self.where = Where(url)
        self._thread = ThreadPoolExecutor(1)
        self._db: PostgresDatabase | None = None

    def home(self) -> Home:
        return PostgresHome(self.where, own_clock=True)

    def _ask(self, text: str, parameters: Sequence[Any]) -> list[Any]:
        if self._db is None:
            self._db = PostgresDatabase(self.where)
        return self._db.execute(text, parameters).fetchall()

    def rows(self, text: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return self._thread.submit(self._ask, text, parameters).result()

    def columns(self, table: str) -> list[str]:
        found = self.rows(
            "SELECT CAST(attname AS text) FROM pg_attribute WHERE attrelid = CAST(? AS regclass) "
            "AND attnum > 0",
            (table,),
        )
        return [name for (name,) in found]

    def change(self, text: str) -> None:
        self.rows(text)

    def swallow(self, table: str) -> None:
        self.change(
            "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN NULL; END $$"
        )
        self.change(
            f"CREATE TRIGGER swallow BEFORE INSERT ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION swallow()"
        )

    def spit_out(self, table: str) -> None:
        self.change(f"DROP TRIGGER swallow ON {table}")

    def close(self) -> None:
        if self._db is not None:
            self._thread.submit(self._db.close).result()
        self._thread.shutdown()
