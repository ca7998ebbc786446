"""Leases in the ledger itself: read beside its gateways, or released at rest."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.cli.at_rest import LOCAL_OPERATOR, ledger_home, look, open_at_rest, time_of
from gateway.cli.exits import Exit, fail
from gateway.cli.options import LedgerAt
from gateway.control.lease_views import lease_out, page_of_leases, terms_of
from gateway.core.ids import Scope
from gateway.core.lease import Ask, Turned
from gateway.store.homes import Home
from gateway.store.lease_records import LeaseAnswer, LeaseRecord
from gateway.store.queries import Reader


def list_leases(
    ledger: LedgerAt, function: str | None, limit: int, cursor: str | None
) -> dict[str, Any]:
    """Return a page of leases as /v1 gives it. A ledger knows no policies, so what was never
    led is not in it."""
    only = None if function is None else [function]

    async def ask(reader: Reader) -> list[LeaseRecord]:
        return await reader.leases(only, await time_of(reader))

    records = look(ledger, ask)
    page, more = page_of_leases(records, cursor, limit)
    return {"items": [_shown(record) for record in page], "next": more}


def show_lease(ledger: LedgerAt, function: str, unit: str | None) -> dict[str, Any] | None:
    """Return a lease as /v1 gives it, or None if the scope was never led."""
    scope = Scope(function, unit or "")

    async def ask(reader: Reader) -> LeaseRecord:
        return await reader.lease(scope, await time_of(reader))

    record = look(ledger, ask)
    return None if record.lease is None else _shown(record)


def release_lease(
    ledger: LedgerAt, function: str, unit: str | None, holder: str, term: int
) -> dict[str, Any]:
    """Release in the ledger itself, which no gateway may be using; return the lease."""
    ask = Ask(holder=holder, principal=LOCAL_OPERATOR, term=term, operator=True)
    answer = asyncio.run(_release(ledger_home(ledger), Scope(function, unit or ""), ask))
    if isinstance(answer.answer, Turned):
        fail(f"the lease is not released: {answer.answer.why}", Exit.CONFLICT)
    return _shown(answer.record)


async def _release(home: Home, scope: Scope, ask: Ask) -> LeaseAnswer:
    ledger = await open_at_rest(
        home, "if it is a gateway that runs, release through it with --url http://host:port"
    )
    try:
        return await ledger.release(scope, ask, terms_of(None))
    finally:
        await ledger.close()


def _shown(record: LeaseRecord) -> dict[str, Any]:
    margin_ms = terms_of(None).rules.margin_ms  # of the defaults: policies are not in the ledger
    return lease_out(record, margin_ms, counted=True).model_dump()
