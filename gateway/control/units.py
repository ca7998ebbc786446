"""Writing to units of work: create, claim, checkpoint, report, complete, abandon.

Each write says under which term it is made, as an effect does, and meets the same refusals.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from aiohttp import web

from gateway.control.carry import carried_out
from gateway.control.panel import Panel
from gateway.control.turn import TurnedAway, as_model, read_json, read_model, reply
from gateway.control.unit_views import counts_out, item_out, json_text, plan_of, unit_out
from gateway.core.fence import Refusal
from gateway.core.ids import Scope, parse_name
from gateway.core.policy import Function
from gateway.core.principals import Principal, Role
from gateway.core.work import ItemState, WorkRefusal
from gateway.store.claims import asking
from gateway.store.work import (
    Abandoning,
    Checkpointing,
    Claiming,
    Completing,
    Creating,
    Reporting,
    WorkVerb,
)
from gateway.store.work_records import Report, Speech, UnitRecord, WorkAnswer
from gateway.wire.headers import FenceHeaders, parse_fence
from gateway.wire.problem import PROBLEMS
from gateway.wire.units import (
    PLAN_MAX_BYTES,
    REPORT_MAX_BYTES,
    AbandonIn,
    CheckpointOut,
    ClaimIn,
    ClaimOut,
    CompleteIn,
    PlanIn,
    ReportIn,
    ReportOut,
    ResultIn,
    VerdictOut,
)

Verb = Callable[[Panel, web.BaseRequest, Principal, str], Awaitable[web.Response]]

_ETAG: Final = re.compile(r'(?:"(0|[1-9][0-9]{0,15})"|(0|[1-9][0-9]{0,15}))\Z')
_SMALL_PLAN: Final = 1000


async def create_unit(
    panel: Panel, request: web.BaseRequest, principal: Principal, unit: str
) -> web.Response:
    """Create a unit: 201. One that is there stands as it is: 200, with the recorded digest."""
    speech = speech_of(panel, request, principal, unit)
    # Large plans are dear to parse: whoever is refused anyway does not get so far.
    await _done(panel, speech, asking(speech))
    said = await read_json(request, PLAN_MAX_BYTES)
    given = as_model(PlanIn, said)
    if given.function != speech.scope.function:
        raise TurnedAway(
            "malformed",
            f"function is {given.function[:80]!r}, and Fence-Function is "
            f"{speech.scope.function!r}; name the same.",
        )
    if len(given.manifest.items) <= _SMALL_PLAN:
        plan = plan_of(given, said["manifest"])
    else:
        plan = await asyncio.to_thread(plan_of, given, said["manifest"])
    answer = await _done(panel, speech, Creating(speech, plan))
    if not answer.made:
        panel.work_metrics.duplicate_blocked(speech.scope.function)
    response = await _shown(panel, unit, 201 if answer.made else 200)
    if answer.made:
        response.headers["Location"] = request.raw_path.partition("?")[0]
    return response


async def _claim(
    panel: Panel, request: web.BaseRequest, principal: Principal, unit: str
) -> web.Response:
    speech = speech_of(panel, request, principal, unit, leader_only=False)
    given = await read_model(ClaimIn, request)
    worker = speech.holder if given.worker is None else parse_name("worker", given.worker)
    # A worker claims for itself. Only a leader hands items to somebody else.
    speech = replace(speech, leader_only=worker != speech.holder)
    ttl_ms = max(1, round(given.ttl_s * 1000))
    claiming = Claiming(speech, worker, given.limit, ttl_ms)
    answer = await _done(panel, speech, claiming)
    panel.work_metrics.resumed(speech.scope.function, answer.resumed_unit, answer.resumed_items)
    items = [item_out(item, answer.now_ms) for item in answer.items]
    return reply(ClaimOut(items=items, waiting=list(answer.waiting)))


async def write_checkpoint(
    panel: Panel, request: web.BaseRequest, principal: Principal, unit: str, item: str
) -> web.Response:
    """Write an item's checkpoint, if it still has the version that If-Match names."""
    named = _fence(request).item
    if named is not None and named != item:
        raise TurnedAway("malformed", f"Fence-Item is {named!r}, and the path names {item[:80]!r}.")
    speech = speech_of(panel, request, principal, unit, leader_only=False, ends_work=True)
    expected = _expected_version(request)
    data = json_text("The checkpoint", await read_json(request)) or "null"
    verb = Checkpointing(speech, parse_name("the item", item), expected, data)
    answer = await _done(panel, speech, verb)
    response = reply(CheckpointOut(item=item, checkpoint_version=answer.version))
    response.headers["ETag"] = f'"{answer.version}"'
    return response


