"""Reading units of work: one, many, and the items of one."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web
from multidict import MultiMapping

from gateway.control.panel import Panel
from gateway.control.query import check_words, read_cursor, read_limit, read_number, read_word
from gateway.control.turn import reply
from gateway.control.unit_views import cursor_of, item_out, unit_out
from gateway.control.units import find_unit
from gateway.core.principals import Principal
from gateway.core.work import ItemState, UnitShown
from gateway.store.work_records import UnitFilter
from gateway.wire.units import MAX_ITEMS, ItemPage, UnitPage

_LIST: Final = ("function", "state", "cursor", "limit")
_ITEMS: Final = ("state", "after", "limit")
_CURSOR: Final = re.compile(r"[0-9]{1,16}/.{1,200}\Z")


async def show_unit(panel: Panel, principal: Principal, unit: str) -> web.Response:
    return reply(unit_out(await find_unit(panel, principal, unit)))


async def list_units(panel: Panel, request: web.BaseRequest, principal: Principal) -> web.Response:
    """List units, newest first."""
    query = request.query
    check_words(query, _LIST)
    state = read_word(query, "state", [shown.value for shown in UnitShown])
    limit = read_limit(query, 50)
    wanted = UnitFilter(
        function=query.get("function"),
        status=state,
        limit=limit + 1,
        only_functions=principal.functions,
        behind=_behind(query),
    )
    reader = await panel.ledger.reader()
    found = await reader.units(wanted)
    page = found[:limit]
    more = cursor_of(page[-1]) if len(found) > limit else None
    return reply(UnitPage(items=[unit_out(record) for record in page], next=more))


def _behind(query: MultiMapping[str]) -> tuple[int, str] | None:
    cursor = read_cursor(query, _CURSOR)
    if cursor is None:
        return None
    at, _, unit = cursor.partition("/")
    return int(at), unit


async def list_items(
    panel: Panel, request: web.BaseRequest, principal: Principal, unit: str
) -> web.Response:
    """List a unit's items in the manifest's order."""
    query = request.query
    check_words(query, _ITEMS)
    state = read_word(query, "state", [each.value for each in ItemState])
    limit = read_limit(query, 100)
    after = read_number("after", query["after"], MAX_ITEMS) if "after" in query else -1
    record = await find_unit(panel, principal, unit)
    reader = await panel.ledger.reader()
    found = await reader.items(
        record.unit, state=None if state is None else ItemState(state), after=after, limit=limit + 1
    )
    now_ms = panel.ledger.clock.now_ms()
    page = found[:limit]
    more = str(page[-1][0]) if len(found) > limit else None
    return reply(ItemPage(items=[item_out(item, now_ms) for _, item in page], next=more))
