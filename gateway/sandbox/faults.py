"""The ways in which the sandbox can be told to misbehave.

A fault is one word, `name` or `name:argument`. It decides three things: whether the request has
its effect, when, and what the peer gets to see of it. `KNOWN` is the whole vocabulary; acts.py
carries it out.

Where a fault comes from, first match wins: the request's own `X-Sandbox-Fault` header, the
script (queued for the next matching requests), chaos (drawn by weight, for writes only).
"""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass, field
from typing import Any

from gateway.sandbox.journal import ring

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
    """A parsed fault word. `name` is the key into the table in acts.py."""

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
    try:
        fault = _parse(word)
    except BadFault as wrong:
        raise BadFault(f"unknown fault {word!r}: {wrong}; known are: {', '.join(KNOWN)}") from wrong
    return fault


def _parse(word: str) -> Fault:
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
    raise BadFault("there is no such word")


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

    def choose(
        self, header: str | None, method: str, path: str, intent: str | None
    ) -> Fault | None:
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
