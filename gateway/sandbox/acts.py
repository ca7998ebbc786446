"""Carrying out a fault: one small act per word.

Each act decides by where it calls `apply` whether the effect comes before, after or not at all.
A handler is never cancelled because its peer left: a real server that has read a request goes on
with it, and so does this one.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from gateway.sandbox.faults import Fault, Holds
from gateway.sandbox.records import Answer, error

PIECES = 4
PEER_CHECK_S = 0.05


class Silence(web.Response):
    """No answer: aiohttp closes the connection as if the peer had left."""

    async def prepare(self, request: web.BaseRequest) -> None:
        raise ConnectionResetError("the sandbox hangs up")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request in hand: `apply` carries it out and gives the answer an honest CRM gives."""

    request: web.Request
    apply: Callable[[], Answer]
    holds: Holds


Act = Callable[[Fault, Exchange], Awaitable[web.StreamResponse]]


def respond(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


async def misbehave(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    """Carry out `exchange` the way `fault` says."""
    try:
        return await ACTS[fault.name](fault, exchange)
    except ConnectionError:  # the peer left while it was being answered; the effect stays
        return Silence()


async def _refuse(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    retry = {"Retry-After": str(math.ceil(fault.pause_s))} if fault.pause_s else {}
    refusal = error(fault.status, f"the sandbox was told to answer {fault.word}")
    return respond(refusal._replace(headers={**refusal.headers, **retry}))


async def _status_after(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    exchange.apply()
    return await _refuse(fault, exchange)


async def _delay(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    await asyncio.sleep(fault.pause_s)
    return respond(exchange.apply())


async def _delay_after(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    answer = exchange.apply()
    await asyncio.sleep(fault.pause_s)
    return respond(answer)


async def _hold(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    await exchange.holds.wait(fault.hold)
    return respond(exchange.apply())


async def _hold_after(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    answer = exchange.apply()
    await exchange.holds.wait(fault.hold)
    return respond(answer)


async def _close_before(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    return Silence()


async def _close_after(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    exchange.apply()
    return Silence()


async def _reset_after(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    exchange.apply()
    transport = exchange.request.transport
    if transport is not None:
        # Closing with a linger time of zero is what makes the kernel send RST, not FIN.
        peer = transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return Silence()


def _write_raw(exchange: Exchange, raw: bytes) -> web.StreamResponse:
    transport = exchange.request.transport
    if transport is not None:
        transport.write(raw)
    return Silence()  # which closes once these bytes are out


async def _truncate(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    answer = exchange.apply()
    names = {**answer.headers, "Content-Length": str(len(answer.body))}
    fields = "".join(f"{name}: {value}\r\n" for name, value in names.items())
    head = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{fields}\r\n".encode()
    if not answer.body:
        return _write_raw(exchange, head[: len(head) // 2])
    return _write_raw(exchange, head + answer.body[: len(answer.body) // 2])


async def _garbage(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    exchange.apply()
    return _write_raw(exchange, b"\x16\x03\x01\xff this is no HTTP \x00\xfe\r\n\r\n")


async def _drip(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    answer = exchange.apply()
    if not answer.body or exchange.request.method == "HEAD":
        return respond(answer)
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    response.content_length = len(answer.body)
    await response.prepare(exchange.request)
    step = math.ceil(len(answer.body) / PIECES)
    for start in range(0, len(answer.body), step):
        await asyncio.sleep(fault.pause_s if start else 0.0)
        await response.write(answer.body[start : start + step])
    await response.write_eof()
    return response


async def _hang(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    exchange.apply()
    while exchange.request.transport is not None:  # noqa: ASYNC110 - no event for its leaving
        await asyncio.sleep(PEER_CHECK_S)
    return Silence()


async def _sse(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    answer = exchange.apply()
    if answer.status >= 400 or exchange.request.method == "HEAD":
        return respond(answer)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(exchange.request)
    await response.write(b'event: started\ndata: {"progress": 0}\n\n')
    await response.write(b'event: working\ndata: {"progress": 50}\n\n')
    await response.write(b"event: result\ndata: " + (answer.body or b"null") + b"\n\n")
    await response.write_eof()
    return response


ACTS: dict[str, Act] = {
    "refuse": _refuse,
    "status-after": _status_after,
    "delay": _delay,
    "delay-after": _delay_after,
    "hold": _hold,
    "hold-after": _hold_after,
    "close-before": _close_before,
    "close-after": _close_after,
    "reset-after": _reset_after,
    "truncate": _truncate,
    "garbage": _garbage,
    "drip": _drip,
    "hang": _hang,
    "sse": _sse,
}
