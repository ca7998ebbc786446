"""Records as the control plane shows them, to `/v1` and the command line alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gateway.core.guarantee import guarantee
from gateway.core.policy import Destination, Does, Route
from gateway.store.queries import Reader
from gateway.store.records import AttemptRecord, EffectRecord, ResolutionRecord
from gateway.wire.control import (
    AttemptOut,
    DestinationOut,
    EffectOut,
    ResolutionOut,
    RouteOut,
    instant,
)


async def effects_out(reader: Reader, effects: Sequence[EffectRecord]) -> list[EffectOut]:
    """Return effects with the exceptions that are open about them."""
    cases = await reader.open_case_of([effect.id for effect in effects])
    return [effect_out(effect, cases.get(effect.id)) for effect in effects]


def effect_out(effect: EffectRecord, exception_id: str | None = None) -> EffectOut:
    """Return an effect; `exception_id` is that of the open exception about it."""
    settled: Literal["settled", "in-flight"] = "in-flight" if effect.outcome is None else "settled"
    return EffectOut(
        id=effect.id,
        destination=effect.destination,
        function=effect.function,
        unit=effect.unit or None,
        item=effect.item,
        key=effect.key,
        covers=effect.covers,
        state=settled if exception_id is None else "exception",
        exception_id=exception_id,
        outcome=effect.outcome.value if effect.outcome else None,
        resolved_by=effect.resolved_by.value if effect.resolved_by else None,
        principal=effect.principal,
        version=effect.version,
        observed=effect.observed,
        attempts=[_attempt_out(attempt) for attempt in effect.attempts],
        resource=dict(effect.resource) if effect.resource is not None else None,
        created_at=instant(effect.created_at_ms),
        settled_at=None if effect.settled_at_ms is None else instant(effect.settled_at_ms),
        resolution=None if effect.resolution is None else _resolution_out(effect.resolution),
    )


def _resolution_out(resolution: ResolutionRecord) -> ResolutionOut:
    return ResolutionOut(
        at=instant(resolution.at_ms), principal=resolution.principal, reason=resolution.reason
    )


def _attempt_out(attempt: AttemptRecord) -> AttemptOut:
    return AttemptOut(
        n=attempt.n,
        term=attempt.term,
        holder=attempt.holder,
        method=attempt.method,
        target=attempt.target,
        created_at=instant(attempt.created_at_ms),
        deadline_at=instant(attempt.deadline_at_ms),
        seal_at=instant(attempt.seal_at_ms),
        ended_at=None if attempt.ended_at_ms is None else instant(attempt.ended_at_ms),
        outcome=attempt.outcome.value if attempt.outcome else None,
        reason=attempt.reason,
        status=attempt.status,
    )


def destination_out(destination: Destination) -> DestinationOut:
    limits = destination.limits
    login = destination.login
    return DestinationOut(
        name=destination.name,
        base_url=destination.base_url,
        boundary="partial" if destination.boundary == "partial" else "enforced",
        mode=destination.mode.value,
        checked=destination.checked,
        digest=destination.digest,
        login=None if login is None else f"{login.kind} in {login.header_name}",
        limits={
            "at_once": limits.at_once,
            "timeout_ms": limits.timeout_ms,
            "connect_ms": limits.connect_ms,
            "settle_ms": limits.settle_ms,
            "body_max_bytes": limits.body_max_bytes,
            "barrier_wait_ms": limits.barrier_wait_ms,
            "max_attempts": limits.max_attempts,
        },
        functions=None if destination.functions is None else sorted(destination.functions),
        connections=destination.connections.value,
        setup=list(destination.setup),
        routes=[_route_out(route) for route in destination.routes],
    )


def _route_out(route: Route) -> RouteOut:
    writes = route.does is Does.WRITE
    return RouteOut(
        name=route.name,
        match=route.match.text,
        does=route.does.value,
        because=route.because or None,
        key="Idempotency-Key" if route.key is None else route.key.text,
        covers="destination + path" if route.covers is None else route.covers.text,
        guard=route.guard.value,
        guarantee=str(guarantee(route)) if writes else "nothing is changed",
        on_duplicate=route.on_duplicate.value,
    )
