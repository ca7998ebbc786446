"""Reading units of work for people and for those who take them over, beside the writer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import orjson

from gateway.core.work import ItemState, Tally, UnitShown, UnitStatus, shown_as
from gateway.store import work_rows
from gateway.store.lease_queries import Rows
from gateway.store.work_records import ItemRecord, UnitFilter, UnitRecord, WorkCensus

_STATUS_SHOWN: Final[dict[str, str]] = {
    UnitShown.COMPLETED.value: UnitStatus.COMPLETED.value,
    UnitShown.ABANDONED.value: UnitStatus.ABANDONED.value,
}
_ITEMS_OF_STATE: Final = (
    f"SELECT {work_rows.ITEM_COLUMNS}, ordinal FROM unit_item "
    "WHERE unit = ? AND state = ? AND ordinal > ? ORDER BY ordinal LIMIT ?"
)


async def one_unit(rows: Rows, unit: str) -> UnitRecord | None:
    """Return a unit with its manifest."""
    found = await rows(
        f"SELECT {work_rows.UNIT_COLUMNS}, manifest FROM unit WHERE unit = ?", [unit]
    )
    if not found:
        return None
    record = work_rows.unit_record(found[0], await tally(rows, found[0][1], unit))
    return replace(record, manifest=orjson.loads(found[0][15]))


async def units(rows: Rows, wanted: UnitFilter) -> list[UnitRecord]:
    """Return units, newest first.

    How an open unit is shown depends on its items, so those are looked at until enough match.
    """
    status = _STATUS_SHOWN.get(wanted.status or "", wanted.status)
    by_status = replace(wanted, status=status)
    if status is None or status in list(UnitStatus):
        return await _page(rows, by_status)
    found: list[UnitRecord] = []
    by_status = replace(wanted, status=UnitStatus.OPEN.value)
    while len(found) < wanted.limit:
        page = await _page(rows, by_status)
        found += [record for record in page if record.shown == status]
        if len(page) < wanted.limit:
            break
        by_status = replace(by_status, behind=(page[-1].created_at_ms, page[-1].unit))
    return found[: wanted.limit]


async def _page(rows: Rows, wanted: UnitFilter) -> list[UnitRecord]:
    conditions: list[str] = ["1 = 1"]
    parameters: list[Any] = []
    if wanted.function is not None:
        conditions.append("function = ?")
        parameters.append(wanted.function)
    if wanted.only_functions is not None:
        conditions.append(f"function IN ({','.join('?' * len(wanted.only_functions))})")
        parameters += sorted(wanted.only_functions)
    if wanted.status is not None:
        conditions.append("status = ?")
        parameters.append(wanted.status)
    if wanted.behind is not None:
        conditions.append("(created_at_ms < ? OR (created_at_ms = ? AND unit > ?))")
        parameters += [wanted.behind[0], *wanted.behind]
    found = await rows(
        f"SELECT {work_rows.UNIT_COLUMNS} FROM unit WHERE {' AND '.join(conditions)} "
        "ORDER BY created_at_ms DESC, unit LIMIT ?",
        [*parameters, wanted.limit],
    )
    return [work_rows.unit_record(row, await tally(rows, row[1], row[0])) for row in found]


async def items(
    rows: Rows, unit: str, *, state: ItemState | None, after: int, limit: int
) -> list[tuple[int, ItemRecord]]:
    """Return items in their order behind the ordinal `after`, each with its own."""
    states = list(ItemState) if state is None else [state]
    # State by state, as the index has them: a page of a large unit must not sort all of it.
    found = await rows(
        f"SELECT {work_rows.ITEM_COLUMNS}, ordinal FROM ("
        + " UNION ALL ".join([f"SELECT * FROM ({_ITEMS_OF_STATE}) p"] * len(states))
        + ") u ORDER BY ordinal LIMIT ?",
        [part for each in states for part in (unit, each.value, after, limit)] + [limit],
    )
    return [(row[11], work_rows.item_record(row)) for row in found]


async def one_item(rows: Rows, unit: str, item: str) -> ItemRecord | None:
    found = await rows(
        f"SELECT {work_rows.ITEM_COLUMNS} FROM unit_item WHERE unit = ? AND item = ?", [unit, item]
    )
    return work_rows.item_record(found[0]) if found else None


async def census(rows: Rows) -> WorkCensus:
    """Count the units by how they are shown, and the items of those that are open."""
    ended = await rows(
        "SELECT status, count(*) FROM unit WHERE status <> 'open' GROUP BY status", []
    )
    counted: Counter[UnitShown] = Counter(
        {UnitShown(f"unit-{status}"): count for status, count in ended}
    )
    of_items: Counter[ItemState] = Counter()
    for unit, function in await rows("SELECT unit, function FROM unit WHERE status = 'open'", []):
        found = await tally(rows, function, unit)
        counted[shown_as(UnitStatus.OPEN, found)] += 1
        of_items.update(found.items)
    return WorkCensus(units=counted, items=of_items)


async def tally(rows: Rows, function: str, unit: str) -> Tally:
    """Return what a unit's items and effects add up to."""
    states = await rows(work_rows.TALLY_ITEMS, [unit])
    unknown, in_flight = (await rows(work_rows.TALLY_EFFECTS, [function, unit]))[0]
    return Tally(
        items={ItemState(state): count for state, count in states},
        unknown=unknown,
        in_flight=in_flight,
    )
