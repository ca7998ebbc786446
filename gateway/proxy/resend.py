"""Sending an effect again in the gateway's own name: an admission like any other, and one send."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from gateway.core.classify import Meaning, Reply, Silence, classify, needs_body
from gateway.core.dress import Dressed, dress
from gateway.core.effect import Fingerprint, Outcome, ResolvedBy
from gateway.core.errors import LedgerUnavailable
from gateway.core.fence import Attempt, Refuse, Wait
from gateway.core.guards import Guard
from gateway.core.ids import EffectKey, new_effect_id
from gateway.core.policy import Destination, Function, Route
from gateway.core.template import RequestValues
from gateway.outbound.exchange import Outgoing
from gateway.outbound.login import login_header
from gateway.proxy import keep
from gateway.proxy.house import House
from gateway.proxy.unsettled import Leader, headers_of, route_mark, values_of
from gateway.store.case_records import KeptRequest, UnknownEffect
from gateway.store.probes import RECONCILER, Concluding, Resending
from gateway.store.records import Proposal, Ruling, SentAs, Settlement, StoredAnswer

SEND_SLACK_S: Final = 1.0
SLOT_WAIT_S: Final = 5.0
ANSWER_MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class NotSent:
    """Why nothing was sent; `for_good` says that waiting does not help, `concluded` that what
    had to be concluded before stands: the effect did not happen, and its key is free."""

    why: str
    for_good: bool = False
    concluded: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """What is sent again, for whom, by which route."""

    effect: UnknownEffect
    request: KeptRequest
    destination: Destination
    route: Route
    function: Function
    leader: Leader
    decided_s: float  # on the boot clock, when what is known of the effect was read
    as_it_was: bool = False  # the very bytes of `request`, old term and all
    after: Concluding | None = None  # what has to be concluded in the same transaction


async def resend(house: House, again: Again) -> Outcome | NotSent:
    """Admit the effect's next attempt under the live term, send it once, record its answer.

    The first byte leaves within the send budget of the moment at which what is known was read:
    a process that was paused in between might send when a native key is forgotten already.

    Raises Malformed where the request cannot be dressed any more.
    """
    values = values_of(again.effect, again.request, again.route)
    first_ms = house.sent_at_ms(again.effect.attempts[0].created_at_ms)
    values = replace(values, first_sent_s=first_ms // 1000)
    if not again.as_it_was:
        values = replace(values, term=again.leader.term)
    made, sent = _made(again, values)
    connect_s = again.route.limits.connect_ms / 1000
    slot = await house.slots(again.destination).take(min(SLOT_WAIT_S, connect_s))
    if slot is None:
        return NotSent("busy")
    with slot:
        if house.state.draining:
            return NotSent("draining")
        if house.clock.boot_s() > again.decided_s + connect_s:
            return NotSent("too-late")
        began_s = house.clock.boot_s()
        effect = again.effect
        asked = Resending(_proposal(house, again, sent), effect.id, effect.version, again.after)
        ruling = await house.ledger.resend(asked)
        if ruling is None:
            return NotSent("changed-meanwhile")
        if ruling.n is None:
            return replace(_not_admitted(ruling), concluded=again.after is not None)
        house.inflight.began(ruling.effect_id, ruling.n)
        try:
            return await _send(house, again, ruling, made, values, began_s)
        finally:
            house.inflight.ended(ruling.effect_id, None)


def _made(again: Again, values: RequestValues) -> tuple[Dressed, SentAs | None]:
    """Return what goes out, and how it is kept where that is not what came in."""
    request = again.request
    if again.as_it_was and request.sent is not None:
        kept = request.sent
        return Dressed(kept.method, kept.target, headers_of(kept.head), kept.body), kept
    made = dress(
        again.route,
        method=request.method,
        target=request.target,
        headers=headers_of(request.head),
        body=request.body,
        values=values,
    )
    if not again.route.dresses:
        return made, None
    head = orjson.dumps(made.headers).decode()
    return made, SentAs(made.method, made.target, head, made.body)


def _proposal(house: House, again: Again, sent: SentAs | None) -> Proposal:
    effect, request, limits = again.effect, again.request, again.route.limits
    function = effect.scope.function
    attempt = Attempt(
        key=EffectKey(effect.destination, function, effect.unit, effect.key or ""),
        scope=effect.scope,
        term=again.leader.term,
        holder=again.leader.holder,
        fingerprint=Fingerprint(effect.fp_version, effect.fp_raw, effect.fp_canonical),
        covers=effect.covers,
        rules=again.function.rules,
        max_attempts=limits.max_attempts,
        item=effect.item,
        resend=True,
    )
    return Proposal(
        effect_id=new_effect_id(house.ledger.clock.now_ms()),
        attempt=attempt,
        destination=effect.destination,
        covers=effect.covers,
        principal=RECONCILER,
        method=request.method,
        target=request.target,
        policy_digest=effect.policy_digest,
        timeout_ms=limits.timeout_ms,
        settle_ms=limits.settle_ms,
        item=effect.item,
        request_head=request.head,
        request_body=request.body,
        request_file=request.file,
        route=route_mark(again.route),
        sent=sent,
    )


def _not_admitted(ruling: Ruling) -> NotSent:
    match ruling.decision:
        case Wait():
            return NotSent("predecessor-in-flight")
        case Refuse(reason):
            closed = reason.value in ("unit-closed", "unit-unknown", "attempts-exhausted")
            return NotSent(reason.value, for_good=closed)
        case _:
            return NotSent("settled-meanwhile")


async def _send(
    house: House,
    again: Again,
    ruling: Ruling,
    made: Dressed,
    values: RequestValues,
    began_s: float,
) -> Outcome | NotSent:
    limits, login = again.route.limits, login_header(again.destination.login)
    file = again.request.file
    body: bytes | Path | None = made.body
    if file is not None and body is None:
        body = house.spool.path_of(file)
    outgoing = Outgoing(
        method=made.method,
        target=made.target,
        headers=[*_headers(again, made), login] if login else _headers(again, made),
        deadline_s=began_s + limits.timeout_ms / 1000,
        body=body,
        send_by_s=again.decided_s + limits.connect_ms / 1000 + SEND_SLACK_S,
    )
    settlement: Settlement | None = None
    try:
        settlement = await _exchange(house, again, ruling, outgoing, values)
    finally:
        if settlement is None:  # broken inside the gateway, or cancelled
            outcome = Outcome.UNKNOWN if outgoing.sent else Outcome.NO_EFFECT
            settlement = Settlement(
                effect_id=ruling.effect_id, n=ruling.n or 1, outcome=outcome,
                reason="gateway-failure",
            )  # fmt: skip
        try:
            await house.ledger.settle(settlement)
        except LedgerUnavailable as error:
            # The intent stands: past its deadline it is unknown, and is looked at again.
            house.log.error(
                "outcome-not-written", effect_id=ruling.effect_id, error=str(error),
                outcome=settlement.outcome.value,
            )  # fmt: skip
    return settlement.outcome


def _headers(again: Again, made: Dressed) -> list[tuple[str, str]]:
    """Return the fields to send. Where the policy reads the answer, it must not be coded."""
    if not needs_body(again.route, again.destination):
        return made.headers
    kept = [field for field in made.headers if field[0].lower() != "accept-encoding"]
    return [*kept, ("Accept-Encoding", "identity")]


async def _exchange(
    house: House, again: Again, ruling: Ruling, outgoing: Outgoing, values: RequestValues
) -> Settlement:
    destination, route = again.destination, again.route
    got = await house.outbound.send_once(destination, outgoing)
    if isinstance(got, Silence):
        meaning = classify(got, route, destination, values)
        return _settlement(again, ruling, meaning, None, None)
    body = b"" if got.is_stream else await got.read(ANSWER_MAX_BYTES)
    reply = Reply(got.status, got.facts_headers, keep.json_of(got, body))
    meaning = classify(reply, route, destination, values, tried_before=ruling.tried_before)
    note_key(house, destination, route, meaning)
    if meaning.alarm:
        house.log.error("alarm", effect_id=ruling.effect_id, rule=meaning.reason)
    evidence = b""
    if meaning.outcome is Outcome.UNKNOWN:
        evidence = keep.excerpt(got, body, destination.login)
    kept = keep.kept_answer(got, body, meaning, house.replay_body_max_bytes, evidence)
    if kept is not None:
        kept = keep.without_credential(kept, destination.login)
    got.abort()
    return _settlement(again, ruling, meaning, got.status, kept)


def note_key(house: House, destination: Destination, route: Route, meaning: Meaning) -> None:
    """Remember whether the destination says that it knows native keys, where it is asked."""
    if meaning.key_supported is not None:
        house.keys_known[destination.name, route_mark(route)] = meaning.key_supported


def _settlement(
    again: Again, ruling: Ruling, meaning: Meaning, status: int | None, kept: StoredAnswer | None
) -> Settlement:
    by_key = again.route.guard is Guard.NATIVE_KEY and meaning.outcome is Outcome.CONFIRMED
    return Settlement(
        effect_id=ruling.effect_id,
        n=ruling.n or 1,
        outcome=meaning.outcome,
        reason=meaning.reason,
        status=status,
        answer=kept,
        resource=keep.taken(meaning.take, again.destination.login),
        by=ResolvedBy.NATIVE_REPLAY if by_key else ResolvedBy.ANSWER,
        # Under one key it happens once: a success speaks for whichever attempt it was.
        for_all=meaning.replayed or by_key,
    )
