"""`/v1/exceptions`: list, show, and what a person may do about one.

Each act names the version that it was decided on, so that of two people who decide at once the
first is taken and the other is told.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web
from multidict import MultiMapping

from gateway.control.carry import carried_out
from gateway.control.case_views import case_in_full, case_out, seal_of
from gateway.control.panel import Panel
from gateway.control.query import ID, check_words, read_cursor, read_limit
from gateway.control.turn import TurnedAway, read_model, reply
from gateway.core.measures import parse_duration_ms
from gateway.core.principals import Principal, Role
from gateway.store.case_records import Act, Action, CaseFilter, CaseRecord, NotActed
from gateway.wire.cases import ActIn, ExceptionOut, ExceptionPage
from gateway.wire.control import instant

ACTIONS: Final = frozenset(action.value for action in Action)
_FILTERS: Final = ("function", "unit", "closed", "cursor", "limit")


async def list_cases(panel: Panel, request: web.BaseRequest, principal: Principal) -> web.Response:
    """Return a page of exceptions, the oldest first: those that are open, or those that were."""
    wanted = parse_filter(request.query, principal)
    reader = await panel.ledger.reader()
    found = await reader.cases(wanted)
    page = found[: wanted.limit - 1]
    now_ms = panel.ledger.clock.now_ms()
    more = page[-1].id if len(found) == wanted.limit else None
    return reply(ExceptionPage(items=[case_out(case, now_ms) for case in page], next=more))


async def show_case(panel: Panel, principal: Principal, case_id: str) -> web.Response:
    return reply(await _shown(panel, await _find(panel, principal, case_id)))


async def act_on_case(
    panel: Panel, request: web.BaseRequest, principal: Principal, case_id: str, action: str
) -> web.Response:
    """Take a person's act. It is journalled with the principal, in the transaction of the act."""
    if not principal.is_a(Role.OPERATOR):
        raise TurnedAway("forbidden", f"Principal {principal.name!r} is no operator.")
    given = await read_model(ActIn, request)
    case = await _find(panel, principal, case_id)
    act = _act_of(case_id, Action(action), principal, given)
    refusal = await carried_out(panel, _carry(panel, act, case), "exception")
    now = await _find(panel, principal, case_id)
    if refusal is not None:
        raise await _not_taken(panel, refusal, act, now)
    return reply(await _shown(panel, now))


async def _carry(panel: Panel, act: Act, case: CaseRecord) -> NotActed | None:
    refusal = await panel.ledger.act(act, case.effect_id)
    if refusal is None:
        panel.log.warning(
            "exception-decided",
            exception_id=case.id,
            effect_id=case.effect_id,
            function=case.function,
            principal=act.principal,
            action=act.action.value,
            text=f"{act.principal} said {act.action.value} about an exception of {case.function}.",
        )
    return refusal


def _act_of(case_id: str, action: Action, principal: Principal, given: ActIn) -> Act:
    """Return the act; each action has its own words, and no others."""
    for name, word, meant in (
        ("owner", given.owner, Action.ASSIGN),
        ("deadline", given.deadline, Action.EXTEND),
    ):
        if (word is None) is (action is meant):
            why = f"{action.value} needs {name}" if word is None else f"{name} is for {meant.value}"
            raise TurnedAway("malformed", f"Nothing was changed: {why}.")
    return Act(
        case_id=case_id,
        action=action,
        principal=principal.name,
        reason=given.reason,
        version=given.version,
        owner=given.owner,
        deadline_ms=None if given.deadline is None else parse_duration_ms(given.deadline),
    )


async def _not_taken(panel: Panel, why: NotActed, act: Act, now: CaseRecord) -> TurnedAway:
    facts: dict[str, object] = {
        "exception_id": now.id,
        "version": now.version,
        "closed_by": now.closed_by,
        "decision": now.decision,
    }
    match why:
        case NotActed.VERSION_CONFLICT | NotActed.CLOSED if now.closed_at_ms is not None:
            return TurnedAway(
                "version-conflict",
                f"Nothing was changed: {now.closed_by} has closed the exception "
                f"({now.decision}), version {now.version}. Read it again.",
                **facts,
            )
        case NotActed.VERSION_CONFLICT | NotActed.CLOSED:
            return TurnedAway(
                "version-conflict",
                f"Nothing was changed: you decided on version {act.version}, and it is at "
                f"{now.version}. Read it again, and decide again on what it says now.",
                **facts,
            )
        case NotActed.BEFORE_SEAL:
            reader = await panel.ledger.reader()
            effect = await reader.effect(now.effect_id or "")
            seal_at = instant(seal_of(effect) or now.opened_at_ms)
            return TurnedAway(
                "too-early",
                f"Nothing was changed. Until {seal_at} the destination may still carry the "
                f"request out. Say {act.action.value} after that, having looked again.",
                seal_at=seal_at,
                **facts,
            )
        case NotActed.NOT_UNKNOWN:
            return TurnedAway(
                "version-conflict",
                "Nothing was changed: the effect is not unknown any more. Read it again.",
                effect_id=now.effect_id,
                **facts,
            )
        case NotActed.NOT_ALLOWED:
            allowed = [action.value for action in now.allowed]
            return TurnedAway(
                "malformed",
                f"Nothing was changed: {act.action.value} is not for an exception "
                f"{now.reason!r}. It may be {' or '.join(allowed)}.",
                allowed_actions=allowed,
                **facts,
            )
        case NotActed.NOT_FOUND:
            return TurnedAway("not-found")


async def _shown(panel: Panel, case: CaseRecord) -> ExceptionOut:
    reader = await panel.ledger.reader()
    return await case_in_full(reader, case, panel.ledger.clock.now_ms())


async def _find(panel: Panel, principal: Principal, case_id: str) -> CaseRecord:
    reader = await panel.ledger.reader()
    case = await reader.case(case_id)
    if (
        case is None
        or not principal.may_use(case.function)
        or not principal.may_reach(case.destination)
    ):
        raise TurnedAway("not-found", f"There is no exception {case_id[:40]!r}.")
    return case


def parse_filter(query: MultiMapping[str], principal: Principal) -> CaseFilter:
    """Return the filter that the query says, within what the principal may see; it asks for one
    more than a page holds."""
    check_words(query, _FILTERS)
    closed = query.get("closed", "false")
    if closed not in ("true", "false"):
        raise TurnedAway("malformed", f"closed is {closed[:20]!r}; it is true or false.")
    return CaseFilter(
        function=query.get("function"),
        unit=query.get("unit"),
        closed=closed == "true",
        cursor=read_cursor(query, ID),
        limit=read_limit(query, 100) + 1,
        only_functions=principal.functions,
        only_destinations=principal.destinations,
    )