async def _report(
    panel: Panel, request: web.BaseRequest, principal: Principal, unit: str
) -> web.Response:
    speech = speech_of(panel, request, principal, unit, leader_only=False, ends_work=True)
    given = await read_model(ReportIn, request, REPORT_MAX_BYTES)
    reports = [_report_of(result) for result in given.results]
    names = {report.item for report in reports}
    if len(names) < len(reports):
        raise TurnedAway(
            "malformed", f"{len(reports) - len(names)} items are reported twice; say each once."
        )
    answer = await _done(panel, speech, Reporting(speech, reports))
    verdicts = [
        VerdictOut(item=name, taken=why is None, reason=None if why is None else why.value)
        for name, why in ((report.item, answer.turned.get(report.item)) for report in reports)
    ]
    turned = len(answer.turned)
    return reply(ReportOut(results=verdicts, taken=len(reports) - turned, turned_away=turned))


def _report_of(result: ResultIn) -> Report:
    return Report(
        item=result.item,
        state=ItemState(result.state),
        attempt=result.attempt,
        result=json_text(f"The result of {result.item!r}", result.result),
        reason=result.reason,
    )


async def _complete(
    panel: Panel, request: web.BaseRequest, principal: Principal, unit: str
) -> web.Response:
    speech = speech_of(panel, request, principal, unit)
    given = await read_model(CompleteIn, request)
    result = json_text("result", given.result)
    await _done(panel, speech, Completing(speech, given.manifest_digest, result))
    return await _shown(panel, unit)


async def _abandon(
    panel: Panel, request: web.BaseRequest, principal: Principal, unit: str
) -> web.Response:
    """Give a unit up: its leader under a fence, or an operator without one."""
    fence = _fence(request)
    fenced = any(said is not None for said in (fence.function, fence.term, fence.holder))
    if not fenced and principal.is_a(Role.OPERATOR):
        speech = await _operator_speech(panel, principal, unit)
    else:
        speech = speech_of(panel, request, principal, unit)
    given = await read_model(AbandonIn, request)
    verb = Abandoning(speech, given.reason.strip(), operator=not speech.term)
    answer = await _done(panel, speech, verb)
    if answer.ended:
        panel.log.warning(
            "unit-abandoned", unit=unit, principal=principal.name, reason=given.reason
        )
    return await _shown(panel, unit)


VERBS: Final[dict[str, Verb]] = {
    "claim": _claim,
    "report": _report,
    "complete": _complete,
    "abandon": _abandon,
}


def speech_of(
    panel: Panel,
    request: web.BaseRequest,
    principal: Principal,
    unit: str,
    *,
    leader_only: bool = True,
    ends_work: bool = False,
) -> Speech:
    """Return who speaks, as the Fence-* fields say it, and by which rules."""
    unit = parse_name("the unit", unit)
    if not principal.is_a(Role.WORKER):
        raise TurnedAway("forbidden", f"Principal {principal.name!r} is no worker.")
    fence = _fence(request)
    function = None if fence.function is None else _function(panel, principal, fence.function)
    if function is None or fence.term is None or fence.holder is None:
        raise _missing(fence)
    if fence.unit is not None and fence.unit != unit:
        raise TurnedAway("malformed", f"Fence-Unit is {fence.unit!r}, and the path names {unit!r}.")
    return Speech(
        scope=_scope(function, unit),
        unit=unit,
        term=fence.term,
        holder=fence.holder,
        principal=principal.name,
        rules=function.rules,
        leader_only=leader_only,
        ends_work=ends_work,
    )


