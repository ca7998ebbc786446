"""Units of work in the ledger itself: read beside its gateways, or given up at rest."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.cli.at_rest import LOCAL_OPERATOR, ledger_home, look, open_at_rest, time_of
from gateway.cli.exits import Exit, fail
from gateway.cli.options import LedgerAt
from gateway.control.unit_views import cursor_of, item_out, unit_out
from gateway.core.fence import FunctionRules, Refusal
from gateway.core.ids import Scope
from gateway.core.work import ItemState
from gateway.store.homes import Home
from gateway.store.queries import Reader
from gateway.store.work import Abandoning
from gateway.store.work_records import Speech, UnitFilter, UnitRecord, WorkAnswer


def list_units(
    ledger: LedgerAt, function: str | None, state: str | None, limit: int, cursor: str | None
) -> dict[str, Any]:
    """Return a page of units as /v1 gives it."""
    wanted = UnitFilter(function=function, status=state, limit=limit + 1, behind=_behind(cursor))
    found = look(ledger, lambda reader: reader.units(wanted))
    page = found[:limit]
    more = cursor_of(page[-1]) if len(found) > limit else None
    return {"items": [unit_out(record).model_dump() for record in page], "next": more}


def show_unit(ledger: LedgerAt, unit: str) -> dict[str, Any] | None:
    """Return a unit as /v1 gives it, or None."""
    record = look(ledger, lambda reader: reader.unit(unit))
    return None if record is None else unit_out(record).model_dump()


def list_items(
    ledger: LedgerAt, unit: str, state: str | None, limit: int, after: int | None
) -> dict[str, Any] | None:
    """Return a page of items as /v1 gives it, or None if there is no such unit."""

    async def ask(reader: Reader) -> dict[str, Any] | None:
        if await reader.unit(unit) is None:
            return None
        found = await reader.items(
            unit,
            state=None if state is None else ItemState(state),
            after=-1 if after is None else after,
            limit=limit + 1,
        )
        page, now_ms = found[:limit], await time_of(reader)
        more = str(page[-1][0]) if len(found) > limit else None
        return {"items": [item_out(item, now_ms).model_dump() for _, item in page], "next": more}

    return look(ledger, ask)


def abandon_unit(ledger: LedgerAt, unit: str, reason: str) -> dict[str, Any]:
    """Give a unit up in the ledger itself, which no gateway may be using; return the unit."""
    record = look(ledger, lambda reader: reader.unit(unit))
    if record is None:
        fail(f"there is no unit {unit!r}", Exit.NOT_FOUND)
    answer = asyncio.run(_abandon(ledger_home(ledger), record, reason))
    if answer.refusal is Refusal.UNIT_CLOSED:
        fail(f"the unit {unit!r} is {record.status} already: {record.closed_reason}", Exit.CONFLICT)
    return show_unit(ledger, unit) or {}


def _behind(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    at, slash, unit = cursor.partition("/")
    if not slash or not at.isdecimal():
        fail(f"--cursor {cursor!r} is none; take it from the page before", Exit.USAGE)
    return int(at), unit


async def _abandon(home: Home, record: UnitRecord, reason: str) -> WorkAnswer:
    ledger = await open_at_rest(
        home, "if it is a gateway that runs, abandon through it with --url http://host:port"
    )
    speech = Speech(
        scope=Scope(record.function),
        unit=record.unit,
        term=0,
        holder="",
        principal=LOCAL_OPERATOR,
        rules=FunctionRules(),
    )
    try:
        return await ledger.work(Abandoning(speech, reason, operator=True))
    finally:
        await ledger.close()
