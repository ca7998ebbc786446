"""The ways in which the sandbox can be told to misbehave.

A fault is one word, `name` or `name:argument`. It decides three things: whether the request has
its effect, when, and what the peer gets to see of it. `KNOWN` is the whole vocabulary.

Where a fault comes from, first match wins: the request's own `X-Sandbox-Fault` header, the
script (queued for the next matching requests), chaos (drawn by weight, for writes only).
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from aiohttp import web

from gateway.sandbox.journal import ring
from gateway.sandbox.records import Answer, error

Json = dict[str, Any]

KNOWN = {
    "delay:500ms": "wait, then effect and answer",
    "delay-after:500ms": "effect, then wait, then answer",
    "500-before": "any 5xx, no effect; 503-before:2s adds Retry-After",
    "500-after": "any 5xx, although the effect happened",
    "close-before": "no effect, close without an answer",
    "close-after": "effect, close without an answer",
    "reset-after": "effect, then a TCP reset",
    "truncate": "effect, full Content-Length, half a body, close",
    "429": "no effect, Retry-After of 1 s; 429:2s names another",
    "422": "no effect",
    "401": "no effect",
    "drip:100ms": "effect, the answer in pieces with a wait between them",
    "garbage": "effect, then bytes that are no HTTP",
    "hang": "effect, no answer until the peer leaves",
    "sse": "effect, answered as text/event-stream",
    "hold:NAME": "wait for release of NAME, then effect and answer",
    "hold-after:NAME": "effect, wait for release of NAME, then answer",
}
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PIECES = 4
PEER_CHECK_S = 0.05

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0}
_PLAIN = frozenset(
    {"close-before", "close-after", "reset-after", "truncate", "garbage", "hang", "sse"}
)
_TIMED = frozenset({"delay", "delay-after", "drip"})
_NAMED = frozenset({"hold", "hold-after"})


class BadFault(ValueError):
    """A fault, a script or a chaos setting that the sandbox cannot follow."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A parsed fault word. `name` is the key into the table of acts below."""

    word: str
    name: str
    status: int = 0
    pause_s: float = 0.0
    hold: str = ""


def parse_duration(text: str) -> float:
    """Parse `500ms`, `2s` or `5m` into seconds."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise BadFault(f"{text!r} is not a duration like 500ms, 2s or 5m")
    return float(found[1]) * _UNIT_S[found[2]]


def parse_fault(word: str) -> Fault:
    """Parse one fault word.

    Raises:
        BadFault: naming the word and listing those known.
    """
    name, colon, argument = word.strip().partition(":")
    if name in _PLAIN and not colon:
        return Fault(word, name)
    if name in _TIMED and colon:
        return Fault(word, name, pause_s=parse_duration(argument))
    if name in _NAMED and argument:
        return Fault(word, name, hold=argument)
    if name in {"401", "422"} and not colon:
        return Fault(word, "refuse", status=int(name))
    if name == "429":
        return Fault(word, "refuse", status=429, pause_s=parse_duration(argument or "1s"))
    if found := re.fullmatch(r"(5\d\d)-(before|after)", name):
        before = found[2] == "before"
        if before or not colon:
            pause_s = parse_duration(argument) if colon else 0.0
            kind = "refuse" if before else "status-after"
            return Fault(word, kind, status=int(found[1]), pause_s=pause_s)
    raise BadFault(f"unknown fault {word!r}; known are: {', '.join(KNOWN)}")


class Holds:
    """Requests that wait for somebody to call their name."""

    def __init__(self) -> None:
        self.bell = asyncio.Event()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    async def wait(self, name: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(turn)
        ring(self.bell)
        await turn

    def release(self, name: str) -> int:
        """Let go of those that wait under `name` now, and say how many; later ones wait again."""
        turns = [turn for turn in self._waiting.pop(name, []) if not turn.done()]
        for turn in turns:
            turn.set_result(None)
        return len(turns)

    def waiting(self) -> dict[str, int]:
        return {name: len(turns) for name, turns in self._waiting.items()}


@dataclass(slots=True)
class Scripted:
    """A fault queued for the next `times` requests that match."""

    match: dict[str, str]
    fault: Fault
    times: int

    def fits(self, method: str, path: str, intent: str | None) -> bool:
        return (
            self.match.get("method", method) == method
            and path.startswith(self.match.get("path_prefix", ""))
            and self.match.get("intent", intent) == intent
        )


@dataclass(slots=True)
class Chaos:
    """Faults drawn by weight; the same seed gives the same draws in order of arrival."""

    seed: int
    weights: dict[str, float]
    faults: list[Fault | None] = field(init=False)
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.faults = [None if word == "ok" else parse_fault(word) for word in self.weights]
        self.dice = random.Random(self.seed)

    def draw(self) -> Fault | None:
        return self.dice.choices(self.faults, weights=list(self.weights.values()))[0]


class Script:
    """What is queued and what is left to chance."""

    def __init__(self) -> None:
        self.queued: list[Scripted] = []
        self.chaos: Chaos | None = None

    def choose(self, header: str | None, method: str, path: str, intent: str | None) -> Fault | None:
        """Choose the fault of one request, using up a queued one.

        Raises:
            BadFault: the header names none that is known.
        """
        if header is not None:
            return parse_fault(header)
        for one in self.queued:
            if one.fits(method, path, intent):
                one.times -= 1
                if one.times == 0:
                    self.queued.remove(one)
                return one.fault
        if self.chaos is not None and method in WRITES:
            return self.chaos.draw()
        return None

    def clear(self) -> None:
        self.queued.clear()
        self.chaos = None

    def to_json(self) -> Json:
        chaos = self.chaos
        return {
            "faults": [
                {"match": one.match, "fault": one.fault.word, "times": one.times}
                for one in self.queued
            ],
            "chaos": None if chaos is None else {"seed": chaos.seed, "weights": chaos.weights},
        }


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
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    if answer.body:
        response.content_length = len(answer.body)
    await response.prepare(exchange.request)
    step = max(1, math.ceil(len(answer.body) / PIECES))
    for start in range(0, len(answer.body), step):
        await asyncio.sleep(fault.pause_s if start else 0.0)
        await response.write(answer.body[start : start + step])
    await response.write_eof()
    return response


async def _hang(fault: Fault, exchange: Exchange) -> web.StreamResponse:
    exchange.apply()
    while exchange.request.transport is not None:  # aiohttp tells nobody when a peer leaves
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
