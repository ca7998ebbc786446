"""Where readers read: a connection beside the writer's, on one store or the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import aiosqlite

from gateway.core.errors import StoreError
from gateway.store.connect import read_only_uri


class Source(Protocol):
    """Answers questions. Raises StoreError."""

    async def rows(self, text: str, parameters: Sequence[Any]) -> list[Any]: ...

    async def now_ms(self, wall_ms: int) -> int:
        """Return the ledger's time, as near as it is known beside a writer. `wall_ms` is this
        machine's."""

    async def close(self) -> None: ...


class FileSource:
    """A ledger's file, opened for reading. Works on a live ledger and on one at rest."""

    def __init__(self, db: aiosqlite.Connection) -> None:
        self._db = db

    @classmethod
    async def open(cls, path: Path) -> FileSource:
        """Open the ledger at `path`. Raises StoreError if there is none."""
        db = aiosqlite.connect(read_only_uri(path), uri=True, isolation_level=None)
        try:
            db = await db
            await db.execute("PRAGMA query_only = ON")
        except BaseException as error:  # a cancelled opening too
            await db.close()  # or its thread would outlive the event loop
            if not isinstance(error, sqlite3.Error):
                raise
            raise StoreError(
                f"the ledger at {path} cannot be read: {error}; look at --ledger, or start a "
                "gateway that makes it"
            ) from error
        return cls(db)

    async def rows(self, text: str, parameters: Sequence[Any]) -> list[Any]:
        try:
            # In one go: a statement that is half read keeps its snapshot open, and another one that
            # is begun meanwhile would not see what was committed since.
            return list(await self._db.execute_fetchall(text, parameters))
        except sqlite3.Error as error:
            raise StoreError(f"the ledger cannot be read: {error}") from error

    async def now_ms(self, wall_ms: int) -> int:
        return wall_ms

    async def close(self) -> None:
        await self._db.close()
