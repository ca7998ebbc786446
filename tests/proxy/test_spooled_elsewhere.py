"""A request that is too large for the ledger is settled by the gateway that has it on its disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.store import case_queries
from tests.house import FUNCTION, Got, House, running_house
from tests.proxy.setting import effects, eventually
from tests.raw_destination import RawDestination, Received, Wire, answer, fin

LARGE = b'{"text": "' + b"x" * 5000 + b'"}'
POLICY = """
destination: crm
base_url: %s
checked: 2026-11-30
limits: {timeout: 600ms, connect: 500ms, settle: 300ms, barrier_wait: 1s}
connections: fresh
routes:
  - {match: "GET|HEAD /{rest*}", does: read}
  - match: PUT /notes/{id}
    does: write
    guard: repeat
    covers: "notes/{id}"
    repeat_is_harmless: true
"""


class Losing:
    """Reads the first write and hangs up; or, if it is `silent`, says nothing at all."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent = silent
        self.bodies: list[bytes] = []
        self.got = asyncio.Event()

    async def __call__(self, request: Received, wire: Wire) -> None:
        self.bodies.append(request.body)
        self.got.set()
        if not self.silent:
            await (fin if len(self.bodies) == 1 else answer(200))(request, wire)


@pytest.fixture
async def wire() -> AsyncIterator[RawDestination]:
    async with RawDestination() as running:
        yield running


def gateway(folder: Path, ledger: str, wire: RawDestination) -> Any:
    """A gateway with a disk of its own."""
    policies = {"crm": POLICY % wire.url, "relatorio": FUNCTION}
    return running_house(
        folder,
        policies,
        ledger=ledger,
        spool_dir=folder / "spool",
        body_spool_bytes=1024,
        witness=folder / "witness",
    )


async def put(house: House) -> Got:
    return await house.worker().send("PUT", "/notes/1", key="k-1", body=LARGE)


async def is_confirmed(house: House) -> bool:
    return [one["outcome"] for one in await effects(house)] == ["confirmed"]


async def test_the_gateway_that_has_it_sends_it_again_though_another_keeps_house(
    tmp_path: Path, wire: RawDestination, postgres_url: str
):
    wire.default = losing = Losing()
    async with (
        gateway(tmp_path / "a", postgres_url, wire) as keeper,
        gateway(tmp_path / "b", postgres_url, wire) as owner,
    ):
        assert keeper.gateway.house.ledger.is_keeper
        assert not owner.gateway.house.ledger.is_keeper
        got = await put(owner)
        await eventually(lambda: is_confirmed(keeper))
        cases = (await keeper.get("/v1/exceptions")).json["items"]

    assert got.problem == "outcome-unknown"
    assert losing.bodies == [LARGE, LARGE]
    assert cases == []


async def test_if_that_gateway_does_not_come_back_a_person_is_asked(
    tmp_path: Path, wire: RawDestination, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    wire.default = losing = Losing(silent=True)
    async with AsyncExitStack() as stack:
        keeper = await stack.enter_async_context(gateway(tmp_path / "a", postgres_url, wire))
        async with gateway(tmp_path / "b", postgres_url, wire) as owner:
            sending = asyncio.ensure_future(put(owner))
            await losing.got.wait()
            await owner.gateway.drain(asyncio.Event())
            await sending
        reader = await keeper.gateway.house.ledger.reader()
        now_ms = keeper.gateway.house.ledger.clock.now_ms()
        waiting = [one.id for one in await reader.due_spooled(now_ms + 5000, 10)]
        left_alone = await reader.due(now_ms + 5000, 10, keeper.gateway.house.ledger.instance)
        monkeypatch.setattr(case_queries, "RETURNS_WITHIN_MS", 0)

        async def asked() -> bool:
            return bool((await keeper.get("/v1/exceptions")).json["items"])

        await eventually(asked)
        (case,) = (await keeper.get("/v1/exceptions")).json["items"]

    assert (len(waiting), left_alone) == (1, [])
    assert case["reason"] == "request-elsewhere"
    assert losing.bodies == [LARGE]


async def test_the_next_run_of_that_gateway_finds_it_on_its_disk(
    tmp_path: Path, wire: RawDestination, postgres_url: str
):
    wire.default = losing = Losing(silent=True)
    async with gateway(tmp_path / "a", postgres_url, wire) as keeper:
        async with gateway(tmp_path / "b", postgres_url, wire) as owner:
            sending = asyncio.ensure_future(put(owner))
            await losing.got.wait()
            await owner.gateway.drain(asyncio.Event())
            await sending
        losing.silent = False
        async with gateway(tmp_path / "b", postgres_url, wire):
            await eventually(lambda: is_confirmed(keeper))

    assert losing.bodies == [LARGE, LARGE]
