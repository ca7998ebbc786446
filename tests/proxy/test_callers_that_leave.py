"""A caller that leaves changes nothing: what was admitted is sent once and recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.house import House
from tests.proxy.raw_caller import RawCaller, in_chunks, request
from tests.proxy.setting import (
    LIMITS,
    OpenHouse,
    destination,
    effects,
    eventually,
    held,
    raw_got,
    until_settled,
)
from tests.raw_destination import RawDestination, answer, fin, in_turn, raw, rst, silent, sse

SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
WRITE = request("POST", "/d/crm/notes", body=b"{}", key="k-1")


@pytest.mark.parametrize(
    ("then", "outcome", "status"),
    [(answer(201, b"made"), "confirmed", 201), (answer(422), "rejected", 201),
     (rst, "unknown", 423)],
    ids=["confirmed", "rejected", "unknown"],
)  # fmt: skip
@pytest.mark.parametrize("how", ["reset", "close"])
async def test_leaving_while_it_is_under_way_changes_nothing(
    house: House, crm: RawDestination, then: object, outcome: str, status: int, how: str
) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, then), answer(201, b"made"))  # type: ignore[arg-type]
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(WRITE)
        await crm.until_received(1)
        if how == "reset":
            caller.leave()
    gate.set()

    effect = (await until_settled(house))[0]
    again = await raw_got(house, WRITE)

    assert (effect["outcome"], len(effect["attempts"])) == (outcome, 1)
    assert again.status == status
    assert len(crm.received) == (2 if outcome == "rejected" else 1)


async def test_leaving_before_anything_was_sent_changes_nothing(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    """The request waits for its turn; the work goes on without its caller."""
    limits = LIMITS.replace("300ms", "4s").replace("{", "{at_once: 1, ")
    house = await open_house(destination(crm, limits=limits))
    gate = asyncio.Event()
    crm.on("/slow", held(gate, answer(200)))
    crm.on("/notes", answer(201, b"made"))
    slow = asyncio.ensure_future(house.worker().post("/slow", "k-0"))
    await crm.until_received(1)
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(WRITE)
        await until_tasks(house, 2)
        caller.leave()
    gate.set()
    await slow

    shown = await until_settled(house, 2)
    again = await raw_got(house, WRITE)

    assert [effect["outcome"] for effect in shown] == ["confirmed", "confirmed"]
    assert again.headers["Fence-Verdict"] == "replayed"
    assert [r.path for r in crm.received] == ["/slow", "/notes"]


async def until_tasks(house: House, count: int) -> None:
    async def running() -> bool:
        return house.gateway.house.tasks.running >= count

    await eventually(running)


@pytest.mark.parametrize("kind", ["length", "chunked", "spooled"])
@pytest.mark.parametrize("how", ["reset", "close"])
async def test_an_upload_that_is_broken_off_sends_nothing(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, kind: str, how: str
) -> None:
    house = await open_house(body_spool_bytes=1024)
    field = "Transfer-Encoding: chunked" if kind == "chunked" else "Content-Length: 9000"
    part = {"length": b"hello", "chunked": in_chunks(b"hello")[:-5], "spooled": b"x" * 5000}[kind]
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("POST", "/d/crm/notes", field, key="k-1") + part)
        await eventually(lambda: has_begun(tmp_path, kind))
        if how == "reset":
            caller.leave()

    # the same key afterwards: nothing of the broken one is on record or on the way
    got = await raw_got(house, WRITE)

    assert got.headers["Fence-Verdict"] == "forwarded"
    assert [r.body for r in crm.received] == [b"{}"]
    assert len(await effects(house)) == 1
    await eventually(lambda: is_empty(tmp_path / "spool"))


async def has_begun(folder: Path, kind: str) -> bool:
    return kind != "spooled" or bool(files(folder / "spool"))


async def is_empty(folder: Path) -> bool:
    return not files(folder)


def files(folder: Path) -> list[Path]:
    return list(folder.glob("*"))


async def test_half_a_body_and_an_end_is_refused(house: House, crm: RawDestination) -> None:
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("POST", "/d/crm/notes", "Content-Length: 50") + b"hello")
        caller.writer.write_eof()

        assert (await caller.answer()).status in (0, 400)
    assert crm.received == []
    assert await effects(house) == []


@pytest.mark.parametrize("end", ["whole", "cut"])
async def test_leaving_a_write_s_stream_keeps_its_outcome(
    house: House, crm: RawDestination, end: str
) -> None:
    gate = asyncio.Event()
    finish = raw(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n") if end == "whole" else fin
    crm.on("/notes", in_turn(raw(SSE_HEAD + b"9\r\ndata: 1\n\n\r\n"), held(gate, finish)))
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(WRITE)
        await caller.until(b"data: 1\n\n")
        caller.leave()
        await until_left(house)
    assert crm.wires[0].is_open  # hanging up may stop what it is still doing
    gate.set()
    await eventually(lambda: no_task_runs(house))

    again = await raw_got(house, WRITE)

    assert (await effects(house))[0]["outcome"] == "confirmed"
    assert again.json["answer"] == ("streamed" if end == "whole" else "incomplete")
    assert len(crm.received) == 1


async def no_task_runs(house: House) -> bool:
    return not house.gateway.house.tasks.running


async def test_a_stream_that_begins_when_its_caller_has_left_is_read_to_its_end(
    house: House, crm: RawDestination
) -> None:
    gate = asyncio.Event()
    ended = asyncio.Event()

    async def streams(request: object, wire: object) -> None:
        await gate.wait()
        await sse(*[b"data: " + b"x" * 8000 + b"\n\n"] * 200)(request, wire)  # type: ignore[arg-type]
        ended.set()

    crm.on("/notes", streams)
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(WRITE)
        await crm.until_received(1)
        caller.leave()
    await until_left(house)
    gate.set()

    async with asyncio.timeout(5):
        await ended.wait()
    assert await crm.how_it_ended(0) in ("fin", "rst")
    assert (await until_settled(house))[0]["outcome"] == "confirmed"


async def until_left(house: House) -> None:
    """Wait until the server has let go of the connection."""
    runner = house.gateway._runner

    async def gone() -> bool:
        server = runner.server if runner else None
        # of the test's own session there is none: it closes each connection
        return server is not None and not server.connections

    await eventually(gone)


async def test_leaving_a_read_drops_it(house: House, crm: RawDestination) -> None:
    crm.on("/notes", silent)
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("GET", "/d/crm/notes"))
        await crm.until_received(1)
        caller.leave()

    assert await crm.how_it_ended(0) == "rst"


async def test_readers_that_leave_give_their_slots_back(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, limits="{at_once: 2, barrier_wait: 4s}"))
    crm.on("/notes", *[silent] * 6, answer(200))
    for n in range(6):
        async with RawCaller(house.gateway.port) as caller:
            await caller.send(request("GET", "/d/crm/notes"))
            await crm.until_received(n + 1)
            caller.leave()

    got = await house.get("/d/crm/notes")

    assert got.status == 200
