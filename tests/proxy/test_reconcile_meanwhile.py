"""What happens to the world while an effect is unknown: no leader, another policy, a destination
that is down. Time is the machine's own, and leaps."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from gateway.clock import SystemClock
from tests.house import FUNCTION, House, Worker, running_house, write_policies
from tests.proxy.setting import effects, eventually
from tests.raw_destination import RawDestination
from tests.standins.kinds import Kind, Lagging, Mail

LEASED = """
function: relatorio
authority: lease
leadership: function
lease: {ttl: 2h, renew_every: 10m, margin: 1m}
exceptions: {owner: ops-comercial, deadline: 4h}
"""
POLICY = """
destination: crm
base_url: %(url)s
checked: 2026-11-30
limits: {timeout: 600ms, connect: 500ms, settle: 300ms}
connections: fresh
routes:
  - match: PUT /records/{id}
    does: write
    covers: "{id}"
    %(guard)s
"""
REPEAT = "guard: repeat\n    repeat_is_harmless: true"
LOOK = """guard: look_first
    stamp: {mark: "{effect}"}
    look:
      request: GET /%(where)s?mark={effect}
      settle: 1s
      each: results
      found: {status: 200, same: {mark: "{effect}"}}
      missing: {status: 200, json: {total: 0}}"""


class LeapClock(SystemClock):
    """The machine's clock, and what has been leapt over."""

    leapt_s = 0.0

    def wall_ms(self) -> int:
        return super().wall_ms() + round(self.leapt_s * 1000)

    def boot_s(self) -> float:
        return super().boot_s() + self.leapt_s


@dataclass
class Meanwhile:
    """One gateway before one destination, with one effect to come."""

    house: House
    kind: Kind
    at: RawDestination
    clock: LeapClock
    folder: Path

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        with closing(
            sqlite3.connect(f"{(self.folder / 'ledger.db').as_uri()}?mode=ro", uri=True)
        ) as db:
            return db.execute(text).fetchall()

    async def lose(self, worker: Worker, what: str) -> None:
        self.kind.fates["k-1"] = [what]
        got = await worker.send("PUT", "/records/a", key="k-1", body={"case": "k-1"})
        assert got.problem == "outcome-unknown"

    def leap(self, seconds: float) -> None:
        """Let time pass, and have the reconciler look."""
        self.clock.leapt_s += seconds
        self.house.gateway.house.unsettled.set()

    async def waits(self) -> int:
        """Wait until the reconciler has put the effect off; return until when."""
        until: list[int] = []

        async def put_off() -> bool:
            now_ms = self.house.gateway.house.ledger.clock.now_ms()
            until[:] = [
                at for (at,) in self.ask("SELECT next_at_ms FROM reconciliation") if at > now_ms
            ]
            return bool(until)

        await eventually(put_off)
        return until[0]

    async def effect(self) -> dict[str, Any]:
        (shown,) = await effects(self.house)
        return shown

    async def ended(self, *, leaping_s: float = 0) -> str:
        """Wait until the effect is settled or in a person's hands; say how it ended."""
        told: list[str] = []

        async def over() -> bool:
            shown = await self.effect()
            if leaping_s:
                self.leap(leaping_s)
            if shown["outcome"] not in (None, "unknown"):
                told.append(f"{shown['outcome']} by {shown['resolved_by']}")
            elif shown["state"] == "exception":
                (case,) = (await self.house.get("/v1/exceptions")).json["items"]
                told.append(f"exception {case['reason']}")
            return bool(told)

        await eventually(over)
        return told[0]


@asynccontextmanager
async def meanwhile(
    folder: Path, kind: Kind, guard: str, function: str = FUNCTION
) -> AsyncIterator[Meanwhile]:
    clock = LeapClock()
    async with RawDestination() as at:
        at.default = kind
        policies = {"crm": POLICY % {"url": at.url, "guard": guard}, "relatorio": function}
        async with running_house(folder, policies, clock=clock) as house:
            yield Meanwhile(house, kind, at, clock, folder)


