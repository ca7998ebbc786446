"""One replica of the daily report, as a process whose director can stop it in the middle of it.

    python -m gateway.demo.replica '{"name": "relatorio-a", "kind": "coordinate", …}'

It runs report.py unchanged. The director (company.py) hears as lines of JSON where the program
is, lets it wait at chosen points, and may have it `insist`: send what a leader without authority
would send, past every check of the client. It leaves when the director hangs up, and on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.client import CandidateReport, Elector, Leadership, UnitWorker
from gateway.client.calls import Gateway
from gateway.client.elector import TOKEN_VARIABLE
from gateway.client.errors import FencegateError, error_for
from gateway.client.trust import SystemClock
from gateway.demo.report import BUILD, CRM, FUNCTION, Report

ANSWER_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Part:
    """What a replica is to be. `gateway` is where its program believes the gateway to be,
    `straight` where it is. At the nth time that it reaches a point of `stops`, it waits.

    Its clock is off by `clock_off_s` and runs at `clock_rate`.
    """

    name: str
    kind: str
    director: int
    gateway: str
    straight: str
    renew_every_s: float
    margin_s: float
    works: bool = True
    version: str = BUILD
    stops: dict[str, int] = field(default_factory=dict)
    clock_off_s: float = 0.0
    clock_rate: float = 1.0


class WrongClock(SystemClock):
    """A machine's clock that shows another time, and is fast or slow."""

    def __init__(self, off_s: float, rate: float) -> None:
        self._began_s = super().boot_s()
        self._off_s = off_s
        self._rate = rate

    def boot_s(self) -> float:
        real_s = super().boot_s()
        return self._began_s + self._off_s + (real_s - self._began_s) * self._rate

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self._rate)


class Replica:
    """The program, and the line to the director."""

    def __init__(
        self, part: Part, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.part = part
        self._reader = reader
        self._writer = writer
        self._reached: Counter[str] = Counter()
        self._go = asyncio.Event()
        self._led: Leadership | None = None
        self._elector: Elector | None = None

    def tell(self, what: str, **facts: Any) -> None:
        self._writer.write(json.dumps({"what": what, **facts}).encode() + b"\n")

    async def reach(self, point: str, leadership: Leadership | None = None, **facts: Any) -> None:
        """Tell where the program is, and wait there if that is wanted."""
        if leadership is not None:
            self._led = leadership
        self._reached[point] += 1
        stops = self.part.stops.get(point) == self._reached[point]
        self.tell(point, stops=stops, **facts)
        if stops:
            self._go.clear()
            await self._go.wait()

    # -- the program

    async def run(self) -> None:
        part = self.part
        clock = WrongClock(part.clock_off_s, part.clock_rate)
        report = Report(prompter=self, works=part.works)
        if part.kind == "work":
            worker = UnitWorker(
                part.gateway, function=FUNCTION, unit=report.day.unit, worker=part.name, clock=clock
            )
            self.tell("enlisted", name=part.name, holder=worker.holder)
            await self.reach("ready")
            await report.work(worker)
            self.tell("finished")
            return
        self._elector = elector = Elector(
            part.gateway,
            function=FUNCTION,
            worker=part.name,
            candidate=CandidateReport(version=part.version),
            renew_every_s=part.renew_every_s,
            margin_s=part.margin_s,
            on_lost=lambda led, why: self.tell("lost", term=led.term, reason=why.reason),
            clock=clock,
        )
        self.tell("enlisted", name=part.name, holder=elector.holder)
        await self.reach("ready")
        await report.coordinate(elector)
        self.tell("finished")

    # -- orders

    async def obey(self) -> None:
        """Take orders until the director hangs up."""
        while line := await self._reader.readline():
            order = json.loads(line)
            match order["do"]:
                case "go":
                    self._go.set()
                case "insist":
                    self.tell("insisted", order=order["order"], **await self._insist())
                case "report" if self._elector is not None:
                    with suppress(FencegateError):
                        await self._elector.report(ready=order["ready"])
                    self.tell("reported", order=order["order"])
                case other:
                    raise ValueError(f"the director orders {other!r}, which is no order")

    async def _insist(self) -> dict[str, Any]:
        """Publish and close as the last term that it led under, and say what was answered."""
        led = self._led
        if led is None:
            return {"publish": "never led", "complete": "never led"}
        unit = Report().day.unit
        fence = {
            "Fence-Function": led.function,
            "Fence-Unit": unit,
            "Fence-Term": str(led.term),
            "Fence-Holder": led.holder,
            "Content-Type": "application/json",
            "Fence-Authorization": f"Bearer {os.environ.get(TOKEN_VARIABLE, '')}",
        }
        key = {"Idempotency-Key": f'"late/{led.holder}"'}
        late = {"external_id": f"late {led.holder}", "text": "the report, by who led before"}
        return {
            "term": led.term,
            "publish": await self._send(f"/d/{CRM}/notes", {**fence, **key}, late),
            "complete": await self._send(f"/v1/units/{unit}/complete", fence, {"result": None}),
        }

    async def _send(self, path: str, headers: dict[str, str], content: Any) -> str:
        gateway = Gateway(self.part.straight)
        body = json.dumps(content).encode()
        try:
            answer = await gateway.call(
                "POST", path, headers=headers, body=body, timeout_s=ANSWER_S
            )
        except FencegateError as error:
            return type(error).__name__
        refused = error_for(answer.status, answer.headers, answer.body)
        return f"{answer.status} {refused.slug}" if refused is not None else str(answer.status)


async def main(part: Part) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", part.director)
    replica = Replica(part, reader, writer)
    work = asyncio.ensure_future(replica.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    hearing = asyncio.ensure_future(replica.obey())
    await asyncio.wait((work, hearing), return_when=asyncio.FIRST_COMPLETED)
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    hearing.cancel()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    asyncio.run(main(Part(**json.loads(sys.argv[1]))))
