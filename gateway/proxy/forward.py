"""Carrying a write: slot, admission, one send, classification, settlement.

Runs in a task of its own. From the moment that an admission is asked for, nobody's leaving or
hurry can stop it: an intent is always followed by its send, and a send by its record.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, assert_never

from gateway.core.classify import Meaning, Reply, Silence, classify, needs_body
from gateway.core.effect import Outcome
from gateway.core.errors import LedgerUnavailable
from gateway.core.fence import Admit, Refusal, Refuse, Replay, Wait
from gateway.core.ids import new_effect_id
from gateway.core.match import Match
from gateway.core.policy import Does, Limits, Mode, Route
from gateway.core.template import RequestValues
from gateway.outbound.exchange import Outgoing
from gateway.outbound.incoming import Incoming
from gateway.proxy import keep, respond
from gateway.proxy.answer import Answer
from gateway.proxy.call import Call
from gateway.proxy.exhausted import open_exhausted
from gateway.proxy.house import House
from gateway.proxy.resend import note_key
from gateway.proxy.slots import Slot
from gateway.proxy.unsettled import route_mark
from gateway.proxy.writing import write_outcome
from gateway.store.records import Proposal, Ruling, SentAs, Settled, Settlement, StoredAnswer
from gateway.web.errors import incident
from gateway.wire.headers import FENCE_VERDICT, PREFERENCE_APPLIED
from gateway.wire.problem import EffectWord

SEND_SLACK_S: Final = 1.0
"""How long after admission, beyond dialling, the first byte may still leave."""
JSON_MAX_BYTES: Final = 1024 * 1024
PATIENCE_S: Final = 1.0
"""How long an answer of unknown length is awaited whole before it is relayed as it comes."""
LOOK_AGAIN_S: Final = 1.0
_UNWATCHED_ROUTE: Final = Route(name="(none)", match=Match("", frozenset(), ()), does=Does.WRITE)


class Forwarder:
    """Carries writes to their destinations, each at most once."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def carry(self, call: Call) -> Answer:
        """Carry one write as far as the fence lets it, and return what to tell the caller."""
        house = self._house
        limits = _limits(call)
        proposal = self._proposal(call, limits)
        began_s = house.clock.boot_s()
        wait_s = call.fence.wait_s
        barrier_until_s = began_s + (limits.barrier_wait_ms / 1000 if wait_s is None else wait_s)
        share_until_s = began_s + (wait_s or 0)
        while True:
            slot = await house.slots(call.destination).take(limits.barrier_wait_ms / 1000)
            if slot is None:
                return respond.problem("busy", facts={"at_once": limits.at_once})
            with slot:
                if house.state.draining:
                    return respond.problem("draining")
                if not self._judged_now(call):
                    return _policy_changed()
                began_s = house.clock.boot_s()
                try:
                    ruling = await house.ledger.admit(proposal)
                except LedgerUnavailable as error:
                    house.log.error("ledger-unavailable", error=str(error), at="admission")
                    return respond.problem("ledger-unavailable", facts={"reason": str(error)})
                if ruling.decision is not None and ruling.decision.raises_term:
                    house.metrics.terms_raised.inc()
                if ruling.n is not None:
                    return await self._admitted(call, ruling, limits, began_s, slot)
            answer = await self._not_admitted(
                call, ruling, proposal, barrier_until_s, share_until_s
            )
            if answer is not None:
                return answer
            if isinstance(ruling.decision, Refuse):
                # It waits for another's result; should the key be free again, it never sends.
                proposal = proposal.without_claim()

    def _judged_now(self, call: Call) -> bool:
        """Whether the policies that the call was judged by are still those in force.

        Under another `covers` or scope an older write would hold nobody back.
        """
        policies = self._house.state.policies
        now = policies.destinations.get(call.destination.name)
        if now is None or now.digest != call.destination.digest:
            return False
        if call.function is None:
            return True
        function = policies.functions.get(call.function.name)
        return function is not None and function.digest == call.function.digest

    def _proposal(self, call: Call, limits: Limits) -> Proposal:
        body = call.body if keep.keeps_request(call) else None
        made = call.dressed
        sent = None
        if made is not None and keep.keeps_request(call):
            sent = SentAs(made.method, made.target, keep.kept_head(call, made.headers), made.body)
        return Proposal(
            effect_id=new_effect_id(self._house.ledger.clock.now_ms()),
            attempt=call.attempt,
            destination=call.destination.name,
            covers=call.covers,
            principal=call.principal.name,
            method=call.method,
            target=call.target.text,
            policy_digest=call.destination.digest,
            timeout_ms=limits.timeout_ms,
            settle_ms=limits.settle_ms,
            item=call.fence.item,
            request_head=keep.kept_head(call, call.headers) if keep.keeps_request(call) else None,
            request_body=body.data if body and body.file is None else None,
            request_file=body.file.name if body and body.file else None,
            observe=call.destination.mode is Mode.OBSERVE,
            observed_reason=call.observed,
            route=route_mark(call.route) if call.route else None,
            sent=sent,
        )

    # -- not admitted

    async def _not_admitted(
        self,
        call: Call,
        ruling: Ruling,
        proposal: Proposal,
        barrier_until_s: float,
        share_until_s: float,
    ) -> Answer | None:
        """Return the answer, or None to ask the ledger again after having waited."""
        now_s = self._house.clock.boot_s()
        match ruling.decision:
            case Replay(effect_id):
                return respond.replayed(ruling, effect_id)
            case Wait(predecessor):
                left_s = barrier_until_s - now_s
                if left_s <= 0:
                    return respond.predecessor_in_flight(
                        ruling, predecessor.effect_id, predecessor.seal_at_ms
                    )
                sealed_s = (predecessor.seal_at_ms - ruling.now_ms) / 1000 + 0.001
                await self._house.inflight.wait(
                    predecessor.effect_id, min(left_s, max(sealed_s, 0.001), LOOK_AGAIN_S)
                )
                return None
            case Refuse(Refusal.IN_FLIGHT, _, prior) if prior and now_s < share_until_s:
                shared = await self._house.inflight.wait(
                    prior.effect_id, min(share_until_s - now_s, LOOK_AGAIN_S)
                )
                return None if shared is None else await self._share(call, proposal, shared)
            case Refuse() as refusal:
                if refusal.reason is Refusal.ATTEMPTS_EXHAUSTED:
                    await open_exhausted(self._house, call, refusal.prior)
                if ruling.held is not None:
                    self._house.metrics.became_unknown(call.destination.name)
                    self._house.unsettled.set()
                return respond.refused(ruling, refusal, call.attempt.term if call.attempt else 0)
            case Admit() | None:  # no intent was asked for: it is the caller's to ask again
                return respond.problem("in-flight", effect="none")
            case never:
                assert_never(never)

    async def _share(self, call: Call, proposal: Proposal, shared: Answer) -> Answer | None:
        """Give a waiter the result it waited for, if it may still have it.

        It is decided again, so that a term that grew stale meanwhile gets no replay; but
        without the right to send: whoever waits for a result has not asked to cause another.
        """
        try:
            ruling = await self._house.ledger.admit(proposal.without_claim())
        except LedgerUnavailable:
            return None
        if not isinstance(ruling.decision, Admit):
            return await self._not_admitted(call, ruling, proposal, 0, 0)
        answer = Answer(shared.status, shared.headers, shared.body, decision="replayed")
        answer.outcome, answer.effect_id = shared.outcome, shared.effect_id
        kept = [field for field in shared.extra if field[0] != FENCE_VERDICT]
        answer.extra += [*kept, (FENCE_VERDICT, "replayed")]
        answer.extra.append((PREFERENCE_APPLIED, f"wait={call.fence.wait_s}"))
        return answer

    # -- admitted

    async def _admitted(
        self, call: Call, ruling: Ruling, limits: Limits, began_s: float, slot: Slot
    ) -> Answer:
        """Send what was admitted, and record what came of it whatever happens."""
        house = self._house
        n = ruling.n or 1
        made = call.dressed
        body = call.body.content if call.body else None
        outgoing = Outgoing(
            method=made.method if made else call.method,
            target=made.target if made else call.target.text,
            headers=_headers_out(call),
            deadline_s=began_s + limits.timeout_ms / 1000,
            body=made.body if made and not isinstance(body, Path) else body,
            send_by_s=began_s + limits.connect_ms / 1000 + SEND_SLACK_S,
        )
        answer: Answer | None = None
        house.inflight.began(ruling.effect_id, n)
        try:
            if not self._judged_now(call):  # changed between the question and its answer
                meaning = Meaning(Outcome.NO_EFFECT, "policy-changed")
                after = await self._settle(ruling, n, meaning, None, None)
                answer = _policy_changed()
                respond.settled(
                    answer, ruling.effect_id, n, Outcome.NO_EFFECT, after, ruling.highest_term
                )
                return answer
            answer = await self._exchange(call, ruling, n, outgoing, slot)
        except Exception as error:  # nothing unforeseen may leave an intent without its record
            answer = await self._failed(ruling, n, outgoing, error)
        except asyncio.CancelledError:
            # Only a gateway that gives up cancels this task, having recorded the attempt as
            # unknown; all that is left to do is to say so.
            answer = respond.gave_up(ruling.effect_id, n)
        finally:
            shareable = answer is not None and answer.shareable
            house.inflight.ended(ruling.effect_id, answer if shareable else None)
        if ruling.observed is not None:
            answer.decision, answer.reason = "would-refuse", ruling.observed
            answer.extra = [field for field in answer.extra if field[0] != FENCE_VERDICT]
            answer.extra.append((FENCE_VERDICT, f"would-refuse; reason={ruling.observed}"))
        else:
            for name, _ in answer.extra:
                if name == FENCE_VERDICT:
                    break
            else:
                answer.extra.append((FENCE_VERDICT, "forwarded"))
        return answer

    async def _exchange(
        self, call: Call, ruling: Ruling, n: int, outgoing: Outgoing, slot: Slot
    ) -> Answer:
        house = self._house
        sent_s = house.clock.boot_s()
        got = await house.outbound.send_once(call.destination, outgoing)
        route = call.route or _UNWATCHED_ROUTE
        values = call.values or RequestValues(parts=call.parts)
        if isinstance(got, Silence):
            meaning = classify(got, route, call.destination, values)
            after = await self._settle(ruling, n, meaning, None, None)
            answer = keep.silent(ruling, got)
        else:
            body = await self._capture(got, route, call)
            reply = Reply(got.status, got.facts_headers, keep.json_of(got, body))
            meaning = classify(
                reply, route, call.destination, values, tried_before=ruling.tried_before
            )
            note_key(house, call.destination, route, meaning)
            evidence = b""
            if meaning.outcome is Outcome.UNKNOWN:
                evidence = keep.excerpt(got, body, call.destination.login)
            if meaning.take:
                meaning.take = keep.taken(meaning.take, call.destination.login)
            kept = keep.kept_answer(got, body, meaning, house.replay_body_max_bytes, evidence)
            if kept is not None:
                kept = keep.without_credential(kept, call.destination.login)
            after = await self._settle(ruling, n, meaning, got.status, kept)
            answer = keep.answered(ruling, n, got, body, meaning, evidence)
            if answer.rest is not None:
                slot.release()
        if meaning.alarm:
            house.log.error("alarm", effect_id=ruling.effect_id, rule=meaning.reason)
        answer.destination_s = house.clock.boot_s() - sent_s
        if meaning.outcome is Outcome.UNKNOWN:
            house.metrics.became_unknown(call.destination.name)
            house.unsettled.set()
        outcome = after.outcome if after and after.outcome else meaning.outcome
        respond.settled(answer, ruling.effect_id, n, outcome, after, ruling.highest_term)
        needed = meaning.outcome is Outcome.UNKNOWN and keep.keeps_request(call)
        if call.body is not None and not needed:
            call.body.discard()
        return answer

    async def _capture(self, got: Incoming, route: Route, call: Call) -> bytes:
        """Read the answer's body as far as it is worth keeping.

        What is a stream by nature, too long to keep, or slow without a known length, is
        relayed as it comes: its outcome is decided by the head.
        """
        cap = self._house.replay_body_max_bytes
        must_read = needs_body(route, call.destination)
        if must_read:
            cap = max(cap, JSON_MAX_BYTES)
        length = got.length_bytes
        limits = _limits(call)
        if got.is_stream or (length is not None and length > cap):
            body = b""
        else:
            patient = must_read or length is not None
            body = await got.read(cap, None if patient else PATIENCE_S)
        if not got.ended:
            got.stream(limits.timeout_ms / 1000)
        return body

    async def _failed(self, ruling: Ruling, n: int, outgoing: Outgoing, error: Exception) -> Answer:
        """Record an attempt that broke inside the gateway: unknown once a byte may have left."""
        outcome = Outcome.UNKNOWN if outgoing.sent else Outcome.NO_EFFECT
        meaning = Meaning(outcome, "gateway-failure")
        effect: EffectWord = "unknown" if outgoing.sent else "none"
        rendered = incident(error, self._house.log, effect=effect, effect_id=ruling.effect_id)
        after = await self._settle(ruling, n, meaning, None, None)
        answer = Answer(rendered.status, rendered.headers, rendered.body, decision="forwarded")
        answer.reason = "internal"
        answer.extra.append((FENCE_VERDICT, "forwarded; reason=internal"))
        respond.settled(answer, ruling.effect_id, n, outcome, after, ruling.highest_term)
        return answer

    async def _settle(
        self,
        ruling: Ruling,
        n: int,
        meaning: Meaning,
        status: int | None,
        kept: StoredAnswer | None,
    ) -> Settled | None:
        """Record the outcome; None if the ledger cannot take it now, and is asked on and on."""
        settlement = Settlement(
            effect_id=ruling.effect_id,
            n=n,
            outcome=meaning.outcome,
            reason=meaning.reason,
            status=status,
            answer=kept,
            resource=meaning.take,
            for_all=meaning.replayed,
        )
        return await write_outcome(self._house, settlement)


def _policy_changed() -> Answer:
    return respond.problem(
        "busy",
        detail="Nothing was sent: the policy was changed while the request was on its way. Send "
        "it again with the same key.",
        facts={"reason": "policy-changed"},
    )


def _limits(call: Call) -> Limits:
    return call.route.limits if call.route else call.destination.limits


def _headers_out(call: Call) -> list[tuple[str, str]]:
    """Return the fields to send. Where the policy reads the answer, it must not be coded."""
    headers = call.headers if call.dressed is None else call.dressed.headers
    if call.route is None or not needs_body(call.route, call.destination):
        return headers
    kept = [field for field in headers if field[0].lower() != "accept-encoding"]
    return [*kept, ("Accept-Encoding", "identity")]
