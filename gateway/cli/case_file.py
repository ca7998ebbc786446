"""Exceptions in the ledger's own file, read beside a gateway or at rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from gateway.cli.at_rest import ledger_file
from gateway.clock import SystemClock
from gateway.control.case_views import case_in_full, case_out
from gateway.store.case_records import CaseFilter
from gateway.store.queries import Reader


def list_exceptions(
    ledger: str | None,
    function: str | None,
    unit: str | None,
    closed: bool,
    limit: int,
    cursor: str | None,
) -> dict[str, Any]:
    """Return a page of exceptions as /v1 gives it."""
    wanted = CaseFilter(function=function, unit=unit, closed=closed, cursor=cursor, limit=limit + 1)
    return asyncio.run(_page(ledger_file(ledger), wanted))


def show_exception(ledger: str | None, exception_id: str) -> dict[str, Any] | None:
    """Return an exception as /v1 gives it, or None."""
    return asyncio.run(_one(ledger_file(ledger), exception_id))


async def _page(path: Path, wanted: CaseFilter) -> dict[str, Any]:
    reader = await Reader.open(path)
    try:
        found = await reader.cases(wanted)
    finally:
        await reader.close()
    page = found[: wanted.limit - 1]
    now_ms = SystemClock().wall_ms()
    more = page[-1].id if len(found) == wanted.limit else None
    return {"items": [case_out(case, now_ms).model_dump() for case in page], "next": more}


async def _one(path: Path, exception_id: str) -> dict[str, Any] | None:
    reader = await Reader.open(path)
    try:
        case = await reader.case(exception_id)
        if case is None:
            return None
        return (await case_in_full(reader, case, SystemClock().wall_ms())).model_dump()
    finally:
        await reader.close()