async def _operator_speech(panel: Panel, principal: Principal, unit: str) -> Speech:
    record = await find_unit(panel, principal, unit)
    function = panel.policies().functions.get(record.function) or Function(name=record.function)
    return Speech(
        scope=_scope(function, unit),
        unit=unit,
        term=0,
        holder="",
        principal=principal.name,
        rules=function.rules,
    )


async def find_unit(panel: Panel, principal: Principal, unit: str) -> UnitRecord:
    """Return the unit if there is one that the principal may see."""
    reader = await panel.ledger.reader()
    record = await reader.unit(unit)
    if record is None or not principal.may_use(record.function):
        raise _no_unit(unit)
    return record


def _no_unit(unit: str) -> TurnedAway:
    return TurnedAway(
        "not-found",
        f"There is no unit {unit[:80]!r} for you. GET /v1/units lists those that there are.",
    )


def _scope(function: Function, unit: str) -> Scope:
    return Scope(function.name, unit if function.per_unit else "")


def _fence(request: web.BaseRequest) -> FenceHeaders:
    return parse_fence(request.raw_headers)


def _function(panel: Panel, principal: Principal, name: str) -> Function:
    if not principal.may_use(name):
        raise TurnedAway(
            "forbidden", f"Principal {principal.name!r} may not act for function {name!r}."
        )
    function = panel.policies().functions.get(name)
    if function is None:
        raise TurnedAway(
            "function-unknown",
            f"No policy declares the function {name!r}; declare it, or correct Fence-Function.",
        )
    return function


def _missing(fence: FenceHeaders) -> TurnedAway:
    said = {
        "Fence-Function": fence.function, "Fence-Term": fence.term, "Fence-Holder": fence.holder,
    }  # fmt: skip
    missing = [name for name, value in said.items() if value is None]
    return TurnedAway("fence-missing", f"Add {', '.join(missing)}.", missing=missing)


def _expected_version(request: web.BaseRequest) -> int:
    given = request.headers.getall("If-Match", [])
    if not given:
        raise TurnedAway(
            "fence-missing",
            'Add If-Match with the version of the checkpoint that you know: "0" for the first.',
            missing=["If-Match"],
        )
    found = _ETAG.match(given[0].strip()) if len(given) == 1 else None
    if found is None:
        raise TurnedAway(
            "malformed",
            f"If-Match is {', '.join(given)[:80]!r}; it is the one version that you know, in "
            'quotes: "3".',
        )
    return int(found[1] or found[2])


async def _shown(panel: Panel, unit: str, status: int = 200) -> web.Response:
    reader = await panel.ledger.reader()
    record = await reader.unit(unit)
    if record is None:
        raise _no_unit(unit)
    return reply(unit_out(record), status)


async def _done(panel: Panel, speech: Speech, verb: WorkVerb) -> WorkAnswer:
    """Carry a write out. Raises the problem if it was refused."""
    answer = await carried_out(panel, panel.ledger.work(verb), "unit")
    if answer.refusal is None:
        return answer
    panel.metrics.refused(answer.refusal.value)
    raise _turned_away(speech, answer, answer.refusal)


def _turned_away(speech: Speech, answer: WorkAnswer, refusal: Refusal | WorkRefusal) -> TurnedAway:
    facts: dict[str, object] = {
        "function": speech.scope.function,
        "unit": speech.unit,
        "term": speech.term or None,
        "highest_term": answer.highest_term or None,
        "reasons": list(answer.reasons) or None,
    }
    detail = None
    if answer.reasons:
        told = "; ".join(answer.reasons)
        detail = f"{told[:1].upper()}{told[1:]}. {PROBLEMS[refusal.value].detail}"
    if answer.tally is not None:
        facts["items"] = counts_out(answer.tally).model_dump()
    conflict = refusal is WorkRefusal.VERSION_CONFLICT
    if conflict:
        facts["version"] = answer.version
        detail = (
            f"The checkpoint has version {answer.version} by now. Nothing was changed. Read the "
            "item again, and go on from what it says."
        )
    away = TurnedAway(refusal.value, detail, **facts)
    if conflict:
        away.status = 412  # If-Match did not hold
    return away
