"""`/v1/functions`: each function's policy as loaded, its scopes and its candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from gateway.control.following import with_unled
from gateway.control.lease_views import (
    candidates_out,
    function_out,
    lease_out,
    live_lease,
    terms_of,
)
from gateway.control.panel import Panel
from gateway.control.scopes import visible
from gateway.control.turn import reply
from gateway.core.fence import Authority
from gateway.core.ids import Scope
from gateway.core.policy import Function
from gateway.core.principals import Principal
from gateway.store.lease_records import LeaseRecord
from gateway.store.queries import Reader
from gateway.store.records import EffectFilter
from gateway.wire.leadership import FunctionDetailOut, FunctionPage, ScopeOut

MAX_SCOPES: Final = 100


def list_functions(panel: Panel, principal: Principal) -> web.Response:
    found = panel.policies().functions
    shown = [function_out(found[name]) for name in sorted(found) if principal.may_use(name)]
    return reply(FunctionPage(items=shown, next=None))


async def show_function(panel: Panel, principal: Principal, name: str) -> web.Response:
    """Show a function with what is known of it now."""
    function = visible(panel, principal, name)
    terms, now_ms = terms_of(function), panel.ledger.clock.now_ms()
    reader = await panel.ledger.reader()
    candidates = []
    records: Sequence[LeaseRecord] = []
    if function.rules.authority is Authority.LEASE:
        found = await reader.candidates(function.name, now_ms)
        candidates = candidates_out(found, terms, now_ms)
        records = with_unled(await reader.leases([name], now_ms), [function], now_ms)
    latest = sorted(records, key=_latest_first)
    unfinished = await _unfinished(reader, function)
    detail = FunctionDetailOut(
        **dict(function_out(function)),
        scopes=[
            ScopeOut(
                unit=record.scope.unit or None,
                highest_term=record.last_term,
                last_term=record.last_term,
                unfinished_effects=unfinished[record.scope],
                lease=lease_out(record, terms.rules.margin_ms, counted=True),
            )
            for record in latest[:MAX_SCOPES]
        ],
        scopes_left_out=max(0, len(latest) - MAX_SCOPES),
        candidates=candidates,
    )
    return reply(detail)


def _latest_first(record: LeaseRecord) -> tuple[bool, int, Scope]:
    acquired_at_ms = record.lease.acquired_at_ms if record.lease else 0
    return live_lease(record) is None, -acquired_at_ms, record.scope


async def _unfinished(reader: Reader, function: Function) -> Counter[Scope]:
    """Count the effects of each scope that are in flight or unknown."""
    counted: Counter[Scope] = Counter()
    for outcome in ("in-flight", "unknown"):
        cursor: str | None = None
        while True:
            effects, cursor = await reader.effects(
                EffectFilter(function=function.name, outcome=outcome, cursor=cursor, limit=500)
            )
            for effect in effects:
                unit = effect.unit if function.per_unit else ""
                counted[Scope(function.name, unit)] += 1
            if cursor is None:
                break
    return counted
