"""A worker as customers write one, on the SDK, run as a process of its own.

    python -m tests.scenarios.worker '{"name": "ana", "gateway": …, "director": PORT, …}'

It follows, leads and commands. The test that started it is its director (elections.py): every
grant, loss and command is told to it as a line of JSON, and a worker that is not `busy` does
nothing but what it is ordered to. It leaves when the director hangs up.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.client.context import headers_of
from gateway.client.control import CandidateReport, Leases, LeaseTold
from gateway.client.elector import Elector
from gateway.client.errors import FencegateError
from gateway.client.leadership import Leadership
from tests.scenarios.bustle import Bustle, marks

ANSWER_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Part:
    """Which part a worker plays. `busy` is the seed of its dice, None to obey orders."""

    name: str
    gateway: str
    director: int
    function: str
    renew_every_s: float
    margin_s: float
    others: list[str]
    busy: int | None = None


class Worker:
    """The worker. Times that it tells are CLOCK_MONOTONIC, the same for all processes."""

    def __init__(
        self, part: Part, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.part = part
        self._reader = reader
        self._writer = writer
        self._orders: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._term = 0  # of the leadership in force

    def tell(self, what: str, **facts: Any) -> None:
        line = {"what": what, "at_s": time.monotonic(), **facts}
        self._writer.write(json.dumps(line).encode() + b"\n")

    async def run(self) -> None:
        part = self.part
        elector = Elector(
            part.gateway,
            function=part.function,
            worker=part.name,
            candidate=CandidateReport(version="2026.10"),
            renew_every_s=part.renew_every_s,
            margin_s=part.margin_s,
        )
        self._tell_all_grants(elector.holder)
        self.tell("enlisted", name=part.name, holder=elector.holder)
        bustle = None
        if part.busy is not None:
            bustle = Bustle(part.others, random.Random(part.busy), self.tell)
        async with elector:
            async for leadership in elector:
                await self._lead(leadership, bustle)

    def _tell_all_grants(self, holder: str) -> None:
        """Tell every grant that this process hears of, also one that the SDK does not trust."""
        acquire = Leases.acquire

        async def heard(leases: Leases, **how: Any) -> LeaseTold:
            asked_s = time.monotonic()
            lease = await acquire(leases, **how)
            if lease.holder == holder:
                self.tell("told", term=lease.term, holder=holder, asked_s=asked_s)
            return lease

        Leases.acquire = heard

    async def _lead(self, leadership: Leadership, bustle: Bustle | None) -> None:
        try:
            async with leadership:
                self._term = leadership.term
                self.tell("leads", term=leadership.term, holder=leadership.holder)
                if bustle is not None:
                    await bustle.lead(leadership)
                else:
                    while True:
                        await self._obey(leadership, await self._orders.get())
        finally:
            self._term = 0
            reason = leadership.lost.reason if leadership.lost else None
            self.tell("lost", term=leadership.term, reason=reason)

    # -- orders

    async def take_orders(self) -> None:
        """Hear the director until it hangs up."""
        while line := await self._reader.readline():
            order = json.loads(line)
            if order["term"] == self._term:
                self._orders.put_nowait(order)
            else:
                self.tell("done", order=order["order"], error="not leading")

    async def _obey(self, leadership: Leadership, order: dict[str, Any]) -> None:
        said: dict[str, Any] = {"error": "cut off"}
        try:
            if order["term"] != leadership.term:
                said = {"error": "not leading"}
            elif order["do"] == "send":
                said = await self._send(leadership, order)
            elif order["do"] == "hold":
                said = await self._hold(leadership, order)
            elif order["do"] == "release":
                await leadership.release()
                said = {}
            elif order["do"] == "hand-off":
                await leadership.hand_off(order["to"])
                said = {}
        except FencegateError as error:
            said = {"error": type(error).__name__, "slug": error.slug}
        finally:
            self.tell("done", order=order["order"], **said)

    async def _send(self, leadership: Leadership, order: dict[str, Any]) -> dict[str, Any]:
        """Send a command as the SDK sends it."""
        method, path = order["method"], order["path"]
        key = None
        try:
            with leadership.item(order["item"]) as fence:
                key = fence.key_for(method, "crm", path)
                answer = await leadership.effect(
                    method, "crm", path, json=order["body"], headers=marks(key, leadership)
                )
        except FencegateError as error:
            return {"key": key, "error": type(error).__name__, "slug": error.slug}
        return {"key": key, "status": answer.status, "outcome": answer.outcome}

    async def _hold(self, leadership: Leadership, order: dict[str, Any]) -> dict[str, Any]:
        """Hold a command in hand, then send it past the SDK; and have the SDK send one too."""
        with leadership.item(order["item"]) as fence:
            method, path = order["method"], order["path"]
            headers = headers_of(fence, method, "crm", path)  # checks the proof
            key = fence.key_for(method, "crm", path)
            raw = RawCommand(self.part.gateway, method, path, headers | marks(key, leadership))
            self._stand_still(key, leadership.term)
        by_sdk = {**order, "item": f"{order['item']}-by-sdk"}
        if order["sdk_first"]:
            sdk = await self._send(leadership, by_sdk)
            return {"key": key, "raw": raw.send(order["body"]), "sdk": sdk}
        answer = raw.send(order["body"])
        return {"key": key, "raw": answer, "sdk": await self._send(leadership, by_sdk)}

    def _stand_still(self, key: str, term: int) -> None:
        """Block the whole process until the go: the loop notices nothing, as in a real pause."""
        with socket.create_connection(("127.0.0.1", self.part.director)) as hand:
            line = {"in_hand": key, "name": self.part.name, "term": term}
            hand.sendall(json.dumps(line).encode() + b"\n")
            if not hand.recv(1):
                sys.exit("the director is gone")


class RawCommand:
    """A command whose connection stands and whose every check is passed: only bytes are left."""

    def __init__(self, gateway: str, method: str, path: str, headers: dict[str, str]) -> None:
        to = urlsplit(gateway)
        self._head = f"{method} /d/crm{path} HTTP/1.1\r\nHost: {to.netloc}\r\nConnection: close\r\n"
        self._head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._line = socket.create_connection((to.hostname, to.port), timeout=ANSWER_S)

    def send(self, body: Any) -> dict[str, Any]:
        """Send it, blocking, and return the gateway's answer in short."""
        data = json.dumps(body).encode()
        fields = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        raw = b""
        with self._line as line:
            line.sendall((self._head + fields).encode() + data)
            while piece := line.recv(65536):
                raw += piece
        head, _, content = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        said = dict(line.split(": ", 1) for line in lines)
        problem = json.loads(content) if "problem" in said.get("Content-Type", "") else {}
        return {
            "status": int(first.split(" ")[1]),
            "slug": problem.get("type", "").removeprefix("/problems/"),
            "effect": problem.get("effect"),
            "verdict": said.get("Fence-Verdict"),
        }


async def main(part: Part) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", part.director)
    worker = Worker(part, reader, writer)
    work = asyncio.ensure_future(worker.run())
    hearing = asyncio.ensure_future(worker.take_orders())
    await asyncio.wait((work, hearing), return_when=asyncio.FIRST_COMPLETED)
    hearing.cancel()
    if work.done():
        work.result()
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    worker.tell("left")
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    asyncio.run(main(Part(**json.loads(sys.argv[1]))))
