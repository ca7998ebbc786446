"""Reading the ledger for people: lists and single effects, beside the writer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from gateway.core.candidates import LOSSES_KEPT_MS
from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.ids import Scope
from gateway.core.work import ItemState
from gateway.store import case_queries, handover_queries, lease_queries, work_queries
from gateway.store.case_records import (
    AlertRecord,
    CaseCensus,
    CaseFilter,
    CaseRecord,
    Excerpt,
    KeptRequest,
    ProbeRecord,
    SpooledEffect,
    UnknownEffect,
)
from gateway.store.handover_queries import HandoverRecord
from gateway.store.lease_records import (
    CandidateRecord,
    LeaseRecord,
    TransitionFilter,
    TransitionRecord,
)
from gateway.store.records import (
    AttemptRecord,
    EffectFilter,
    EffectRecord,
    ResolutionRecord,
)
from gateway.store.sources import FileSource, Source
from gateway.store.upkeep import DEAD_AFTER_MS
from gateway.store.work_records import ItemRecord, UnitFilter, UnitRecord, WorkCensus

_EFFECT: Final = (
    "SELECT id, destination, function, unit, item, key, covers, outcome, resolved_by, principal, "
    "version, observed, resource, created_at_ms, settled_at_ms FROM effect"
)
_ATTEMPT: Final = (
    "SELECT effect_id, n, term, holder, method, target, created_at_ms, deadline_at_ms, "
    "seal_at_ms, ended_at_ms, outcome, reason, status FROM attempt"
)


@dataclass(frozen=True, slots=True)
class Unknowns:
    """How many effects are unknown, and since when the oldest has been (None if none is).

    `decided` are open attempts of effects that are not: they hold others back until their seal.
    """

    count: int
    oldest_at_ms: int | None
    in_flight: int
    decided: int = 0


class Reader:
    """A connection for reading. Works on a live ledger and on one at rest."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._all = source.rows

    @classmethod
    async def open(cls, path: Path) -> Reader:
        """Open the ledger at `path`. Raises StoreError if there is none."""
        return cls(await FileSource.open(path))

    async def close(self) -> None:
        await self.source.close()

    async def now_ms(self, wall_ms: int) -> int:
        """Return the ledger's time for whoever has no clock of it; `wall_ms` is the machine's."""
        return await self.source.now_ms(wall_ms)

    async def living(self, now_ms: int) -> int:
        """Return how many gateways use the ledger, as far as their heartbeats say."""
        found = await self._all(
            "SELECT count(*) FROM instance WHERE stopped_at_ms IS NULL AND heartbeat_at_ms >= ?",
            [now_ms - DEAD_AFTER_MS],
        )
        return int(found[0][0])

    async def effects(self, wanted: EffectFilter) -> tuple[list[EffectRecord], str | None]:
        """Return a page of effects, newest first, and the cursor of the next page."""
        where, parameters = _where(wanted)
        text = f"{_EFFECT}{where} ORDER BY id DESC LIMIT ?"
        found = await self._all(text, [*parameters, wanted.limit + 1])
        page = found[: wanted.limit]
        attempts = await self._attempts([row[0] for row in page])
        records = [_record(row, attempts.get(row[0], [])) for row in page]
        more = len(found) > wanted.limit
        return records, records[-1].id if more else None

    async def effect(self, effect_id: str) -> EffectRecord | None:
        found = await self._all(f"{_EFFECT} WHERE id = ?", [effect_id])
        if not found:
            return None
        attempts = await self._attempts([effect_id])
        record = _record(found[0], attempts.get(effect_id, []))
        if record.resolved_by is not ResolvedBy.OPERATOR:
            return record
        journal = await self._all(
            "SELECT at_ms, principal, reason FROM transition "
            "WHERE kind = 'effect-resolved' AND effect_id = ? ORDER BY id DESC LIMIT 1",
            [effect_id],
        )
        return replace(record, resolution=ResolutionRecord(*journal[0])) if journal else record

    async def evidence(self, effect_id: str) -> list[dict[str, Any]]:
        """Return what is kept of the destination's answers: status, size, state."""
        found = await self._all(
            "SELECT w.n, w.status, w.body_bytes, w.state, w.at_ms FROM attempt a "
            "JOIN answer w ON w.seq = a.answer_seq WHERE a.effect_id = ?",
            [effect_id],
        )
        names = ("n", "status", "body_bytes", "state", "at_ms")
        return [dict(zip(names, row, strict=True)) for row in found]

    async def unknowns(self) -> Unknowns:
        found = await self._all(
            "SELECT count(DISTINCT CASE WHEN e.outcome = 'unknown' AND e.abandoned = 0 "
            "THEN e.id END), "
            "min(CASE WHEN e.outcome = 'unknown' AND e.abandoned = 0 THEN a.created_at_ms END), "
            "count(*) FILTER (WHERE a.outcome IS NULL), "
            "count(*) FILTER (WHERE a.decided = 1 OR e.outcome = 'confirmed') "
            "FROM attempt a JOIN effect e ON e.id = a.effect_id WHERE a.open = 1",
            [],
        )
        return Unknowns(*found[0])

    async def lease(self, scope: Scope, now_ms: int) -> LeaseRecord:
        return await lease_queries.one_lease(self._all, scope, now_ms)

    async def leases(self, functions: Collection[str] | None, now_ms: int) -> list[LeaseRecord]:
        return await lease_queries.all_leases(self._all, functions, now_ms)

    async def candidates(self, function: str, now_ms: int) -> list[CandidateRecord]:
        return await lease_queries.candidates(self._all, function, now_ms - LOSSES_KEPT_MS)

    async def transitions(self, wanted: TransitionFilter) -> list[TransitionRecord]:
        return await lease_queries.transitions(self._all, wanted)

    async def unit(self, unit: str) -> UnitRecord | None:
        return await work_queries.one_unit(self._all, unit)

    async def units(self, wanted: UnitFilter) -> list[UnitRecord]:
        return await work_queries.units(self._all, wanted)

    async def items(
        self, unit: str, *, state: ItemState | None = None, after: int = -1, limit: int = 500
    ) -> list[tuple[int, ItemRecord]]:
        return await work_queries.items(self._all, unit, state=state, after=after, limit=limit)

    async def item(self, unit: str, item: str) -> ItemRecord | None:
        return await work_queries.one_item(self._all, unit, item)

    async def census(self) -> WorkCensus:
        return await work_queries.census(self._all)

    async def handover(
        self, function: str, unit: str | None, term: int | None
    ) -> HandoverRecord | None:
        return await handover_queries.handover(self._all, function, unit, term)

    async def due(self, now_ms: int, limit: int, instance: str = "") -> list[str]:
        return await case_queries.due(self._all, now_ms, limit, instance)

    async def due_spooled(self, now_ms: int, limit: int) -> list[SpooledEffect]:
        return await case_queries.due_spooled(self._all, now_ms, limit)

    async def unknown_effect(self, effect_id: str) -> UnknownEffect | None:
        return await case_queries.unknown_effect(self._all, effect_id)

    async def kept_request(self, effect_id: str, n: int) -> KeptRequest | None:
        return await case_queries.kept_request(self._all, effect_id, n)

    async def probes(self, effect_id: str) -> list[ProbeRecord]:
        return await case_queries.probes(self._all, effect_id)

    async def downtime_unknown_at_ms(self) -> int:
        return await case_queries.downtime_unknown_at_ms(self._all)

    async def policy_text(self, digest: str) -> tuple[str, str | None] | None:
        return await case_queries.policy_text(self._all, digest)

    async def cases(self, wanted: CaseFilter) -> list[CaseRecord]:
        return await case_queries.cases(self._all, wanted)

    async def case(self, case_id: str) -> CaseRecord | None:
        return await case_queries.case(self._all, case_id)

    async def open_case_of(self, effect_ids: Sequence[str]) -> dict[str, str]:
        return await case_queries.open_case_of(self._all, effect_ids)

    async def case_census(self, now_ms: int) -> CaseCensus:
        return await case_queries.census(self._all, now_ms)

    async def excerpts(self, effect_id: str, most_bytes: int) -> list[Excerpt]:
        return await case_queries.excerpts(self._all, effect_id, most_bytes)

    async def alerts_new(self, after_seq: int, limit: int) -> list[AlertRecord]:
        return await case_queries.alerts_new(self._all, after_seq, limit)

    async def alerts_due(self, now_ms: int, limit: int) -> list[AlertRecord]:
        return await case_queries.alerts_due(self._all, now_ms, limit)

    async def _attempts(self, ids: Sequence[str]) -> dict[str, list[AttemptRecord]]:
        # By a list of one parameter: its plan does not depend on how many there are.
        text = (
            f"{_ATTEMPT} WHERE effect_id IN (SELECT value FROM json_each(?)) ORDER BY effect_id, n"
        )
        grouped: dict[str, list[AttemptRecord]] = {}
        for row in await self._all(text, [orjson.dumps(ids).decode()]):
            grouped.setdefault(row[0], []).append(_attempt(row[1:]))
        return grouped


