"""Units of work as they are shown, to `/v1` and the command line alike; and a plan as it is
taken in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from gateway.core.errors import Malformed
from gateway.core.ids import parse_name
from gateway.core.work import ItemState, Tally, manifest_digest
from gateway.store.work_records import ItemRecord, UnitPlan, UnitRecord
from gateway.wire.control import instant
from gateway.wire.units import ItemCountsOut, ItemOut, ManifestOut, PlanIn, UnitOut


def unit_out(record: UnitRecord) -> UnitOut:
    manifest = None
    if record.manifest is not None:
        manifest = ManifestOut(
            digest=record.manifest_digest,
            sources=record.manifest.get("sources"),
            criteria_version=record.manifest.get("criteria_version"),
            items=record.tally.total,
        )
    return UnitOut(
        unit=record.unit,
        function=record.function,
        state=record.shown.value,
        period_start=record.period_start,
        period_end=record.period_end,
        policy_version=record.policy_version,
        manifest_digest=record.manifest_digest,
        manifest=manifest,
        items=counts_out(record.tally),
        unknown_effects=record.tally.unknown,
        effects_in_flight=record.tally.in_flight,
        checkpoint=record.checkpoint,
        result=record.result,
        created_term=record.created_term,
        created_by=record.created_by,
        created_at=instant(record.created_at_ms),
        closed_at=None if record.closed_at_ms is None else instant(record.closed_at_ms),
        closed_reason=record.closed_reason,
        version=record.version,
    )


def cursor_of(record: UnitRecord) -> str:
    """Return the cursor of a page of units that goes on behind this one."""
    return f"{record.created_at_ms}/{record.unit}"


def counts_out(tally: Tally) -> ItemCountsOut:
    counts = {state.value: tally.items.get(state, 0) for state in ItemState}
    return ItemCountsOut(total=tally.total, **counts)


def item_out(record: ItemRecord, now_ms: int) -> ItemOut:
    claimed = record.state is ItemState.CLAIMED
    return ItemOut(
        item=record.item,
        state=record.state.value,
        attempt=record.attempt,
        worker=record.worker,
        term=record.term or None,
        expires_at=instant(record.expires_at_ms) if claimed else None,
        remaining_ms=max(0, record.expires_at_ms - now_ms) if claimed else 0,
        checkpoint=record.checkpoint,
        checkpoint_version=record.checkpoint_version,
        data=record.data,
        result=record.result,
        reason=record.reason,
    )


def json_text(what: str, value: Any) -> str | None:
    """Return a JSON value as text, None for null. Raises Malformed if it goes too deep."""
    if value is None:
        return None
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise Malformed(f"{what} cannot be kept: {error}; nest it less deeply") from None


def plan_of(given: PlanIn, manifest: Mapping[str, Any]) -> UnitPlan:
    """Return the plan; `manifest` is that of the request as it came, for the digest is of what
    its sender said. Large ones take a while: call it in a thread.

    Raises Malformed, naming the item.
    """
    items: dict[str, str | None] = {}
    for n, item in enumerate(given.manifest.items):
        where = f"manifest.items.{n}"
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            raise Malformed(f"{where} is {str(item)[:80]!r}; an item is an object with an id")
        if unknown := sorted(item.keys() - {"id", "data"}):
            raise Malformed(f"{where}: {unknown[0][:40]!r} is not known; put it into data")
        name = parse_name(f"{where}.id", item["id"])
        if name in items:
            raise Malformed(f"{where}.id is {name[:80]!r}, which is there before; name it once")
        items[name] = json_text(f"{where}.data", item.get("data"))
    try:
        digest = manifest_digest(manifest)
    except RecursionError:
        raise Malformed("manifest is nested too deeply; nest it less") from None
    rest = {name: value for name, value in manifest.items() if name != "items"}
    return UnitPlan(
        manifest=json_text("manifest", rest) or "{}",
        digest=digest,
        items=[*items.items()],
        period_start=given.period_start,
        period_end=given.period_end,
        policy_version=given.policy_version,
    )
