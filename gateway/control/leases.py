"""The verbs on a lease: acquire, renew, release, step down, hand off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, assert_never
from urllib.parse import quote

from aiohttp import web

from gateway.control.carry import carried_out
from gateway.control.lease_views import lease_out, live_lease, terms_of
from gateway.control.panel import Panel
from gateway.control.scopes import leading, scope_of
from gateway.control.turn import TurnedAway, read_model, reply
from gateway.core.ids import Scope, parse_name
from gateway.core.lease import Ask, Changed, Granted, Kept, LeaseRefusal, Turned
from gateway.core.policy import Function, PolicySet
from gateway.core.principals import Principal, Role
from gateway.store.lease_records import CandidateReport, FunctionTerms, LeaseAnswer, LeaseRecord
from gateway.wire.control import instant
from gateway.wire.leadership import (
    MAX_DRAIN_S,
    AcquireIn,
    CandidateIn,
    HandOffIn,
    ReleaseIn,
    RenewIn,
    StepDownIn,
)
from gateway.wire.problem import PROBLEMS

Verb = Callable[[Panel, web.BaseRequest, Principal, Function], Awaitable[web.Response]]

_LOOK: Final = "GET /v1/leases/{function} tells who leads."
_ADVICE: Final = {
    LeaseRefusal.LEASE_HELD: PROBLEMS["lease-held"].detail,
    LeaseRefusal.NOT_ELIGIBLE: PROBLEMS["not-eligible"].detail,
    LeaseRefusal.NOT_PREFERRED: PROBLEMS["not-preferred"].detail,
    LeaseRefusal.LEASE_GONE: PROBLEMS["lease-gone"].detail,
    LeaseRefusal.NOT_HOLDER: f"Nothing was changed. Do not retry. {_LOOK}",
}
_HAND_OFF_ADVICE: Final = _ADVICE | {
    LeaseRefusal.NOT_ELIGIBLE: "Nothing was changed: the lease is as it was. Name a candidate that "
    "may lead; GET /v1/candidates/{function} lists them, with the reasons of those that may not."
}


async def use_lease(
    panel: Panel, request: web.BaseRequest, principal: Principal, name: str, verb: str
) -> web.Response:
    return await VERBS[verb](panel, request, principal, leading(panel, principal, name))


async def _acquire(
    panel: Panel, request: web.BaseRequest, principal: Principal, function: Function
) -> web.Response:
    given = await read_model(AcquireIn, request)
    scope = scope_of(function, given.unit)
    ask = Ask(holder=parse_name("holder", given.holder), principal=principal.name)
    answer = await carried_out(
        panel,
        panel.ledger.acquire(
            scope,
            ask,
            supersede=given.supersede,
            report=None if given.candidate is None else report_of(given.candidate),
            terms=terms_of(function),
        ),
        "lease",
    )
    return _answered(panel, answer, terms_of(function))


async def _renew(
    panel: Panel, request: web.BaseRequest, principal: Principal, function: Function
) -> web.Response:
    given = await read_model(RenewIn, request)
    scope, terms = scope_of(function, given.unit), terms_of(function)
    # An operator ends leases; keeping one alive proves that its holder is, and is nobody else's.
    ask = _ask(given, principal, may_end=False)
    done = False
    try:
        answer = await carried_out(panel, panel.ledger.renew(scope, ask, terms), "lease")
        done = not isinstance(answer.answer, Turned)
    finally:
        panel.lease_metrics.renewal(function.name, done=done)
    return _answered(panel, answer, terms)


async def _release(
    panel: Panel, request: web.BaseRequest, principal: Principal, function: Function
) -> web.Response:
    given = await read_model(ReleaseIn, request)
    scope, terms = scope_of(function, given.unit), terms_of(function)
    ask = _ask(given, principal, may_end=True)
    answer = await carried_out(panel, panel.ledger.release(scope, ask, terms), "lease")
    return _answered(panel, answer, terms)


async def _step_down(
    panel: Panel, request: web.BaseRequest, principal: Principal, function: Function
) -> web.Response:
    given = await read_model(StepDownIn, request)
    scope, terms = scope_of(function, given.unit), terms_of(function)
    ask = _ask(given, principal, may_end=True)
    drain_ms = drain_for_ms(panel.policies()) if given.drain_s is None else given.drain_s * 1000
    answer = await carried_out(
        panel, panel.ledger.step_down(scope, ask, round(drain_ms), terms), "lease"
    )
    return _answered(panel, answer, terms, counted=True)


async def _hand_off(
    panel: Panel, request: web.BaseRequest, principal: Principal, function: Function
) -> web.Response:
    given = await read_model(HandOffIn, request)
    scope, terms = scope_of(function, given.unit), terms_of(function)
    ask = _ask(given, principal, may_end=True)
    to = parse_name("to", given.to)
    answer = await carried_out(panel, panel.ledger.hand_off(scope, ask, to, terms), "lease")
    return _answered(panel, answer, terms, new_term=200, advice=_HAND_OFF_ADVICE)


VERBS: Final[dict[str, Verb]] = {
    "acquire": _acquire,
    "renew": _renew,
    "release": _release,
    "step-down": _step_down,
    "hand-off": _hand_off,
}


def report_of(given: CandidateIn) -> CandidateReport:
    return CandidateReport(
        version=given.version, region=given.region, ready=given.ready, priority=given.priority
    )


def drain_for_ms(policies: PolicySet) -> int:
    """Return how long what is in flight may take at most: the longest timeout and settle."""
    limits = [
        limits
        for destination in policies.destinations.values()
        for limits in (destination.limits, *(route.limits for route in destination.routes))
    ]
    longest_ms = max((each.timeout_ms + each.settle_ms for each in limits), default=0)
    return min(longest_ms, round(MAX_DRAIN_S * 1000))


def _ask(given: RenewIn, principal: Principal, *, may_end: bool) -> Ask:
    return Ask(
        holder=parse_name("holder", given.holder),
        principal=principal.name,
        term=given.term,
        operator=may_end and principal.is_a(Role.OPERATOR),
    )


def _answered(
    panel: Panel,
    answer: LeaseAnswer,
    terms: FunctionTerms,
    *,
    new_term: int = 201,
    counted: bool = False,
    advice: Mapping[LeaseRefusal, str] = _ADVICE,
) -> web.Response:
    record = answer.record
    match answer.answer:
        case Turned() as turned:
            panel.lease_metrics.turned_away(turned.reason.value)
            raise _turned_away(turned, record, advice)
        case Granted():
            status = new_term
        case Kept() | Changed():
            status = 200
        case _:
            assert_never(answer.answer)
    location = _path(record.scope) if status == 201 else None
    return reply(lease_out(record, terms.rules.margin_ms, counted=counted), status, location)


def _path(scope: Scope) -> str:
    unit = f"?unit={quote(scope.unit, safe='')}" if scope.unit else ""
    return f"/v1/leases/{quote(scope.function, safe='')}{unit}"


def _turned_away(
    turned: Turned, record: LeaseRecord, advice: Mapping[LeaseRefusal, str]
) -> TurnedAway:
    """Return the problem for a verb that was turned away, with what there is instead."""
    live = live_lease(record)
    facts: dict[str, object] = {
        "function": record.scope.function,
        "unit": record.scope.unit or None,
        "holder": live.holder if live else None,
        "term": record.last_term or None,
        "version": record.version,
    }
    why = turned.why.rstrip(".")
    match turned.reason:
        case LeaseRefusal.LEASE_HELD if live is not None:
            facts["expires_at"] = instant(live.expires_at_ms)
            facts["remaining_ms"] = live.expires_at_ms - record.now_ms
        case LeaseRefusal.NOT_ELIGIBLE:
            facts["reasons"] = [why]
        case LeaseRefusal.NOT_PREFERRED:
            facts["preferred"] = turned.rival
        case _:
            pass
    facts["retry_after_ms"] = turned.retry_ms
    away = TurnedAway(turned.reason.value, f"{why}. {advice[turned.reason]}", **facts)
    if turned.reason is LeaseRefusal.NOT_HOLDER:
        away.status = 409  # a release is not a command: 412 is the fence's
    if turned.reason is LeaseRefusal.NOT_PREFERRED and turned.retry_ms is not None:
        away.retry_after_s = turned.retry_ms / 1000
    return away
