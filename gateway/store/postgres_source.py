"""Reading a ledger on PostgreSQL: a few connections of the event loop's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from gateway.core.errors import StoreError
from gateway.store.database import ConnectionBroken, DatabaseError
from gateway.store.dialect import translate
from gateway.store.postgres import (
    CONNECT_S,
    FAILURES,
    SESSION,
    STATEMENT_S,
    Where,
    as_database_error,
    prepare_session,
)

CONNECTIONS: Final = 4
NOW: Final = (
    "SELECT greatest(CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint) + "
    "offset_ms, now_ms) FROM store_clock"
)
_READER: Final = SESSION | {"default_transaction_read_only": "on"}


class PostgresSource:
    """A pool, which replaces connections that break."""

    def __init__(self, pool: asyncpg.Pool[Any]) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, where: Where) -> PostgresSource:
        """Connect for reading. Raises StoreError if that cannot be, or there is no ledger."""
        try:
            pool = await asyncpg.create_pool(
                where.dsn,
                min_size=1,
                max_size=CONNECTIONS,
                timeout=CONNECT_S,
                command_timeout=STATEMENT_S,
                init=prepare_session,
                server_settings=_READER,
                # Not "read-write", whatever the URL says: what only reads is not that.
                target_session_attrs="primary",
                **({"password": where.password} if where.password else {}),
            )
        except (*FAILURES, ValueError) as error:
            raise ConnectionBroken(
                f"no connection to the ledger's database: {as_database_error(error)}; look at "
                "--ledger and --ledger-password-file, and whether the server runs"
            ) from error
        found = cls(pool)
        try:
            await found._find_ledger()
        except BaseException:
            await found.close()
            raise
        return found

    async def _find_ledger(self) -> None:
        if await self.rows("SELECT 1 WHERE to_regclass('store_clock') IS NULL", []):
            raise StoreError(
                "there is no ledger in this database; look at --ledger, or start a gateway that "
                "makes it"
            )

    async def rows(self, text: str, parameters: Sequence[Any]) -> list[Any]:
        try:
            found = await self._pool.fetch(translate(text), *parameters)
        except FAILURES as error:
            raise DatabaseError(f"the ledger cannot be read: {as_database_error(error)}") from error
        return [tuple(row) for row in found]

    async def now_ms(self, wall_ms: int) -> int:
        return int((await self.rows(NOW, []))[0][0])

    async def close(self) -> None:
        await self._pool.close()
