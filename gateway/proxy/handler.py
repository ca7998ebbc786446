"""The data plane's front: the order of the steps is written here, and only here."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gateway.core.classify import Silence
from gateway.core.errors import LedgerUnavailable, Malformed
from gateway.core.ids import new_request_id
from gateway.core.policy import Mode
from gateway.outbound.exchange import Outgoing
from gateway.proxy import intake, respond
from gateway.proxy.answer import Answer
from gateway.proxy.body import Body, BodyTooLarge
from gateway.proxy.call import Call
from gateway.proxy.forward import Forwarder
from gateway.proxy.house import House
from gateway.proxy.relay import Relay
from gateway.proxy.target import parse_target
from gateway.web.errors import TurnedAway, incident
from gateway.wire.headers import FENCE_REQUEST_ID, FENCE_VERDICT

SMALL_READ_BYTES: Final = 64 * 1024
ALLOWED: Final = "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"


class DataPlane:
    """Carries requests under /d/ through the house."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._forwarder = Forwarder(house)
        self._relay = Relay(house)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request under /d/."""
        began_s = time.perf_counter()
        request_id = new_request_id()
        begun: Call | None = None
        call: Call | None = None
        try:
            begun = self._take_in(request)
            await self._complete(request, begun)
            call = begun
            request_id = call.fence.request_id or request_id
            if call.is_read or intake.read_without_policy(call):
                answer = await self._read(call)
                self._tell(call, answer, request_id, began_s)
            else:
                told: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
                self._house.tasks.launch(self._write(call, request_id, began_s, told), "write")
                answer = await told  # a caller that leaves cancels this, never the work
        except TurnedAway as turned:
            request_id = (begun.fence.request_id if begun else None) or request_id
            answer = respond.problem(turned.slug, detail=turned.detail, facts=dict(turned.facts))
            if turned.slug == "method-unsupported":
                answer.extra.append(("Allow", ALLOWED))
            self._turned_away(request, begun, answer, request_id, began_s)
        except (
            ConnectionResetError, TimeoutError, web.RequestPayloadError, HttpProcessingError
        ):  # fmt: skip
            # The caller broke off its own upload, stalled in it or damaged it; nothing was sent.
            answer = respond.problem(
                "malformed", detail="The request's body ended too early, or its framing is broken."
            )
            self._turned_away(request, call, answer, request_id, began_s)
        except Exception as error:  # nothing unforeseen becomes a bare 500
            rendered = incident(error, self._house.log, request_id=request_id)
            answer = Answer(rendered.status, rendered.headers, rendered.body, reason="internal")
        answer.extra.append((FENCE_REQUEST_ID, request_id))
        return await self._relay.write(request, answer)

    def _take_in(self, request: web.BaseRequest) -> Call:
        """Check what the head alone says: target, caller, header syntax."""
        house = self._house
        policies = house.state.policies
        intake.check_line(request)
        try:
            target = parse_target(request.raw_path)
        except Malformed as error:
            raise TurnedAway("bad-target", str(error)) from None
        destination = policies.destinations.get(target.destination)
        if destination is None:
            raise TurnedAway(
                "destination-unknown",
                f"No policy describes a destination {target.destination!r}; see /v1/destinations.",
            )
        now_ms = house.clock.wall_ms()
        try:
            principal = house.authenticator.authenticate(request.raw_headers, now_ms)
        except Malformed as error:
            raise TurnedAway("malformed", str(error)) from None
        if principal is None:
            why = house.authenticator.why_not(request.raw_headers, now_ms)
            raise TurnedAway("unauthenticated", why)
        return intake.begin(request, target, destination, principal)

    async def _complete(self, request: web.BaseRequest, call: Call) -> None:
        """Find the route, check the rights to it, read the body, make the fence's question."""
        house = self._house
        policies = house.state.policies
        intake.choose_early(call, policies)
        if house.state.draining and not call.is_read:
            raise TurnedAway("draining")
        if call.fence.early_data and not call.is_read:
            raise TurnedAway("early-data")
        body = house.spool.at_hand(request, call.limit_bytes)
        call.body = body if body is not None else await self._body(request, call)
        try:
            intake.choose_late(call, policies)
            intake.finish(call, house.now_s)
        except BaseException:
            call.body.discard()
            raise

    async def _body(self, request: web.BaseRequest, call: Call) -> Body:
        limit = call.limit_bytes
        try:
            return await self._house.spool.read(request, limit, partial(_send_continue, request))
        except BodyTooLarge:
            raise TurnedAway(
                "body-too-large",
                f"The body is larger than {limit} bytes, the most that "
                f"{call.destination.name!r} takes.",
                limit_bytes=limit,
            ) from None
        except LedgerUnavailable as error:
            self._house.log.error("body-not-kept", error=str(error))
            raise TurnedAway("ledger-unavailable", None, reason=str(error)) from None

    async def _write(
        self, call: Call, request_id: str, began_s: float, told: asyncio.Future[Answer]
    ) -> None:
        """The work on a write; goes on when the caller has left and `told` is cancelled."""
        try:
            answer = await self._forwarder.carry(call)
            if answer.attempt is None and call.body is not None:
                call.body.discard()
            self._tell(call, answer, request_id, began_s)
        except BaseException as error:
            if told.done() or isinstance(error, asyncio.CancelledError):
                told.cancel()
                raise
            told.set_exception(error)
        else:
            if told.done():
                self._relay.nobody_waits(answer)
            else:
                told.set_result(answer)

    async def _read(self, call: Call) -> Answer:
        """Forward a read: no ledger, no fence, and no second try either."""
        house = self._house
        limits = (call.route or call.destination).limits
        slot = await house.slots(call.destination).take(limits.barrier_wait_ms / 1000)
        if slot is None:
            return respond.problem("busy", facts={"at_once": limits.at_once})
        keep = False
        began_s = house.clock.boot_s()
        outgoing = Outgoing(
            method=call.method,
            target=call.target.text,
            headers=call.headers,
            deadline_s=began_s + limits.timeout_ms / 1000,
            body=call.body.content if call.body else None,
        )
        try:
            got = await house.outbound.send_once(call.destination, outgoing)
            if isinstance(got, Silence):
                answer = respond.unanswered_read(got)
            else:
                length = got.length_bytes
                small = length is not None and length <= SMALL_READ_BYTES
                body = await got.read(SMALL_READ_BYTES) if small and not got.is_stream else b""
                if not got.ended:
                    got.stream(limits.timeout_ms / 1000)
                answer = respond.relayed(got, body)
                answer.extra.append((FENCE_VERDICT, _verdict(call)))
                keep = answer.rest is not None and not got.is_stream
                answer.release = slot.release if keep else None
        finally:
            if call.body is not None:
                call.body.discard()
            if not keep:
                slot.release()
        answer.destination_s = house.clock.boot_s() - began_s
        return answer

    def _tell(self, call: Call, answer: Answer, request_id: str, began_s: float) -> None:
        """Count and log the one decision on a request."""
        total_s = time.perf_counter() - began_s
        overhead_s = max(total_s - (answer.destination_s or 0.0), 0.0)
        house = self._house
        house.metrics.request_done(
            call.destination.name, answer.decision, answer.outcome, overhead_s, answer.destination_s
        )
        if answer.decision == "replayed":
            house.metrics.replayed(call.destination.name)
        elif answer.decision == "refused" and answer.reason is not None:
            house.metrics.refused(answer.reason)
        fence = call.fence
        house.decisions.line(
            request_id=request_id,
            method=call.method,
            target=call.target.path,
            decision=answer.decision,
            status=answer.status,
            total_ms=total_s * 1000,
            overhead_ms=overhead_s * 1000,
            principal=call.principal.name,
            destination=call.destination.name,
            route=call.route.name if call.route else None,
            function=fence.function,
            unit=fence.unit,
            item=fence.item,
            term=fence.term,
            holder=fence.holder,
            key=fence.key,
            reason=answer.reason,
            outcome=answer.outcome,
            effect_id=answer.effect_id,
            attempt=answer.attempt,
            destination_status=answer.destination_status,
        )

    def _turned_away(
        self,
        request: web.BaseRequest,
        call: Call | None,
        answer: Answer,
        request_id: str,
        began_s: float,
    ) -> None:
        if call is not None:
            self._tell(call, answer, request_id, began_s)
            return
        house = self._house
        total_s = time.perf_counter() - began_s
        house.metrics.refused(answer.reason or "")
        house.decisions.line(
            request_id=request_id,
            method=request.method,
            target=request.raw_path[:200],
            decision="refused",
            status=answer.status,
            total_ms=total_s * 1000,
            reason=answer.reason,
        )


def _verdict(call: Call) -> str:
    watched = call.destination.mode is Mode.OBSERVE and call.observed is not None
    return f"would-refuse; reason={call.observed}" if watched else "forwarded"


def _send_continue(request: web.BaseRequest) -> None:
    """Ask for the body, now that everything but the body has been checked."""
    if "Expect" in request.headers and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