def _where(wanted: EffectFilter) -> tuple[str, list[Any]]:
    conditions: list[str] = []
    parameters: list[Any] = []
    for column in ("function", "unit", "destination"):
        value = getattr(wanted, column)
        if value is not None:
            conditions.append(f"{column} = ?")
            parameters.append(value)
    for column, only in (
        ("function", wanted.only_functions),
        ("destination", wanted.only_destinations),
    ):
        if only is not None:
            conditions.append(f"{column} IN ({','.join('?' * len(only))})")
            parameters += sorted(only)
    if wanted.outcome is not None:
        conditions.append(_outcome(wanted.outcome, parameters))
    if wanted.term is not None:
        conditions.append("EXISTS (SELECT 1 FROM attempt a WHERE a.effect_id = id AND a.term = ?)")
        parameters.append(wanted.term)
    if wanted.cursor is not None:
        conditions.append("id < ?")
        parameters.append(wanted.cursor)
    return (" WHERE " + " AND ".join(conditions) if conditions else ""), parameters


def _outcome(outcome: str, parameters: list[Any]) -> str:
    """Unfinished effects are few among many: they are found by their open attempts."""
    if outcome in ("in-flight", "unknown"):
        test = "outcome IS NULL" if outcome == "in-flight" else "outcome = 'unknown'"
        return f"{test} AND id IN (SELECT effect_id FROM attempt WHERE open = 1)"
    parameters.append(outcome)
    return "outcome = ?"


def _record(row: Sequence[Any], attempts: Iterable[AttemptRecord]) -> EffectRecord:
    return EffectRecord(
        id=row[0],
        destination=row[1],
        function=row[2],
        unit=row[3],
        item=row[4],
        key=row[5],
        covers=row[6],
        outcome=Outcome(row[7]) if row[7] else None,
        resolved_by=ResolvedBy(row[8]) if row[8] else None,
        principal=row[9],
        version=row[10],
        observed=row[11],
        resource=orjson.loads(row[12]) if row[12] else None,
        created_at_ms=row[13],
        settled_at_ms=row[14],
        attempts=tuple(attempts),
    )


def _attempt(row: Sequence[Any]) -> AttemptRecord:
    return AttemptRecord(
        n=row[0],
        term=row[1],
        holder=row[2],
        method=row[3],
        target=row[4],
        created_at_ms=row[5],
        deadline_at_ms=row[6],
        seal_at_ms=row[7],
        ended_at_ms=row[8],
        outcome=Outcome(row[9]) if row[9] else None,
        reason=row[10],
        status=row[11],
    )
