"""What a change of term left behind, and what has become of it since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.core.ids import Scope
from gateway.core.work import ItemState, Tally
from gateway.store import work_rows
from gateway.store.lease_queries import Rows
from gateway.store.work_queries import tally
from gateway.store.work_records import ItemRecord, UnitRecord

LISTED: Final = 100
_COUNTED: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftEffect:
    """An effect that was unfinished at the handover, as it is now."""

    id: str
    destination: str
    unit: str
    item: str | None
    key: str | None
    outcome: str | None
    resolved_by: str | None
    exception_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLeft:
    """An open unit with what its successor has to know of its items."""

    record: UnitRecord
    out: Sequence[ItemRecord]  # claimed, and not reported
    resumable: Sequence[ItemRecord]  # not final, with a checkpoint
    effects: dict[str, int]  # by outcome, "in-flight" included


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverRecord:
    """A change of term. `ended` is how the leadership before it ended."""

    scope: Scope
    term: int
    holder: str
    previous_term: int
    previous_holder: str | None
    at_ms: int
    ended: str | None
    effects: Sequence[LeftEffect]
    effects_count: int
    units: Sequence[UnitLeft]
    refused_stale: int
    last_term: int


async def handover(
    rows: Rows, function: str, unit: str | None, term: int | None
) -> HandoverRecord | None:
    """Return a function's change of term: to `term`, or the latest one."""
    conditions = ["function = ?"]
    parameters: list[Any] = [function]
    for column, value in (("unit", unit), ("term", term)):
        if value is not None:
            conditions.append(f"{column} = ?")
            parameters.append(value)
    found = await rows(
        "SELECT unit, term, holder, previous_term, previous_holder, at_ms, effects FROM handover "
        f"WHERE {' AND '.join(conditions)} ORDER BY at_ms DESC, term DESC LIMIT 1",
        parameters,
    )
    if not found:
        return None
    row = found[0]
    scope = Scope(function, row[0])
    ids = orjson.loads(row[6])
    terms = await rows("SELECT last_term FROM scope WHERE function = ? AND unit = ?", scope)
    return HandoverRecord(
        scope=scope,
        term=row[1],
        holder=row[2],
        previous_term=row[3],
        previous_holder=row[4],
        at_ms=row[5],
        ended=await _ended(rows, scope, row[3]),
        effects=await _effects(rows, ids[:LISTED]),
        effects_count=len(ids),
        units=await _units(rows, scope, row[5]),
        refused_stale=await _refused(rows, scope, row[1]),
        last_term=terms[0][0] if terms else row[1],
    )


async def _ended(rows: Rows, scope: Scope, term: int) -> str | None:
    found = await rows(
        "SELECT reason FROM transition WHERE function = ? AND unit = ? AND kind = 'leader-lost' "
        "AND term = ? ORDER BY id DESC LIMIT 1",
        [*scope, term],
    )
    return found[0][0] if found else None


async def _effects(rows: Rows, ids: Sequence[str]) -> list[LeftEffect]:
    found = await rows(
        "SELECT e.id, e.destination, e.unit, e.item, e.key, e.outcome, e.resolved_by, c.id "
        "FROM effect e LEFT JOIN exception_case c ON c.effect_id = e.id "
        "AND c.closed_at_ms IS NULL WHERE e.id IN (SELECT value FROM json_each(?)) ORDER BY e.id",
        [orjson.dumps(ids).decode()],
    )
    return [
        LeftEffect(
            id=row[0], destination=row[1], unit=row[2], item=row[3], key=row[4], outcome=row[5],
            resolved_by=row[6], exception_id=row[7],
        )
        for row in found
    ]  # fmt: skip


async def _units(rows: Rows, scope: Scope, until_ms: int) -> list[UnitLeft]:
    """Return the open units that the change left to the scope's leader, as they are now.

    One that was created since is nothing that the old leader left.
    """
    where = "function = ? AND status = 'open' AND created_at_ms <= ?"
    parameters: list[Any] = [scope.function, until_ms]
    if scope.unit:
        where, parameters = f"{where} AND unit = ?", [*parameters, scope.unit]
    found = await rows(
        f"SELECT {work_rows.UNIT_COLUMNS} FROM unit WHERE {where} ORDER BY created_at_ms LIMIT 20",
        parameters,
    )
    return [await _unit(rows, row) for row in found]


async def _unit(rows: Rows, row: Sequence[Any]) -> UnitLeft:
    unit, function = row[0], row[1]
    known: Tally = await tally(rows, function, unit)
    counted = await rows(
        "SELECT coalesce(outcome, 'in-flight'), count(*) FROM (SELECT outcome FROM effect "
        "WHERE function = ? AND unit = ? LIMIT ?) u GROUP BY 1",
        [function, unit, _COUNTED],
    )
    return UnitLeft(
        record=work_rows.unit_record(row, known),
        out=await _items(rows, unit, "state = 'claimed'"),
        resumable=await _items(
            rows, unit, "state NOT IN ('done', 'failed', 'abandoned') AND checkpoint IS NOT NULL"
        ),
        effects=dict(counted),
    )


async def _items(rows: Rows, unit: str, where: str) -> list[ItemRecord]:
    found = await rows(
        f"SELECT {work_rows.ITEM_COLUMNS} FROM unit_item WHERE unit = ? AND {where} "
        "ORDER BY ordinal LIMIT ?",
        [unit, LISTED],
    )
    return [work_rows.item_record(row) for row in found]


async def _refused(rows: Rows, scope: Scope, term: int) -> int:
    """Return how many commands of older terms were refused as stale."""
    found = await rows(
        "SELECT coalesce(sum(count), 0) FROM refusal WHERE function = ? AND reason = 'stale-term' "
        "AND term < ?",
        [scope.function, term],
    )
    return int(found[0][0])


def done_of(units: Sequence[UnitLeft]) -> tuple[int, int]:
    """Return how many items there are in all, and how many of them are done."""
    total = sum(unit.record.tally.total for unit in units)
    done = sum(unit.record.tally.items.get(ItemState.DONE, 0) for unit in units)
    return total, done
