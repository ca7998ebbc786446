"""Reading about leadership for people and followers, beside the writer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Protocol

import orjson

from gateway.core.ids import Scope
from gateway.store.lease_records import (
    CandidateRecord,
    LeaseRecord,
    TransitionFilter,
    TransitionRecord,
)
from gateway.store.lease_rows import CANDIDATE_COLUMNS, CandidateRow, LeaseRow

_LEASES: Final = (
    "SELECT l.function, l.unit, l.term, l.holder, l.principal, l.acquired_at_ms, "
    "l.renewed_at_ms, l.expires_at_ms, l.duration_ms, l.drain_until_ms, l.uncertain_at_ms, "
    "l.ended, l.ended_at_ms, l.handed_by, l.version, l.transitions, s.last_term, "
    "(SELECT count(DISTINCT effect_id) FROM attempt a WHERE a.open = 1 AND a.outcome IS NULL "
    "AND a.function = l.function AND a.scope_unit = l.unit) "
    "FROM lease l JOIN scope s ON s.function = l.function AND s.unit = l.unit"
)
_TRANSITIONS: Final = (
    "SELECT id, at_ms, kind, function, unit, term, holder, lease_version, reason, checkpoint, "
    "uncertain, next_action, responsible, effect_id, principal, detail FROM transition"
)


class Rows(Protocol):
    """A way to ask the database."""

    async def __call__(self, text: str, parameters: Sequence[Any]) -> list[Any]: ...


async def one_lease(rows: Rows, scope: Scope, now_ms: int) -> LeaseRecord:
    """Return a scope's leadership; one that was never granted has no lease and version 0."""
    found = await rows(f"{_LEASES} WHERE l.function = ? AND l.unit = ?", scope)
    if found:
        return _record(found[0], now_ms)
    terms = await rows("SELECT last_term FROM scope WHERE function = ? AND unit = ?", scope)
    return LeaseRecord(
        scope=scope,
        last_term=terms[0][0] if terms else 0,
        lease=None,
        version=0,
        transitions=0,
        now_ms=now_ms,
        in_flight=0,
    )


async def all_leases(
    rows: Rows, functions: Collection[str] | None, now_ms: int
) -> list[LeaseRecord]:
    """Return the leases of `functions` (all for None), by scope."""
    where, parameters = _within("l.function", functions)
    found = await rows(f"{_LEASES}{where} ORDER BY l.function, l.unit", parameters)
    return [_record(row, now_ms) for row in found]


async def candidates(rows: Rows, function: str, since_ms: int) -> list[CandidateRecord]:
    """Return a function's candidates with what they lost since `since_ms`."""
    losses: dict[str, list[int]] = {}
    for worker, at_ms in await rows(
        "SELECT worker, at_ms FROM lease_loss WHERE function = ? AND at_ms > ? ORDER BY at_ms",
        [function, since_ms],
    ):
        losses.setdefault(worker, []).append(at_ms)
    found = await rows(
        f"SELECT {CANDIDATE_COLUMNS} FROM candidate WHERE function = ? ORDER BY holder", [function]
    )
    return [CandidateRow.read(row).as_record(losses) for row in found]


async def transitions(rows: Rows, wanted: TransitionFilter) -> list[TransitionRecord]:
    """Return transitions behind `wanted.after`, oldest first."""
    where, parameters = _within("function", wanted.only_functions)
    conditions = [where.removeprefix(" WHERE ")] if where else []
    for column, value in (("function", wanted.function), ("unit", wanted.unit)):
        if value is not None:
            conditions.append(f"{column} = ?")
            parameters.append(value)
    conditions.append("id > ?")
    text = f"{_TRANSITIONS} WHERE {' AND '.join(conditions)} ORDER BY id LIMIT ?"
    found = await rows(text, [*parameters, wanted.after, wanted.limit])
    return [_transition(row) for row in found]


def _within(column: str, only: Collection[str] | None) -> tuple[str, list[Any]]:
    if only is None:
        return "", []
    return f" WHERE {column} IN ({','.join('?' * len(only))})", sorted(only)


def _record(row: Sequence[Any], now_ms: int) -> LeaseRecord:
    found = LeaseRow.read(row)
    return LeaseRecord(
        scope=found.scope,
        last_term=row[16],
        lease=found.lease,
        version=found.version,
        transitions=found.transitions,
        now_ms=now_ms,
        in_flight=row[17],
    )


def _transition(row: Sequence[Any]) -> TransitionRecord:
    return TransitionRecord(
        id=row[0],
        at_ms=row[1],
        kind=row[2],
        function=row[3],
        unit=row[4],
        term=row[5],
        holder=row[6],
        lease_version=row[7],
        reason=row[8],
        checkpoint=row[9],
        uncertain=row[10],
        next_action=row[11],
        responsible=row[12],
        effect_id=row[13],
        principal=row[14],
        detail=orjson.loads(row[15]) if row[15] else None,
    )
