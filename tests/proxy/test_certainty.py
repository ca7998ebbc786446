"""A request is sent once, and what is said of it is what is known.

| behaviour | test |
|---|---|
| whatever the method and the failure, one arrival and 423 | see test_hangup |
| idle connections that the destination drops cost no write | idle |
| a destination that is down: a quick 502, nothing recorded as sent; service resumes | down |
| callers that leave and uploads broken off | see test_callers_that_leave |
"""

from __future__ import annotations

import socket

import pytest

from tests.house import House
from tests.proxy.raw_caller import ask, request
from tests.proxy.setting import OpenHouse, destination, effects
from tests.raw_destination import RawDestination, answer, fin, in_turn


@pytest.mark.parametrize("connections", ["fresh", "reuse"])
async def test_idle_connections_that_are_dropped_cost_no_write(
    open_house: OpenHouse, crm: RawDestination, connections: str
) -> None:
    house = await open_house(destination(crm, connections=connections))
    crm.default = in_turn(answer(200), fin)  # keep-alive was promised

    got = [
        (await ask(house.gateway.port, request("POST", f"/d/crm/{n}", body=b"x"))).status
        for n in range(25)
    ]

    assert got == [200] * 25
    assert [r.path for r in crm.received] == [f"/{n}" for n in range(25)]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_a_destination_that_is_down_is_unreachable_and_nothing_was_sent(
    open_house: OpenHouse, crm: RawDestination, method: str
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        policy = destination(crm).replace(str(crm.port), str(port))
        house = await open_house(policy)
        data = request(method, "/d/crm/x", key="k-1")

        first = await ask(house.gateway.port, data)
        crm.port, up = port, crm.port

    assert (first.status, first.value("Retry-After")) == (502, "5")
    assert first.value("Fence-Verdict") == "forwarded; reason=destination-unreachable"
    assert up != port
    if method != "GET":
        assert first.value("Fence-Outcome") == "no-effect"
        assert [e["outcome"] for e in await effects(house)] == ["no-effect"]


async def test_service_resumes_under_the_same_key(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    await crm.close()
    house = await open_house()
    down = await house.worker().post("/notes", "k-1")
    crm.received.clear()
    async with RawDestination() as back:
        moved = destination(back)
        (house.gateway.settings.policies / "crm.yaml").write_text(moved)
        await house.gateway.policies.look()

        up = await house.worker().post("/notes", "k-1")

        assert (down.status, up.status) == (502, 200)
        assert len(back.received) == 1


async def test_a_forwarded_write_says_what_is_known(house: House, crm: RawDestination) -> None:
    got = await house.worker().post("/notes", "k-1")

    assert got.status == 200
    assert got.headers["Fence-Outcome"] == "confirmed"
    assert got.headers["Fence-Term"] == "7"
    assert got.headers["Fence-Effect"] == (await effects(house))[0]["id"]
    assert len(crm.received) == 1
