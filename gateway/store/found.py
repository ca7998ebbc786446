"""What a statement on PostgreSQL came to, as the ledger's operations read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Found:
    """What a statement came to."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[tuple[Any, ...]], status: str) -> None:
        self._rows = rows
        count = status.rpartition(" ")[2]
        self.rowcount = int(count) if count.isdecimal() else -1

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)
