"""A gateway on a real socket whose answers are scripted, and one whose leases are simple."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gateway.client.trust import Clock
from tests.client.hand_clock import HandClock

TTL_S = 20.0


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def verb(self) -> str:
        """`acquire`, `renew`, …; `look`, `report`, `withdraw`; `effect`."""
        if self.path.startswith("/d/"):
            return "effect"
        if self.path.startswith("/v1/candidates/"):
            return {"PUT": "report", "DELETE": "withdraw"}[self.method]
        return "look" if self.method == "GET" else self.path.rpartition("/")[2]


@dataclass
class Reply:
    """An answer to give; `raw` goes out as it stands."""

    status: int = 200
    content: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None

    def encoded(self) -> bytes:
        if self.raw is not None:
            return self.raw
        body = (
            self.content if isinstance(self.content, bytes) else json.dumps(self.content).encode()
        )
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [f"{name}: {value}" for name, value in (fields | self.headers).items()]
        head = f"HTTP/1.1 {self.status} As It Is\r\n" + "\r\n".join(lines) + "\r\n\r\n"
        return head.encode() + body


DROP = Reply(raw=b"")
Answerer = Callable[[Asked], Reply | Awaitable[Reply]]


def problem(slug: str, status: int, *, verdict: str | None = None, **members: Any) -> Reply:
    """Return a problem as the gateway tells it; on the data plane with its verdict."""
    content = {"type": f"/problems/{slug}", "title": slug, "status": status, "detail": "…"}
    headers = {"Content-Type": "application/problem+json"}
    if verdict is not None:
        headers["Fence-Verdict"] = f"{verdict}; reason={slug}"
    if "retry_after_s" in members:
        headers["Retry-After"] = str(members["retry_after_s"])
    return Reply(status, content | members, headers)


def forwarded(content: Any = None, status: int = 200, **headers: str) -> Reply:
    """Return a destination's answer as it comes through the gateway."""
    said = {"Fence-Verdict": "forwarded", "Fence-Outcome": "confirmed", "Fence-Effect": "e1"}
    return Reply(status, content, said | {n.replace("_", "-"): v for n, v in headers.items()})


class Script:
    """Answers what it is told to, in turn, by verb; what nothing was told for, by `usual`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or HandClock()
        self.asked: list[Asked] = []
        self.url = ""
        self._next: dict[str, deque[Reply | Answerer]] = {}
        self.holder: str | None = None
        self.term = 0
        self.version = 0
        self.expires_s = 0.0
        self.attempt_in_ms = 0
        self.changed = asyncio.Event()

    def then(self, verb: str, *answers: Reply | Answerer) -> None:
        """Answer the next requests of `verb` so."""
        self._next.setdefault(verb, deque()).extend(answers)

    def of(self, verb: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.verb == verb]

    async def answer(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        told = self._next.get(asked.verb)
        answer: Reply | Answerer = told.popleft() if told else self.usual
        if isinstance(answer, Reply):
            return answer
        given = answer(asked)
        return given if isinstance(given, Reply) else await given

    # -- a simple lease, on the test's clock

    def lease(self) -> dict[str, Any]:
        remaining_s = max(0.0, self.expires_s - self.clock.boot_s()) if self.holder else 0.0
        return {
            "function": "f", "unit": None, "holder": self.holder, "term": self.term,
            "duration_ms": round(TTL_S * 1000), "remaining_ms": round(remaining_s * 1000),
            "version": self.version, "state": "leader-acquired" if self.holder else "leader-lost",
            "attempt_in_ms": None if self.holder else self.attempt_in_ms,
        }  # fmt: skip

    def grant(self, holder: str | None) -> None:
        """Let `holder` lead under a new term, or nobody."""
        if holder is not None:
            self.term += 1
            self.expires_s = self.clock.boot_s() + TTL_S
        self.holder = holder
        self.version += 1
        self.changed.set()
        self.changed = asyncio.Event()

    async def usual(self, asked: Asked) -> Reply:
        """Behave as a gateway with one lease."""
        if self.holder is not None and self.clock.boot_s() >= self.expires_s:
            self.grant(None)
        match asked.verb:
            case "acquire":
                return self._acquire(asked.json["holder"])
            case "look":
                return await self._look(asked)
            case "report":
                return Reply(200, {"fresh_for_ms": 12_000})
            case "withdraw":
                return Reply(raw=b"HTTP/1.1 204 No Content\r\n\r\n")
            case "effect":
                return forwarded({"id": "c-1"}, 201)
            case verb:
                return self._owned(verb, asked.json)

    def _acquire(self, holder: str) -> Reply:
        if self.holder == holder:
            return Reply(200, self.lease())
        if self.holder is not None:
            return problem("lease-held", 409, holder=self.holder, term=self.term)
        self.grant(holder)
        return Reply(201, self.lease())

    def _owned(self, verb: str, said: dict[str, Any]) -> Reply:
        if (said["holder"], said["term"]) != (self.holder, self.term):
            return problem("lease-gone", 410) if verb == "renew" else problem("not-holder", 409)
        if verb == "renew":
            self.expires_s = self.clock.boot_s() + TTL_S
        elif verb == "release":
            self.grant(None)
        elif verb == "hand-off":
            self.grant(said["to"])
        return Reply(200, self.lease())

    async def _look(self, asked: Asked) -> Reply:
        if asked.query.get("after_version") == str(self.version):
            wait_s = float(asked.query["wait_s"])
            changed = asyncio.ensure_future(self.changed.wait())
            over = asyncio.ensure_future(self.clock.sleep(wait_s))
            try:
                await asyncio.wait([changed, over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                over.cancel()
        return Reply(200, self.lease())


async def read_request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.rstrip("\r\n").split("\r\n")
    method, target, _ = line.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Asked(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)


@asynccontextmanager
async def scripted(script: Script, *, tls: Any = None) -> AsyncIterator[Script]:
    """Serve `script` on a free port."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            reply = await script.answer(await read_request(reader))
            writer.write(reply.encoded())
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    script.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield script
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(list(tasks), timeout=2)
