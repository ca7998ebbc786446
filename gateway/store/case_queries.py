"""Reading about unknown effects, exceptions and alerts, beside the writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway.core.effect import Outcome
from gateway.core.ids import Scope
from gateway.core.probe import Verdict
from gateway.store.case_records import (
    AlertRecord,
    CaseCensus,
    CaseFilter,
    CaseRecord,
    Excerpt,
    KeptRequest,
    ProbeRecord,
    SpooledEffect,
    UnknownAttempt,
    UnknownEffect,
)
from gateway.store.cases import CASE_COLUMNS, MOOT, case_record
from gateway.store.lease_queries import Rows
from gateway.store.records import SentAs

_DUE: Final = (
    "SELECT id{} FROM (SELECT e.id, row_number() OVER (PARTITION BY e.destination ORDER BY e.id) "
    "AS turn FROM (SELECT DISTINCT effect_id FROM attempt INDEXED BY attempt_open "
    "WHERE open = 1) a "
    "JOIN effect e ON e.id = a.effect_id LEFT JOIN reconciliation r ON r.effect_id = e.id "
    "WHERE e.outcome = 'unknown' AND e.abandoned = 0 AND e.key IS NOT NULL "
    "AND coalesce(r.next_at_ms, 0) <= ? AND NOT EXISTS (SELECT 1 FROM exception_case c "
    "WHERE c.effect_id = e.id AND c.closed_at_ms IS NULL){}) d WHERE turn <= ? "
    "ORDER BY turn, id LIMIT ?"
)
# A large request lies on the disk of the gateway that took it: that one settles the effect itself.
DUE_HERE: Final = _DUE.format(
    "",
    " AND NOT EXISTS (SELECT 1 FROM attempt f JOIN instance i ON i.id = f.instance "
    "WHERE f.effect_id = e.id AND f.request_file IS NOT NULL AND f.instance <> ? "
    "AND (i.stopped_at_ms IS NULL OR i.stopped_at_ms > ?))",
)
_FILE_OF: Final = (
    ", (SELECT {} FROM attempt f WHERE f.effect_id = d.id AND f.request_file IS NOT NULL "
    "ORDER BY f.n DESC LIMIT 1)"
)
_DUE_SPOOLED: Final = _DUE.format(
    _FILE_OF.format("f.request_file") + _FILE_OF.format("f.instance"),
    " AND EXISTS (SELECT 1 FROM attempt f WHERE f.effect_id = e.id AND f.request_file IS NOT NULL)",
)
RETURNS_WITHIN_MS: Final = 60_000
"""How long a gateway that has ended is waited for where it alone has the request."""
DUE_OF_ONE: Final = 16
"""How many of one destination are taken up at once: one that hangs must not be all there is."""
_UNKNOWN: Final = (
    "SELECT e.id, e.version, e.function, e.scope_unit, e.destination, e.unit, e.key, e.item, "
    "e.covers, e.superseded, a.route, a.policy_digest, a.method, a.target, a.fp_version, "
    "a.fp_raw, a.fp_canonical, coalesce(s.highest_term, 0), s.holder, coalesce(r.failures, 0), "
    "coalesce(r.next_at_ms, 0), coalesce(r.from_probe, 0) "
    "FROM effect e JOIN attempt a ON a.effect_id = e.id AND a.n = e.attempts "
    "LEFT JOIN scope s ON s.function = e.function AND s.unit = e.scope_unit "
    "LEFT JOIN reconciliation r ON r.effect_id = e.id "
    "WHERE e.id = ? AND e.outcome = 'unknown'"
)

_ALERT: Final = (
    "SELECT seq, id, kind, body, made_at_ms, tries FROM alert WHERE delivered_at_ms IS NULL"
)


async def due(rows: Rows, now_ms: int, limit: int, instance: str) -> list[str]:
    """Return unknown effects that it is time to look at: each destination's oldest first. Those
    whose request lies with another gateway that lives, or has only just ended, are its own."""
    given = [now_ms, instance, now_ms - RETURNS_WITHIN_MS, DUE_OF_ONE, limit]
    return [row[0] for row in await rows(DUE_HERE, given)]


async def due_spooled(rows: Rows, now_ms: int, limit: int) -> list[SpooledEffect]:
    """Return those of them whose request lies in a file, whichever gateway has it."""
    found = await rows(_DUE_SPOOLED, [now_ms, DUE_OF_ONE, limit])
    return [SpooledEffect(*row) for row in found]


async def unknown_effect(rows: Rows, effect_id: str) -> UnknownEffect | None:
    """Return an unknown effect with all that settling it takes; None if it is not unknown."""
    found = await rows(_UNKNOWN, [effect_id])
    if not found:
        return None
    row = found[0]
    attempts = await rows(
        "SELECT n, term, outcome, created_at_ms, deadline_at_ms, seal_at_ms, ended_at_ms, reason "
        "FROM attempt WHERE effect_id = ? ORDER BY n",
        [effect_id],
    )
    return UnknownEffect(
        id=row[0],
        version=row[1],
        scope=Scope(row[2], row[3]),
        destination=row[4],
        unit=row[5],
        key=row[6],
        item=row[7],
        covers=row[8],
        superseded=bool(row[9]),
        attempts=[_attempt(one) for one in attempts],
        probes=[probe for probe in await probes(rows, effect_id) if probe.n > row[21]],
        route=row[10],
        policy_digest=row[11],
        method=row[12],
        target=row[13],
        fp_version=row[14],
        fp_raw=row[15],
        fp_canonical=row[16],
        highest_term=row[17],
        holder=row[18],
        failures=row[19],
        due_at_ms=row[20],
    )


async def kept_request(rows: Rows, effect_id: str, n: int) -> KeptRequest | None:
    """Return the request of an attempt, while it is kept."""
    found = await rows(
        "SELECT term, method, target, request_head, request_body, request_file, sent_method, "
        "sent_target, sent_head, sent_body FROM attempt WHERE effect_id = ? AND n = ?",
        [effect_id, n],
    )
    if not found:
        return None
    row = found[0]
    return KeptRequest(
        term=row[0],
        method=row[1],
        target=row[2],
        head=row[3],
        body=row[4],
        file=row[5],
        sent=None if row[8] is None else SentAs(*row[6:10]),
    )


async def probes(rows: Rows, effect_id: str) -> list[ProbeRecord]:
    """Return the questions about an effect. One that an earlier run left open is lost."""
    found = await rows(
        "SELECT n, term, started_at_ms, ended_at_ms, CASE WHEN ended_at_ms IS NULL "
        "AND instance NOT IN (SELECT id FROM instance WHERE stopped_at_ms IS NULL) THEN 'lost' "
        "ELSE verdict END, moved, status, evidence FROM probe WHERE effect_id = ? ORDER BY n",
        [effect_id],
    )
    return [
        ProbeRecord(
            n=row[0],
            term=row[1],
            started_at_ms=row[2],
            ended_at_ms=row[3],
            verdict=Verdict(row[4]) if row[4] else None,
            moved=None if row[5] is None else bool(row[5]),
            status=row[6],
            evidence=row[7],
        )
        for row in found
    ]


async def downtime_unknown_at_ms(rows: Rows) -> int:
    """Return when the machine last came back from an absence of unknown length; 0 for never."""
    found = await rows("SELECT value FROM ledger_meta WHERE name = 'downtime_unknown_at_ms'", [])
    return int(found[0][0]) if found else 0


async def policy_text(rows: Rows, digest: str) -> tuple[str, str | None] | None:
    """Return the name and the text of the policy that `digest` stands for."""
    found = await rows("SELECT name, text FROM policy WHERE digest = ?", [digest])
    return (found[0][0], found[0][1]) if found else None


async def cases(rows: Rows, wanted: CaseFilter) -> list[CaseRecord]:
    """Return exceptions, the oldest first."""
    conditions = [f"closed_at_ms IS {'NOT ' if wanted.closed else ''}NULL"]
    parameters: list[Any] = []
    for column, value in (("function", wanted.function), ("unit", wanted.unit)):
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
    if wanted.cursor is not None:
        conditions.append(
            "(opened_at_ms, id) > (SELECT opened_at_ms, id FROM exception_case WHERE id = ?)"
        )
        parameters.append(wanted.cursor)
    found = await rows(
        f"SELECT {CASE_COLUMNS} FROM exception_case WHERE {' AND '.join(conditions)} "
        "ORDER BY opened_at_ms, id LIMIT ?",
        [*parameters, wanted.limit],
    )
    return [case_record(row) for row in found]


async def census(rows: Rows, now_ms: int) -> CaseCensus:
    """Count open exceptions and waiting alerts; both are few, and found by their own indexes."""
    found = await rows(
        "SELECT c.reason, count(*), min(c.opened_at_ms), "
        "count(*) FILTER (WHERE c.deadline_at_ms <= ?1), "
        "count(*) FILTER (WHERE (c.deadline_at_ms <= ?1 AND c.escalated_at_ms IS NULL) "
        f"OR ({MOOT})) "
        "FROM exception_case c LEFT JOIN effect e ON e.id = c.effect_id "
        "WHERE c.closed_at_ms IS NULL GROUP BY c.reason",
        [now_ms],
    )
    waiting = await rows("SELECT count(*) FROM alert WHERE delivered_at_ms IS NULL", [])
    return CaseCensus(
        by_reason={row[0]: row[1] for row in found},
        oldest_at_ms=min((row[2] for row in found), default=None),
        overdue=sum(row[3] for row in found),
        to_escalate=sum(row[4] for row in found),
        alerts_waiting=waiting[0][0],
    )


async def excerpts(rows: Rows, effect_id: str, most_bytes: int) -> list[Excerpt]:
    """Return how each kept answer to an effect's attempts begins."""
    found = await rows(
        "SELECT w.n, w.status, substr(w.body, 1, ?2), w.body_bytes, w.at_ms FROM attempt a "
        "JOIN answer w ON w.seq = a.answer_seq WHERE a.effect_id = ?1 ORDER BY w.n",
        [effect_id, most_bytes],
    )
    return [
        Excerpt(n=row[0], status=row[1], body=row[2], body_bytes=row[3], at_ms=row[4])
        for row in found
    ]


