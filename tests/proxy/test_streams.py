"""Streams: each piece as it comes, and no connection outlives the one it was opened for.

| behaviour | test |
|---|---|
| events are relayed one by one, of reads and of writes | one_by_one |
| leaving a stream, talking or silent, ends it at the destination | leaving |
| an early refusal of a large upload is relayed | early |
| a stream that falls silent is cut after its time | silent |
"""

from __future__ import annotations

import asyncio

import pytest

from tests.house import House
from tests.proxy.raw_caller import RawCaller, ask, request
from tests.proxy.setting import OpenHouse, destination
from tests.raw_destination import RawDestination, early, raw, rendered, sse


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_events_are_relayed_one_by_one(
    house: House, crm: RawDestination, method: str
) -> None:
    gate = asyncio.Event()
    crm.on("/sse", sse(b"data: 1\n\n", b"data: 2\n\n", gate=gate))
    accept = "Accept-Encoding: gzip, deflate, br"
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request(method, "/d/crm/sse", accept))
        await caller.until(b"data: 1\n\n")  # the second one has not been produced yet
        gate.set()
        await caller.until(b"data: 2\n\n")
        gate.set()

        assert await caller.until(b"0\r\n\r\n")


async def test_leaving_a_stream_that_talks_ends_it(house: House, crm: RawDestination) -> None:
    crm.on("/sse", sse(*[b"data: t\n\n"] * 5000, end=False))
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("GET", "/d/crm/sse"))
        await caller.until(b"data: t")
        caller.leave()

    assert await crm.how_it_ended(0) in ("fin", "rst")


async def test_leaving_a_stream_that_is_silent_ends_it(house: House, crm: RawDestination) -> None:
    crm.on("/sse", sse(b"data: 1\n\n", end=False))
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("GET", "/d/crm/sse"))
        await caller.until(b"data: 1")
        caller.leave()

    assert await crm.how_it_ended(0) in ("fin", "rst")


async def test_an_early_refusal_of_a_large_upload_is_relayed(
    house: House, crm: RawDestination
) -> None:
    refusal = rendered(413, b"big", [("Connection", "close")])
    crm.on("/x", early(raw(refusal)))
    body = b"u" * (4 * 1024 * 1024)

    got = await ask(house.gateway.port, request("POST", "/d/crm/x", body=body))

    assert (got.status, got.body) == (413, b"big")
    assert [r.method for r in crm.received] == ["POST"]


async def test_a_stream_that_falls_silent_is_cut(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    crm.on("/sse", sse(b"data: 1\n\n", end=False))
    house = await open_house(destination(crm, limits="{timeout: 300ms}"))

    got = await ask(house.gateway.port, request("GET", "/d/crm/sse"))

    assert (got.status, got.body, got.complete) == (200, b"data: 1\n\n", False)


async def test_streams_do_not_take_the_slots_of_others(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    crm.on("/sse", sse(b"data: 1\n\n", end=False))
    house = await open_house(destination(crm, limits="{at_once: 1, barrier_wait: 300ms}"))
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("GET", "/d/crm/sse"))
        await caller.until(b"data: 1")

        got = await ask(house.gateway.port, request("GET", "/d/crm/x"))

    assert got.status == 200
