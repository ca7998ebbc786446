"""Units and items in the ledger: statements that both the writer's verbs and readers use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway.core.fence import UnitState
from gateway.core.work import Item, ItemState, Tally, UnitStatus, shown_as
from gateway.store.database import Database
from gateway.store.work_records import ItemRecord, UnitRecord

ITEM_COLUMNS: Final = (
    "item, state, attempt, worker, term, expires_at_ms, checkpoint, checkpoint_version, data, "
    "result, reason"
)
UNIT_COLUMNS: Final = (
    "unit, function, status, manifest_digest, created_term, created_by, created_at_ms, "
    "closed_at_ms, closed_reason, version, period_start, period_end, policy_version, checkpoint, "
    "result"
)
TALLY_ITEMS: Final = "SELECT state, count(*) FROM unit_item WHERE unit = ? GROUP BY state"
_OPEN_EFFECTS: Final = (
    "FROM attempt a JOIN effect e ON e.id = a.effect_id "
    "WHERE a.open = 1 AND a.function = ? AND e.unit = ? AND e.abandoned = 0 "
    "AND (e.outcome IS NULL OR e.outcome = 'unknown')"
)
"""Effects of which it is not known what came of them, and that nobody has given up. Open attempts
are few."""
TALLY_EFFECTS: Final = (
    "SELECT count(DISTINCT CASE WHEN e.outcome = 'unknown' AND NOT EXISTS ("
    "SELECT 1 FROM exception_case x WHERE x.effect_id = e.id AND x.closed_at_ms IS NULL "
    "AND x.acknowledged_by IS NOT NULL) THEN e.id END), "
    f"count(DISTINCT CASE WHEN e.outcome IS NULL THEN e.id END) {_OPEN_EFFECTS}"
)
_OPEN_ITEMS: Final = (
    f"SELECT DISTINCT e.item {_OPEN_EFFECTS} AND e.item IS NOT NULL ORDER BY e.item"
)


def unit_status(db: Database, function: str, unit: str) -> UnitStatus | None:
    row = db.execute(
        "SELECT status FROM unit WHERE unit = ? AND function = ?", (unit, function)
    ).fetchone()
    return None if row is None else UnitStatus(row[0])


def unit_for_fence(db: Database, function: str, unit: str) -> UnitState | None:
    """Return what the fence has to know of a registered unit, None if there is none."""
    status = unit_status(db, function, unit)
    if status is None:
        return None
    return UnitState.OPEN if status is UnitStatus.OPEN else UnitState.CLOSED


def load_item(db: Database, unit: str, item: str) -> Item | None:
    row = db.execute(
        "SELECT item, state, attempt, worker, term, expires_at_ms, checkpoint_version "
        "FROM unit_item WHERE unit = ? AND item = ?",
        (unit, item),
    ).fetchone()
    if row is None:
        return None
    return Item(row[0], ItemState(row[1]), *row[2:])


def open_items(db: Database, function: str, unit: str) -> list[str]:
    """Return the items with an effect whose outcome is not known."""
    return [item for (item,) in db.execute(_OPEN_ITEMS, (function, unit)).fetchall()]


def tally(db: Database, function: str, unit: str) -> Tally:
    items = {ItemState(state): n for state, n in db.execute(TALLY_ITEMS, (unit,)).fetchall()}
    unknown, in_flight = db.execute(TALLY_EFFECTS, (function, unit)).fetchone()
    return Tally(items=items, unknown=unknown, in_flight=in_flight)


def item_record(row: Sequence[Any]) -> ItemRecord:
    return ItemRecord(
        item=row[0],
        state=ItemState(row[1]),
        attempt=row[2],
        worker=row[3],
        term=row[4],
        expires_at_ms=row[5],
        checkpoint=_json(row[6]),
        checkpoint_version=row[7],
        data=_json(row[8]),
        result=_json(row[9]),
        reason=row[10],
    )


def unit_record(row: Sequence[Any], found: Tally) -> UnitRecord:
    status = UnitStatus(row[2])
    return UnitRecord(
        unit=row[0],
        function=row[1],
        status=status,
        shown=shown_as(status, found),
        tally=found,
        manifest_digest=row[3],
        created_term=row[4],
        created_by=row[5],
        created_at_ms=row[6],
        closed_at_ms=row[7],
        closed_reason=row[8],
        version=row[9],
        period_start=row[10],
        period_end=row[11],
        policy_version=row[12],
        checkpoint=row[13],
        result=_json(row[14]),
    )


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
