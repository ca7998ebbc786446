"""For every problem of the data plane, a way to get it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.core.errors import LedgerUnavailable
from tests.house import FUNCTION, Got, House
from tests.proxy.raw_caller import request
from tests.proxy.setting import (
    LIMITS,
    WRITE,
    OpenHouse,
    destination,
    eventually,
    held,
    principals,
    raw_got,
)
from tests.raw_destination import RawDestination, answer, rst


@dataclass
class Stage:
    """Where a problem is provoked. `mark` says that what came so far does not count."""

    open_house: OpenHouse
    crm: RawDestination
    monkeypatch: pytest.MonkeyPatch
    folder: Path
    before: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    behind: list[asyncio.Task[Got]] = field(default_factory=list)

    def mark(self) -> None:
        self.before = len(self.crm.received)

    @property
    def arrived(self) -> int:
        return len(self.crm.received) - self.before

    async def house(self, *routes: str, function: str = FUNCTION, **words: str) -> House:
        return await self.open_house(destination(self.crm, *routes, **words), function=function)

    async def hold(
        self, house: House, path: str = "/notes", key: str = "k-0", term: int = 7
    ) -> None:
        """Have a write under way at the destination."""
        self.crm.on(path, held(self.gate, answer(200)), answer(200))
        self.behind.append(asyncio.ensure_future(house.worker(term=term).post(path, key)))
        await self.crm.until_received(1)
        self.mark()

    async def finish(self) -> list[Got]:
        self.gate.set()
        return await asyncio.gather(*self.behind)


Provoke = Callable[[Stage], Awaitable[Got]]
PROVOKED: dict[str, Provoke] = {}


def provokes(slug: str) -> Callable[[Provoke], Provoke]:
    def note(provoke: Provoke) -> Provoke:
        PROVOKED[slug] = provoke
        return provoke

    return note


def by_request(*given: Any, **more: Any) -> Provoke:
    """A request that is refused by itself."""

    async def provoke(stage: Stage) -> Got:
        house = await stage.house()
        return await raw_got(house, request(*given, **more))

    return provoke


PROVOKED |= {
    "bad-target": by_request("POST", "/d/crm/../x", body=b"{}"),
    "destination-unknown": by_request("POST", "/d/nobody/x", body=b"{}"),
    "malformed": by_request("POST", "/d/crm/x", fence=[b"Fence-Term: 007"], body=b"{}"),
    "fence-missing": by_request("POST", "/d/crm/x", fence=[], body=b"{}"),
    "method-unsupported": by_request("TRACE", "/d/crm/x"),
    "expectation-failed": by_request("POST", "/d/crm/x", "Expect: magic", body=b"{}"),
    "early-data": by_request("POST", "/d/crm/x", "Early-Data: 1", body=b"{}"),
    "not-implemented": by_request("GET", "/d/crm/x", "Connection: Upgrade", "Upgrade: h2c"),
    "function-unknown": by_request("POST", "/d/crm/x", fence=[b"Fence-Function: other"]),
    "http-version-unsupported": by_request("GET", "/d/crm/x", version="HTTP/2.0"),
}


@provokes("unauthenticated")
async def nobody(stage: Stage) -> Got:
    house = await stage.open_house(dev=False, principals=principals(stage.folder, ana=""))
    return await house.worker().post("/notes", "k-1")


@provokes("forbidden")
async def without_rights(stage: Stage) -> Got:
    file = principals(stage.folder, ana="functions: [outra]")
    house = await stage.open_house(dev=False, principals=file)
    return await house.worker().post("/notes", "k-1", Authorization="Bearer fg_ana")


@provokes("route-refused")
async def a_refused_route(stage: Stage) -> Got:
    refuse = '{match: "DELETE /accounts/{id}", does: refuse, because: "a person deletes accounts"}'
    house = await stage.house(refuse, WRITE)
    return await house.worker().send("DELETE", "/accounts/7", key="k-1")


@provokes("body-too-large")
async def too_much(stage: Stage) -> Got:
    house = await stage.house(limits="{body_max: 1KiB}")
    return await house.worker().post("/notes", "k-1", b"x" * 2000)


@provokes("stale-term")
async def an_old_leader(stage: Stage) -> Got:
    house = await stage.house()
    await house.worker("bo#1", term=8).post("/notes", "k-0")
    stage.mark()
    return await house.worker("ana#1", term=7).post("/notes", "k-1")


@provokes("term-contested")
async def a_second_holder(stage: Stage) -> Got:
    house = await stage.house()
    await house.worker("ana#1").post("/notes", "k-0")
    stage.mark()
    return await house.worker("bo#1").post("/notes", "k-1")


@provokes("term-jump")
async def a_wild_number(stage: Stage) -> Got:
    house = await stage.house()
    await house.worker().post("/notes", "k-0")
    stage.mark()
    return await house.worker(term=7 + 1001).post("/notes", "k-1")


@provokes("key-reused")
async def another_body(stage: Stage) -> Got:
    house = await stage.house()
    await house.worker().post("/notes", "k-1", {"n": 1})
    stage.mark()
    return await house.worker().post("/notes", "k-1", {"n": 2})


@provokes("in-flight")
async def at_the_same_time(stage: Stage) -> Got:
    house = await stage.house()
    await stage.hold(house, key="k-1")
    return await house.worker().post("/notes", "k-1")


@provokes("outcome-unknown")
async def after_a_reset(stage: Stage) -> Got:
    house = await stage.house()
    stage.crm.on("/notes", rst)
    await house.worker().post("/notes", "k-1")
    stage.mark()
    return await house.worker().post("/notes", "k-1")


@provokes("duplicate")
async def once_more(stage: Stage) -> Got:
    house = await stage.house(
        '{match: "POST /{rest*}", does: write, guard: none, on_duplicate: reject}'
    )
    await house.worker().post("/notes", "k-1")
    stage.mark()
    return await house.worker().post("/notes", "k-1")


@provokes("result-unavailable")
async def a_result_too_large(stage: Stage) -> Got:
    house = await stage.open_house(replay_body_max="1KiB")
    stage.crm.on("/notes", answer(201, b"x" * 2000, [("Location", "/notes/1")]))
    await house.worker().post("/notes", "k-1")
    stage.mark()
    return await house.worker().post("/notes", "k-1")


@provokes("attempts-exhausted")
async def rejected_again_and_again(stage: Stage) -> Got:
    house = await stage.house(limits="{max_attempts: 2}")
    stage.crm.on("/notes", answer(422))
    for n in range(2):
        await house.worker().post("/notes", "k-1", {"n": n})
    stage.mark()
    return await house.worker().post("/notes", "k-1", {"n": 2})


@provokes("predecessor-in-flight")
async def a_predecessor(stage: Stage) -> Got:
    house = await stage.house()
    await stage.hold(house, term=7)
    return await house.worker("bo#1", term=8).post("/notes", "k-1")


@provokes("busy")
async def no_slot(stage: Stage) -> Got:
    house = await stage.house(limits=LIMITS.replace("{", "{at_once: 1, "))
    await stage.hold(house, path="/slow")
    return await house.worker().post("/notes", "k-1")


@provokes("draining")
async def at_the_end(stage: Stage) -> Got:
    house = await stage.house()
    house.gateway.house.state.draining = True
    read = await raw_got(house, request("GET", "/d/crm/x"))
    assert read.status == 200  # reads still pass
    stage.mark()
    return await house.worker().post("/notes", "k-1")


@provokes("ledger-unavailable")
async def without_a_ledger(stage: Stage) -> Got:
    house = await stage.house()

    async def is_full(proposal: object) -> None:
        raise LedgerUnavailable("the disk is full")

    stage.monkeypatch.setattr(house.gateway.house.ledger, "admit", is_full)
    return await house.worker().post("/notes", "k-1")


@provokes("destination-unreachable")
async def nobody_listens(stage: Stage) -> Got:
    house = await stage.house()
    await stage.crm.close()
    return await house.worker().post("/notes", "k-1")


@provokes("internal")
async def something_unforeseen(stage: Stage) -> Got:
    house = await stage.house()

    async def fails(*given: object) -> None:
        raise RuntimeError("nobody thought of this")

    stage.monkeypatch.setattr(house.gateway.house.outbound, "send_once", fails)
    got = await house.worker().post("/notes", "k-1")
    return got


async def until_shut_out(house: House, term: int) -> None:
    """Wait until commands under `term` are refused: a higher one has been accepted."""

    async def refused() -> bool:
        probe = await house.worker(term=term).post("/elsewhere", f"probe-{term}")
        return probe.problem == "stale-term"

    await eventually(refused)
