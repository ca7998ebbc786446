"""A gateway under which the ledger was changed, while it stood still, writes no more."""

from __future__ import annotations

import asyncio

import pytest

from gateway.clock import SystemClock
from gateway.core.errors import LedgerUnavailable, StoreError
from gateway.store.homes import PostgresHome
from gateway.store.ledger import Ledger
from gateway.store.migrate import migrate, shipped
from gateway.store.postgres import PostgresDatabase, Where
from gateway.store.upkeep import Identity
from tests.conformance.books import proposal
from tests.postgres_server import Server
from tests.scenarios.newer import next_step

IDENTITIES = [Identity("destination", "crm", "[]")]


def upgrade(where: Where, kind: str, *, everybody_counts_as_dead: bool) -> None:
    db = PostgresDatabase(where)
    try:
        if everybody_counts_as_dead:
            db.execute("UPDATE instance SET heartbeat_at_ms = heartbeat_at_ms - 11000")
        migrate(db, 1, [*shipped("postgres"), next_step(kind)], db.before_step)
    finally:
        db.close()


@pytest.mark.parametrize(("kind", "overtaken"), [("compatible", False), ("breaking", True)])
async def test_a_gateway_that_stood_still_is_overtaken_only_by_what_is_not_compatible(
    postgres_server: Server, kind: str, overtaken: bool
):
    where = Where(postgres_server.url(postgres_server.database()))
    ledger = await Ledger.open_at(PostgresHome(where), SystemClock())
    try:
        await ledger.adopt(IDENTITIES, {})
        assert (await ledger.admit(proposal("e-1", "k-1"))).n == 1
        if overtaken:
            with pytest.raises(StoreError, match="cannot be applied under gateways that serve"):
                await asyncio.to_thread(upgrade, where, kind, everybody_counts_as_dead=False)
        await asyncio.to_thread(upgrade, where, kind, everybody_counts_as_dead=overtaken)

        if overtaken:
            for _ in range(2):
                with pytest.raises(LedgerUnavailable, match="newer version has changed the ledger"):
                    await ledger.admit(proposal("e-2", "k-2"))
                with pytest.raises(LedgerUnavailable, match="newer version has changed the ledger"):
                    await ledger.adopt(IDENTITIES, {})  # as a reload does
        else:
            assert (await ledger.admit(proposal("e-2", "k-2"))).n == 1
            assert await ledger.adopt(IDENTITIES, {}) == []
    finally:
        await ledger.close()
