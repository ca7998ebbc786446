"""Reading units of work for people and for those who take them over, beside the writer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from gateway.core.work import ItemState, Tally, UnitStatus
from gateway.store import work_rows
from gateway.store.lease_queries import Rows
from gateway.store.work_records import ItemRecord, UnitFilter, UnitRecord


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
    """Return units, newest first."""
    conditions: list[str] = ["1"]
    parameters: list[Any] = []
    if wanted.function is not None:
        conditions.append("function = ?")
        parameters.append(wanted.function)
    if wanted.only_functions is not None:
        conditions.append(f"function IN ({','.join('?' * len(wanted.only_functions))})")
        parameters += sorted(wanted.only_functions)
    if wanted.status in list(UnitStatus):
        conditions.append("status = ?")
        parameters.append(wanted.status)
    found = await rows(
        f"SELECT {work_rows.UNIT_COLUMNS} FROM unit WHERE {' AND '.join(conditions)} "
        "ORDER BY created_at_ms DESC, unit LIMIT ?",
        [*parameters, wanted.limit],
    )
    records = [work_rows.unit_record(row, await tally(rows, row[1], row[0])) for row in found]
    if wanted.status is None or wanted.status in list(UnitStatus):
        return records
    return [record for record in records if record.shown == wanted.status]


async def items(
    rows: Rows, unit: str, *, state: ItemState | None, after: int, limit: int
) -> list[tuple[int, ItemRecord]]:
    """Return items in their order behind the ordinal `after`, each with its own."""
    where = "" if state is None else " AND state = ?"
    parameters: list[Any] = [unit, after] + ([] if state is None else [state.value])
    found = await rows(
        f"SELECT {work_rows.ITEM_COLUMNS}, ordinal FROM unit_item WHERE unit = ? AND ordinal > ?"
        f"{where} ORDER BY ordinal LIMIT ?",
        [*parameters, limit],
    )
    return [(row[11], work_rows.item_record(row)) for row in found]


async def tally(rows: Rows, function: str, unit: str) -> Tally:
    """Return what a unit's items and effects add up to."""
    states = await rows(work_rows.TALLY_ITEMS, [unit])
    unknown, in_flight = (await rows(work_rows.TALLY_EFFECTS, [function, unit]))[0]
    return Tally(
        items={ItemState(state): count for state, count in states},
        unknown=unknown,
        in_flight=in_flight,
    )
