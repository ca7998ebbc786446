"""Exceptions in the ledger itself, read beside its gateways or at rest."""

from __future__ import annotations

from typing import Any

from gateway.cli.at_rest import look, time_of
from gateway.cli.options import LedgerAt
from gateway.control.case_views import case_in_full, case_out
from gateway.store.case_records import CaseFilter
from gateway.store.queries import Reader


def list_exceptions(
    ledger: LedgerAt,
    function: str | None,
    unit: str | None,
    closed: bool,
    limit: int,
    cursor: str | None,
) -> dict[str, Any]:
    """Return a page of exceptions as /v1 gives it."""
    wanted = CaseFilter(function=function, unit=unit, closed=closed, cursor=cursor, limit=limit + 1)

    async def ask(reader: Reader) -> dict[str, Any]:
        found = await reader.cases(wanted)
        page, now_ms = found[:limit], await time_of(reader)
        more = page[-1].id if len(found) > limit else None
        return {"items": [case_out(case, now_ms).model_dump() for case in page], "next": more}

    return look(ledger, ask)


def show_exception(ledger: LedgerAt, exception_id: str) -> dict[str, Any] | None:
    """Return an exception as /v1 gives it, or None."""

    async def ask(reader: Reader) -> dict[str, Any] | None:
        case = await reader.case(exception_id)
        if case is None:
            return None
        return (await case_in_full(reader, case, await time_of(reader))).model_dump()

    return look(ledger, ask)
