"""`/v1/candidates`: who would lead, as each says of itself."""

from __future__ import annotations

from aiohttp import web

from gateway.control.lease_views import candidate_out, candidates_out, terms_of
from gateway.control.leases import report_of
from gateway.control.panel import Panel
from gateway.control.scopes import leading, visible_leased
from gateway.control.turn import TurnedAway, read_model, reply
from gateway.core.ids import parse_name
from gateway.core.principals import Principal
from gateway.wire.leadership import CandidateIn, CandidatePage


async def list_candidates(panel: Panel, principal: Principal, name: str) -> web.Response:
    """List those that may lead, best first, and then the others with their reasons."""
    function = visible_leased(panel, principal, name)
    now_ms = panel.ledger.clock.now_ms()
    reader = await panel.ledger.reader()
    found = await reader.candidates(function.name, now_ms)
    return reply(CandidatePage(items=candidates_out(found, terms_of(function), now_ms), next=None))


async def report_candidate(
    panel: Panel, request: web.BaseRequest, principal: Principal, name: str, holder: str
) -> web.Response:
    """Take a candidate's report of itself: as good as new for `fresh_for_ms`."""
    function = leading(panel, principal, name)
    holder = parse_name("holder", holder)
    given = report_of(await read_model(CandidateIn, request))
    record = await panel.ledger.report(function.name, holder, principal.name, given)
    if record.candidate.principal != principal.name:
        raise _of_another(principal, holder)
    return reply(candidate_out(record, terms_of(function), panel.ledger.clock.now_ms()))


async def withdraw_candidate(
    panel: Panel, principal: Principal, name: str, holder: str
) -> web.Response:
    """Forget a candidate. One that is not there is forgotten already."""
    function = leading(panel, principal, name)
    holder = parse_name("holder", holder)
    if not await panel.ledger.withdraw(function.name, holder, principal.name):
        reader = await panel.ledger.reader()
        found = await reader.candidates(function.name, panel.ledger.clock.now_ms())
        if any(record.candidate.holder == holder for record in found):
            raise _of_another(principal, holder)
    return web.Response(status=204, headers={"Cache-Control": "no-store"})


def _of_another(principal: Principal, holder: str) -> TurnedAway:
    return TurnedAway(
        "forbidden",
        f"The candidate {holder!r} is another principal's; {principal.name!r} may not speak for "
        "it. Give each worker a name of its own.",
    )
