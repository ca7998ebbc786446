"""A hand on the ledger beside its gateways: what `recover` does, each in its transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import TracebackType
from typing import TypeVar

from gateway.clock import Clock
from gateway.core.doubt import Doubt
from gateway.core.errors import StoreError
from gateway.store import recover
from gateway.store.clock import Timekeeper
from gateway.store.database import Database
from gateway.store.homes import Home
from gateway.store.recover import Findings, Recovered
from gateway.store.witness import Seen

T = TypeVar("T")


class Repair:
    """Opens the ledger without any of what a gateway does at its start."""

    def __init__(self, home: Home, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._time: Timekeeper | None = None
        self._db: Database | None = None

    def __enter__(self) -> Repair:
        self._time = self._home.prepare(self._clock)
        try:
            self._db = self._home.connect()
        except BaseException:
            self._home.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._db is not None:
            self._db.close()
        self._home.release()

    def look(self, witnesses: Sequence[Seen]) -> Findings:
        return self._alone(partial(recover.look, witnesses=witnesses))

    def recover(self, witnesses: Sequence[Seen], principal: str, reason: str) -> Recovered:
        return self._alone(
            partial(recover.recover, witnesses=witnesses, principal=principal, reason=reason)
        )

    def trust(
        self, names: Collection[str], principal: str, reason: str
    ) -> tuple[Doubt | None, int]:
        return self._alone(partial(recover.trust, names=names, principal=principal, reason=reason))

    def _alone(self, turn: Callable[[Database, int], T]) -> T:
        if self._db is None or self._time is None:
            raise StoreError("the ledger is not open")
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            now_ms = self._time.read(db)
            found = turn(db, now_ms)
            self._time.write(db, now_ms)
            db.execute("COMMIT")
        except BaseException as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StoreError(f"the ledger cannot be changed: {error}") from error
            raise
        return found
