"""`/v1/functions/{function}/handover`: what a successor has to know, in five answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from aiohttp import web

from gateway.control.lease_views import live_lease
from gateway.control.panel import Panel
from gateway.control.query import check_words
from gateway.control.scopes import visible
from gateway.control.turn import TurnedAway, reply
from gateway.core.errors import Malformed
from gateway.core.ids import parse_term
from gateway.core.principals import Principal
from gateway.core.telling import Passage, in_english, in_portuguese
from gateway.store.case_records import CaseFilter, CaseRecord
from gateway.store.handover_queries import HandoverRecord, LeftEffect, UnitLeft, done_of
from gateway.store.work_records import ItemRecord
from gateway.wire.control import instant
from gateway.wire.handover import (
    AbandonOut,
    DoingOut,
    ExceptionRefOut,
    HandoverOut,
    ItemOut,
    LeaderOut,
    LeftEffectOut,
    SentenceOut,
    TookEffectOut,
)

_WORDS: Final = ("term", "unit")


async def show_handover(
    panel: Panel, request: web.BaseRequest, principal: Principal, name: str
) -> web.Response:
    """Answer for the latest change of term, or for the one to `?term=`."""
    function = visible(panel, principal, name)
    query = request.query
    check_words(query, _WORDS)
    try:
        term = parse_term(query["term"]) if "term" in query else None
    except Malformed as error:
        raise TurnedAway("malformed", str(error)) from None
    reader = await panel.ledger.reader()
    record = await reader.handover(function.name, query.get("unit"), term)
    if record is None:
        asked = f" to term {term}" if term is not None else ""
        raise TurnedAway("not-found", f"No change of term{asked} of {name!r} is on record.")
    now_ms = panel.ledger.clock.now_ms()
    live = live_lease(await reader.lease(record.scope, now_ms)) is not None
    record = replace(
        record, effects=[one for one in record.effects if principal.may_reach(one.destination)]
    )
    cases = await reader.cases(
        CaseFilter(function=function.name, only_destinations=principal.destinations)
    )
    return reply(handover_out(record, cases, now_ms, led_now=live))


def handover_out(
    record: HandoverRecord, cases: list[CaseRecord], now_ms: int, *, led_now: bool
) -> HandoverOut:
    items, done = done_of(record.units)
    commands: Counter[str] = Counter()
    for unit in record.units:
        commands.update(unit.effects)
    open_left = [one for one in record.effects if one.outcome in (None, "unknown")]
    names = [unit.record.unit for unit in record.units]
    passage = Passage(
        function=record.scope.function,
        reason=record.ended,
        led_now=led_now or record.ended is None,
        unit=", ".join(names[:3]) if names else None,
        items=items,
        done=done,
        unfinished=len(open_left),
    )
    return HandoverOut(
        function=record.scope.function,
        unit=record.scope.unit or None,
        at=instant(record.at_ms),
        now=LeaderOut(term=record.term, holder=record.holder, ended=None),
        before=LeaderOut(
            term=record.previous_term, holder=record.previous_holder, ended=record.ended
        ),
        doing=DoingOut(
            units=[_unit_out(unit) for unit in record.units],
            items_out=[_item(unit, item) for unit in record.units for item in unit.out],
            commands=dict(commands),
            uncertain=[_left(one) for one in record.effects],
            uncertain_count=record.effects_count,
        ),
        took_effect=TookEffectOut(
            effects_confirmed=commands.get("confirmed", 0), items=items, items_done=done
        ),
        resumable=[_item(unit, item) for unit in record.units for item in unit.resumable],
        to_reconcile=items - done if record.units else len(open_left),
        abandon=AbandonOut(
            stale_commands_refused=record.refused_stale,
            units_past_their_period=[
                unit.record.unit for unit in record.units if _is_past(unit, now_ms)
            ],
        ),
        exceptions=[
            ExceptionRefOut(
                id=case.id,
                effect_id=case.effect_id,
                reason=case.reason,
                owner=case.owner,
                deadline_at=instant(case.deadline_at_ms),
                item=case.item,
            )
            for case in cases
        ],
        sentence=SentenceOut(en=in_english(passage), pt_br=in_portuguese(passage)),
    )


def _unit_out(unit: UnitLeft) -> dict[str, object]:
    record = unit.record
    return {
        "unit": record.unit,
        "state": record.shown.value,
        "items": {state.value: count for state, count in record.tally.items.items()},
        "unknown_effects": record.tally.unknown,
        "last_checkpoint": record.checkpoint,
        "policy_version": record.policy_version,
    }


def _item(unit: UnitLeft, item: ItemRecord) -> ItemOut:
    return ItemOut(
        unit=unit.record.unit,
        item=item.item,
        state=item.state.value,
        attempt=item.attempt,
        worker=item.worker,
        term=item.term,
        expires_at=instant(item.expires_at_ms) if item.expires_at_ms else None,
        checkpoint=item.checkpoint,
        checkpoint_version=item.checkpoint_version,
    )


def _left(effect: LeftEffect) -> LeftEffectOut:
    return LeftEffectOut(
        id=effect.id,
        destination=effect.destination,
        unit=effect.unit or None,
        item=effect.item,
        key=effect.key,
        outcome=effect.outcome,
        resolved_by=effect.resolved_by,
        exception_id=effect.exception_id,
    )


def _is_past(unit: UnitLeft, now_ms: int) -> bool:
    """Whether the unit's period is over, where its end is written as an instant or a day."""
    end = unit.record.period_end
    if end is None:
        return False
    try:
        moment = datetime.fromisoformat(end)
    except ValueError:
        return False
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if len(end) == len("2026-10-02"):  # a day is over when it has ended
        moment += timedelta(days=1)
    return moment.timestamp() * 1000 <= now_ms
