"""Exceptions and alerts as the gateway shows them, to `/v1`, the command line and the webhook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from gateway.core.effect import Outcome
from gateway.store.case_records import AlertRecord, CaseRecord, Excerpt, ProbeRecord
from gateway.store.queries import Reader
from gateway.store.records import EffectRecord
from gateway.wire.cases import (
    AlertOut,
    CaseAnswerOut,
    CaseProbeOut,
    EvidenceOut,
    ExceptionOut,
)
from gateway.wire.control import instant

EXCERPT_BYTES: Final = 1024


def case_out(
    case: CaseRecord,
    now_ms: int,
    *,
    evidence: EvidenceOut | None = None,
    seal_at_ms: int | None = None,
) -> ExceptionOut:
    is_open = case.closed_at_ms is None
    return ExceptionOut(
        id=case.id,
        state="open" if is_open else "closed",
        function=case.function,
        unit=case.unit or None,
        item=case.item,
        destination=case.destination,
        term=case.term,
        effect_id=case.effect_id,
        reason=case.reason,
        detail=case.detail,
        owner=case.owner,
        deadline_at=instant(case.deadline_at_ms),
        overdue=is_open and case.deadline_at_ms <= now_ms,
        opened_at=instant(case.opened_at_ms),
        age_s=max(0, (case.closed_at_ms or now_ms) - case.opened_at_ms) / 1000,
        seal_at=_instant(seal_at_ms),
        acknowledged_by=case.acknowledged_by,
        escalated_at=_instant(case.escalated_at_ms),
        closed_at=_instant(case.closed_at_ms),
        closed_by=case.closed_by,
        decision=case.decision,
        allowed_actions=[action.value for action in case.allowed],
        evidence=evidence,
        version=case.version,
    )


async def case_in_full(reader: Reader, case: CaseRecord, now_ms: int) -> ExceptionOut:
    """Return an exception with its evidence as it stands now."""
    probes: list[ProbeRecord] = []
    excerpts: list[Excerpt] = []
    effect: EffectRecord | None = None
    if case.effect_id is not None:
        probes = await reader.probes(case.effect_id)
        excerpts = await reader.excerpts(case.effect_id, EXCERPT_BYTES)
        effect = await reader.effect(case.effect_id)
    evidence = EvidenceOut(
        opened_on=dict(case.evidence),
        probes=[_probe_out(probe) for probe in probes],
        answers=[_answer_out(excerpt) for excerpt in excerpts],
    )
    return case_out(case, now_ms, evidence=evidence, seal_at_ms=seal_of(effect))


def seal_of(effect: EffectRecord | None) -> int | None:
    """Return when nothing of an unknown effect can be running any more."""
    attempts = effect.attempts if effect is not None else ()
    seals = [one.seal_at_ms for one in attempts if one.outcome is Outcome.UNKNOWN]
    return max(seals, default=None)


def alert_out(alert: AlertRecord) -> AlertOut:
    body = alert.body
    return AlertOut(
        id=alert.id,
        kind=alert.kind,
        made_at=instant(alert.made_at_ms),
        says=body["says"],
        consequence=body["consequence"],
        responsible=body["responsible"],
        next_action=body["next_action"],
        about=body["about"],
        links=_links(body["about"]),
    )


_LINKS: Final[Sequence[tuple[str, str, str]]] = (
    ("exception", "exception_id", "/v1/exceptions/"),
    ("effect", "effect_id", "/v1/effects/"),
    ("function", "function", "/v1/functions/"),
)


def _links(about: dict[str, Any]) -> dict[str, str]:
    return {
        name: path + quote(str(about[fact]), safe="")
        for name, fact, path in _LINKS
        if fact in about
    }


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else instant(at_ms)


def _probe_out(probe: ProbeRecord) -> CaseProbeOut:
    return CaseProbeOut(
        n=probe.n,
        term=probe.term,
        started_at=instant(probe.started_at_ms),
        ended_at=_instant(probe.ended_at_ms),
        verdict=probe.verdict.value if probe.verdict else None,
        status=probe.status,
        evidence=orjson.loads(probe.evidence) if probe.evidence else None,
    )


def _answer_out(excerpt: Excerpt) -> CaseAnswerOut:
    body = excerpt.body
    return CaseAnswerOut(
        n=excerpt.n,
        status=excerpt.status,
        at=instant(excerpt.at_ms),
        body_bytes=excerpt.body_bytes,
        excerpt=None if body is None else body.decode("utf-8", "replace"),
    )
