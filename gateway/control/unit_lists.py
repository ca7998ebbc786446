"""Reading units of work: one, many, and the items of one."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

from gateway.control.panel import Panel
from gateway.control.query import check_words, read_limit, read_number
from gateway.control.turn import TurnedAway, reply
from gateway.control.unit_views import item_out, unit_out
from gateway.control.units import no_unit
from gateway.core.principals import Principal
from gateway.core.work import ItemState, UnitShown
from gateway.store.work_records import UnitFilter, UnitRecord
from gateway.wire.units import MAX_ITEMS, ItemPage, UnitPage

_LIST: Final = ("function", "state", "cursor", "limit")
_ITEMS: Final = ("state", "after", "limit")
_CURSOR: Final = re.compile(r"([0-9]{1,16})/(.{1,200})\Z")


async def show_unit(panel: Panel, principal: Principal, unit: str) -> web.Response:
    return reply(unit_out(await _find(panel, principal, unit)))


async def list_units(panel: Panel, request: web.BaseRequest, principal: Principal) -> web.Response:
    """List units, newest first."""
    query = request.query
    check_words(query, _LIST)
    state = query.get("state")
    known = [shown.value for shown in UnitShown]
    if state is not None and state not in known:
        raise TurnedAway("malformed", f"state is {state[:40]!r}; it may be one of {known}.")
    limit = read_limit(query, 50)
    wanted = UnitFilter(
        function=query.get("function"),
        status=state,
        limit=limit + 1,
        only_functions=principal.functions,
        behind=_behind(query.get("cursor")),
    )
    reader = await panel.ledger.reader()
    found = await reader.units(wanted)
    page = found[:limit]
    more = f"{page[-1].created_at_ms}/{page[-1].unit}" if len(found) > limit else None
    return reply(UnitPage(items=[unit_out(record) for record in page], next=more))


def _behind(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    found = _CURSOR.match(cursor)
    if found is None:
        raise TurnedAway(
            "malformed", f"cursor is {cursor[:40]!r}; take it from 'next' of the page before."
        )
    return int(found[1]), found[2]


async def list_items(
    panel: Panel, request: web.BaseRequest, principal: Principal, unit: str
) -> web.Response:
    """List a unit's items in the manifest's order."""
    query = request.query
    check_words(query, _ITEMS)
    state = query.get("state")
    known = [each.value for each in ItemState]
    if state is not None and state not in known:
        raise TurnedAway("malformed", f"state is {state[:40]!r}; it may be one of {known}.")
    limit = read_limit(query, 100)
    after = read_number("after", query["after"], MAX_ITEMS) if "after" in query else -1
    record = await _find(panel, principal, unit)
    reader = await panel.ledger.reader()
    found = await reader.items(
        record.unit, state=None if state is None else ItemState(state), after=after, limit=limit + 1
    )
    now_ms = panel.ledger.clock.now_ms()
    page = found[:limit]
    more = str(page[-1][0]) if len(found) > limit else None
    return reply(ItemPage(items=[item_out(item, now_ms) for _, item in page], next=more))


async def _find(panel: Panel, principal: Principal, unit: str) -> UnitRecord:
    reader = await panel.ledger.reader()
    record = await reader.unit(unit)
    if record is None or not principal.may_use(record.function):
        raise no_unit(unit)
    return record
