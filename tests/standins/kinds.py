"""Destinations of six kinds, as each behaves when a request comes twice or an answer is lost.

What becomes of a case's next writes stands in `fates`: `answer` or `request` lost, `failed` (a 500
with nothing done), nothing at all. `sent` counts what arrived, `done` what really happened.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.raw_destination import Received, Wire, answer, fin


class Said(NamedTuple):
    status: int
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Kind:
    """What all have in common: counting, and losing what they are told to lose."""

    fates: dict[str, list[str]] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)

    async def __call__(self, request: Received, wire: Wire) -> None:
        if request.method == "GET":
            await self._say(self.look(request), request, wire)
            return
        case = json.loads(request.body)["case"]
        self.sent[case] += 1
        fate = self.fates[case].pop(0) if self.fates.get(case) else ""
        if fate == "request":
            await fin(request, wire)
            return
        if fate == "failed":
            await self._say(Said(500), request, wire)
            return
        said = self.write(case, request)
        if fate == "answer":
            await fin(request, wire)
        else:
            await self._say(said, request, wire)

    async def _say(self, said: Said, request: Received, wire: Wire) -> None:
        body = json.dumps(said.body or {}).encode()
        fields = [("Content-Type", "application/json"), *said.headers]
        await answer(said.status, body, fields)(request, wire)

    def write(self, case: str, request: Received) -> Said:
        raise NotImplementedError

    def look(self, request: Received) -> Said:
        return Said(404)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Keyed(Kind):
    """Knows native keys for a while, and keeps the answers of what succeeded only."""

    window_s: float = 60.0
    known: dict[str, tuple[bytes, Said, float]] = field(default_factory=dict)

    def write(self, case: str, request: Received) -> Said:
        key = request.header("Idempotency-Key") or ""
        body, said, until_s = self.known.get(key, (b"", Said(0), 0.0))
        if key and _now_s() < until_s:
            if body != request.body:
                return Said(422, {"error": "this key is of another request"})
            return said._replace(headers=(("Idempotent-Replayed", "true"),))
        self.done[case] += 1
        said = Said(201, {"id": f"{case}-{self.done[case]}"})
        self.known[key] = (request.body, said, _now_s() + self.window_s)
        return said


@dataclass
class Forgetful(Keyed):
    """Was given every key before, by somebody else and with another body."""

    def write(self, case: str, request: Received) -> Said:
        key = request.header("Idempotency-Key") or ""
        self.known.setdefault(key, (b"another", Said(201), _now_s() + self.window_s))
        return super().write(case, request)


@dataclass
class Unique(Kind):
    """Rejects a second record with the same mark."""

    marks: dict[str, str] = field(default_factory=dict)

    def write(self, case: str, request: Received) -> Said:
        mark = json.loads(request.body)["mark"]
        if mark in self.marks:
            return Said(409)
        self.marks[mark] = case
        self.done[case] += 1
        return Said(201)

    def look(self, request: Received) -> Said:
        mark = request.path.rpartition("/")[2]
        return Said(200, {"mark": mark}) if mark in self.marks else Said(404)


@dataclass
class Versioned(Kind):
    """Writes only under the version that a record has."""

    versions: Counter[str] = field(default_factory=Counter)

    def write(self, case: str, request: Received) -> Said:
        if request.header("If-Match") != f'"{self.versions[request.path]}"':
            return Said(412)
        self.versions[request.path] += 1
        self.done[case] += 1
        return Said(200, headers=(("ETag", f'"{self.versions[request.path]}"'),))


@dataclass
class Lagging(Kind):
    """Takes every write, and shows it in its search only after a while."""

    lag_s: float = 2.3
    items: list[tuple[str, float]] = field(default_factory=list)

    def write(self, case: str, request: Received) -> Said:
        self.items.append((json.loads(request.body)["mark"], _now_s() + self.lag_s))
        self.done[case] += 1
        return Said(201)

    def look(self, request: Received) -> Said:
        wanted = request.target.rpartition("=")[2]
        found = [mark for mark, at_s in self.items if mark == wanted and _now_s() >= at_s]
        return Said(200, {"results": [{"mark": mark} for mark in found], "total": len(found)})


@dataclass
class Mail(Kind):
    """Sends what it is given, each time, and can be asked nothing."""

    def write(self, case: str, request: Received) -> Said:
        self.done[case] += 1
        return Said(202)
