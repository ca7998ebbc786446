"""`/v1/effects`: list, show, resolve."""

from __future__ import annotations

from aiohttp import web
from multidict import MultiMapping

from gateway.control.panel import Panel
from gateway.control.query import ID, check_words, read_cursor, read_limit, read_word
from gateway.control.turn import TurnedAway, read_model, reply
from gateway.control.views import effects_out
from gateway.core.effect import Outcome
from gateway.core.errors import Malformed
from gateway.core.ids import parse_term
from gateway.core.principals import Principal, Role
from gateway.store.records import EffectFilter, EffectRecord, Resolution, Unresolved
from gateway.wire.control import EffectOut, EffectPage, ResolveIn, instant

_OUTCOMES = ("confirmed", "rejected", "no-effect", "unknown", "in-flight")
_FILTERS = ("function", "unit", "destination", "outcome", "term", "cursor", "limit")


async def list_effects(
    panel: Panel, request: web.BaseRequest, principal: Principal
) -> web.Response:
    wanted = parse_filter(request.query, principal)
    reader = await panel.ledger.reader()
    effects, cursor = await reader.effects(wanted)
    return reply(EffectPage(items=await effects_out(reader, effects), next=cursor))


async def show_effect(
    panel: Panel, request: web.BaseRequest, principal: Principal, effect_id: str
) -> web.Response:
    return reply(await _shown(panel, await _find(panel, principal, effect_id)))


async def resolve_effect(
    panel: Panel, request: web.BaseRequest, principal: Principal, effect_id: str
) -> web.Response:
    """Take an operator's word on an unknown effect; journalled with the operator's name."""
    if not principal.is_a(Role.OPERATOR):
        raise TurnedAway("forbidden", f"Principal {principal.name!r} is no operator.")
    given = await read_model(ResolveIn, request)
    effect = await _find(panel, principal, effect_id)
    refusal = await panel.ledger.resolve(
        Resolution(effect_id, Outcome(given.as_), given.reason, principal.name, given.version)
    )
    if refusal is not None:
        raise _not_taken(refusal, await _find(panel, principal, effect_id))
    panel.log.warning(
        "effect-resolved",
        effect_id=effect_id,
        principal=principal.name,
        outcome=given.as_,
        was=effect.outcome,
    )
    return reply(await _shown(panel, await _find(panel, principal, effect_id)))


async def _shown(panel: Panel, effect: EffectRecord) -> EffectOut:
    return (await effects_out(await panel.ledger.reader(), [effect]))[0]


def _not_taken(refusal: Unresolved, effect: EffectRecord) -> TurnedAway:
    facts: dict[str, object] = {"effect_id": effect.id, "version": effect.version}
    match refusal:
        case Unresolved.VERSION_CONFLICT:
            return TurnedAway("version-conflict", None, **facts)
        case Unresolved.BEFORE_SEAL:
            seal_at = instant(max(attempt.seal_at_ms for attempt in effect.attempts))
            return TurnedAway(
                "too-early",
                f"Until {seal_at} the destination may still carry the request out. Decide "
                "no-effect after that, having looked at the destination again.",
                seal_at=seal_at,
                **facts,
            )
        case Unresolved.NOT_UNKNOWN:
            outcome = effect.outcome.value if effect.outcome else "in-flight"
            return TurnedAway(
                "version-conflict",
                f"The effect is {outcome}; only an unknown one is for a person to decide.",
                outcome=outcome,
                **facts,
            )
        case _:
            return TurnedAway("not-found")


async def _find(panel: Panel, principal: Principal, effect_id: str) -> EffectRecord:
    reader = await panel.ledger.reader()
    effect = await reader.effect(effect_id)
    if effect is None or not _may_see(principal, effect):
        raise TurnedAway("not-found", f"There is no effect {effect_id[:40]!r}.")
    return effect


def _may_see(principal: Principal, effect: EffectRecord) -> bool:
    return principal.may_reach(effect.destination) and principal.may_use(effect.function)


def parse_filter(query: MultiMapping[str], principal: Principal) -> EffectFilter:
    """Return the filter that the query says, within what the principal may see."""
    check_words(query, _FILTERS)
    try:
        term = parse_term(query["term"]) if "term" in query else None
    except Malformed as error:
        raise TurnedAway("malformed", str(error)) from None
    return EffectFilter(
        function=query.get("function"),
        unit=query.get("unit"),
        destination=query.get("destination"),
        outcome=read_word(query, "outcome", _OUTCOMES),
        term=term,
        cursor=read_cursor(query, ID),
        limit=read_limit(query, 50),
        only_functions=principal.functions,
        only_destinations=principal.destinations,
    )