async def lead(house: House, holder: str) -> Worker:
    got = await house.post("/v1/leases/relatorio/acquire", {"holder": holder})
    assert got.status == 201, got
    return house.worker(holder, got.json["term"])


async def test_a_repetition_waits_for_a_leader_and_goes_out_under_its_term(tmp_path: Path):
    async with meanwhile(tmp_path, Mail(), REPEAT, LEASED) as now:
        ana = await lead(now.house, "ana#1")
        await now.lose(ana, "answer")
        body = {"holder": ana.holder, "term": ana.term}
        assert (await now.house.post("/v1/leases/relatorio/release", body)).status == 200

        now.leap(60)
        await now.waits()
        while_nobody_led = now.kind.sent["k-1"]
        bo = await lead(now.house, "bo#1")
        now.leap(6)
        how = await now.ended()

        terms = [attempt["term"] for attempt in (await now.effect())["attempts"]]
    assert (while_nobody_led, now.kind.sent["k-1"]) == (1, 2)
    assert how == "confirmed by answer"
    assert terms == [ana.term, bo.term]


async def test_a_repetition_that_nobody_comes_to_lead_is_a_persons_matter(tmp_path: Path):
    async with meanwhile(tmp_path, Mail(), REPEAT, LEASED) as now:
        ana = await lead(now.house, "ana#1")
        await now.lose(ana, "answer")
        body = {"holder": ana.holder, "term": ana.term}
        assert (await now.house.post("/v1/leases/relatorio/release", body)).status == 200

        now.leap(3700)
        how = await now.ended()

    assert how == "exception no-leader"
    assert now.kind.sent["k-1"] == 1


async def test_an_effect_is_settled_by_the_policy_that_it_was_sent_under(tmp_path: Path):
    kind = Lagging(lag_s=0)
    async with meanwhile(tmp_path, kind, LOOK % {"where": "search"}) as now:
        await now.lose(now.house.worker(), "request")
        await now.waits()  # looked for in vain, once
        digest = now.house.gateway.house.state.policies.digest

        other = POLICY % {"url": now.at.url, "guard": LOOK % {"where": "elsewhere"}}
        write_policies(tmp_path / "policies", {"crm": other})
        now.house.gateway.policies.ask()
        await eventually(changed(now, digest))
        now.kind.write("k-1", now.at.received[0])  # it was only late
        now.leap(3)
        how = await now.ended()

    looks = {one.path for one in now.at.received if one.method == "GET"}
    assert how == "confirmed by probe"
    assert looks == {"/search"}


def changed(now: Meanwhile, digest: str) -> Callable[[], Awaitable[bool]]:
    async def other() -> bool:
        return now.house.gateway.house.state.policies.digest != digest

    return other


async def test_a_destination_that_is_down_is_asked_ever_more_seldom_and_then_a_person(
    tmp_path: Path,
):
    async with meanwhile(tmp_path, Lagging(), LOOK % {"where": "search"}) as now:
        await now.lose(now.house.worker(), "answer")
        await now.at.close()

        while (await now.effect())["state"] != "exception":
            (next_ms,) = now.ask("SELECT max(next_at_ms) FROM reconciliation")[0] or (0,)
            left_ms = (next_ms or 0) - now.house.gateway.house.ledger.clock.now_ms()
            now.leap(max(left_ms, 0) / 1000 + 0.001)
            await asyncio.sleep(0.02)  # the gateway has no event for it
        errors = now.ask("SELECT started_at_ms FROM probe WHERE verdict = 'error' ORDER BY n")
        how = await now.ended()

    began = [at for (at,) in errors]
    gaps = [round((b - a) / 1000) for a, b in pairwise(began)]
    print(f"\n{len(began)} questions without an answer, {gaps} s apart; {how}")
    assert how == "exception probes-failed"
    assert len(began) == 12
    assert gaps == sorted(gaps)
    assert (gaps[0], gaps[-1]) == (1, 300)