async def case(rows: Rows, case_id: str) -> CaseRecord | None:
    found = await rows(f"SELECT {CASE_COLUMNS} FROM exception_case WHERE id = ?", [case_id])
    return case_record(found[0]) if found else None


async def open_case_of(rows: Rows, effect_ids: Sequence[str]) -> dict[str, str]:
    """Return which of the effects have an open exception, with its id."""
    marks = ",".join("?" * len(effect_ids))
    found = await rows(
        "SELECT effect_id, id FROM exception_case WHERE closed_at_ms IS NULL "
        f"AND effect_id IN ({marks})",
        effect_ids,
    )
    return {row[0]: row[1] for row in found}


async def alerts_due(rows: Rows, now_ms: int, limit: int) -> list[AlertRecord]:
    """Return alerts that are to be sent now, in the order of their birth."""
    found = await rows(f"{_ALERT} AND next_at_ms <= ? ORDER BY seq LIMIT ?", [now_ms, limit])
    return [_alert(row) for row in found]


async def alerts_new(rows: Rows, after_seq: int, limit: int) -> list[AlertRecord]:
    """Return alerts that nobody has tried to send yet, in the order of their birth."""
    found = await rows(
        f"{_ALERT} AND tries = 0 AND seq > ? ORDER BY seq LIMIT ?", [after_seq, limit]
    )
    return [_alert(row) for row in found]


def _alert(row: Sequence[Any]) -> AlertRecord:
    return AlertRecord(
        seq=row[0], id=row[1], kind=row[2], body=orjson.loads(row[3]), made_at_ms=row[4],
        tries=row[5],
    )  # fmt: skip


def _attempt(row: Sequence[Any]) -> UnknownAttempt:
    return UnknownAttempt(
        n=row[0],
        term=row[1],
        outcome=Outcome(row[2]) if row[2] else None,
        created_at_ms=row[3],
        deadline_at_ms=row[4],
        seal_at_ms=row[5],
        ended_at_ms=row[6],
        reason=row[7],
    )
