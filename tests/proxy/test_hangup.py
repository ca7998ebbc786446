"""A destination that reads the request and hangs up gets it once, and the caller is told that
nobody knows."""

from __future__ import annotations

import pytest

from tests.house import House
from tests.proxy.raw_caller import ask, request
from tests.proxy.setting import OpenHouse, destination, effects
from tests.raw_destination import (
    RawDestination,
    answer,
    continue_then_close,
    fin,
    garbage,
    partial,
    rst,
)

FAILURES = {
    "fin": fin, "rst": rst, "partial": partial, "garbage": garbage, "100": continue_then_close,
}  # fmt: skip


async def house_for(open_house: OpenHouse, crm: RawDestination, connection: str) -> House:
    """A gateway that has (reused) or has not (first, fresh) an open connection to lose."""
    kind = "fresh" if connection == "fresh" else "reuse"
    house = await open_house(destination(crm, connections=kind))
    if connection == "reused":
        warm = await ask(house.gateway.port, request("POST", "/d/crm/warm", body=b"{}"))
        assert (warm.status, len(crm.wires)) == (200, 1)
    return house


@pytest.mark.parametrize("connection", ["fresh", "first", "reused"])
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
async def test_a_write_is_received_once_and_answered_423(
    open_house: OpenHouse, crm: RawDestination, method: str, failure: str, connection: str
) -> None:
    house = await house_for(open_house, crm, connection)
    crm.on("/notes", FAILURES[failure], answer(200, b"a second arrival"))
    body = None if method == "DELETE" else b"{}"
    data = request(method, "/d/crm/notes", body=body, key="k-1")

    first = await ask(house.gateway.port, data)
    again = await ask(house.gateway.port, data)

    assert (first.status, again.status) == (423, 423)
    assert [r.method for r in crm.received if r.path == "/notes"] == [method]
    assert crm.received[-1].index == (1 if connection == "reused" else 0)
    assert first.value("Fence-Outcome") == again.value("Fence-Outcome") == "unknown"
    assert first.value("X-Should-Retry") == "false"
    assert (await effects(house))[0]["outcome"] == "unknown"


@pytest.mark.parametrize("connection", ["first", "reused"])
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_read_is_received_once_too(
    open_house: OpenHouse, crm: RawDestination, method: str, failure: str, connection: str
) -> None:
    house = await house_for(open_house, crm, connection)
    crm.on("/notes", FAILURES[failure], answer(200, b"a second arrival"))

    got = await ask(house.gateway.port, request(method, "/d/crm/notes"), method)

    assert got.status == 502
    assert [r.method for r in crm.received if r.path == "/notes"] == [method]
