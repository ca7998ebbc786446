"""Connections that are used again, and those that must not be."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.policy import Limits
from gateway.outbound import Incoming, Outbound
from tests.outbound.sending import fresh, read, silence, to, whole, write
from tests.raw_destination import RawDestination, answer, rendered, silent

POISON = rendered(200, b"poison")


async def until_the_loop_has_read() -> None:
    """A few turns of the loop: bytes sent over loopback are there at once."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_writes_share_a_connection_unless_policy_wants_fresh_ones(
    crm: RawDestination, outbound: Outbound
) -> None:
    for _ in range(2):
        await whole(outbound, to(crm), write())
    assert [(r.connection, r.index) for r in crm.received] == [(0, 0), (0, 1)]

    for _ in range(2):
        await whole(outbound, fresh(crm), write())
        await whole(outbound, fresh(crm), read())

    later = [(r.method, r.connection, r.index, r.header("Connection")) for r in crm.received[2:]]
    assert later == [
        ("POST", 1, 0, "close"),
        ("GET", 0, 2, None),
        ("POST", 2, 0, "close"),
        ("GET", 0, 3, None),
    ]


@pytest.mark.parametrize("noticed", [True, False], ids=["read-by-the-loop", "still-in-the-kernel"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_answer_nobody_asked_for_is_not_given_to_the_next_request(
    crm: RawDestination, outbound: Outbound, method: str, noticed: bool
) -> None:
    crm.on("/notes", answer(200, b"mine"))
    await whole(outbound, to(crm), write(target="/other"))
    crm.wires[0].at_once(POISON)
    if noticed:
        await until_the_loop_has_read()

    body = await whole(outbound, to(crm), write(method, body=b"{}" if method == "POST" else None))

    assert body == b"mine"
    assert [(r.path, r.connection) for r in crm.received] == [("/other", 0), ("/notes", 1)]


@pytest.mark.parametrize("how", ["fin-unnoticed", "fin", "rst"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_write_after_the_peer_closed_an_idle_connection_succeeds(
    crm: RawDestination, outbound: Outbound, method: str, how: str
) -> None:
    await whole(outbound, to(crm), write(target="/other"))
    if how == "rst":
        crm.wires[0].rst()
    else:
        crm.wires[0].at_once(fin=True)
    if how != "fin-unnoticed":
        await until_the_loop_has_read()

    await whole(outbound, to(crm), write(method, body=b"{}" if method == "POST" else None))

    assert [(r.path, r.connection) for r in crm.received] == [("/other", 0), ("/notes", 1)]


async def test_many_spoilt_connections_cost_one_more_dial(
    crm: RawDestination, outbound: Outbound
) -> None:
    await asyncio.gather(*(whole(outbound, to(crm), write()) for _ in range(5)))
    assert len(crm.wires) == 5
    for wire in crm.wires:
        wire.at_once(POISON)

    assert await whole(outbound, to(crm), write(target="/last")) == b""

    assert [r.path for r in crm.received].count("/last") == 1
    assert len(crm.wires) == 6


async def test_an_answer_that_comes_too_late_never_reaches_another_request(
    crm: RawDestination, outbound: Outbound
) -> None:
    crm.on("/slow", silent)
    await silence(outbound, to(crm), write(target="/slow", deadline_s=0.05))
    assert await crm.how_it_ended(0) == "rst"

    await whole(outbound, to(crm), write())

    assert [(r.path, r.connection) for r in crm.received] == [("/slow", 0), ("/notes", 1)]


async def test_a_policy_reload_opens_a_new_line_and_lets_the_old_exchange_end(
    crm: RawDestination, outbound: Outbound
) -> None:
    before = to(crm)
    held = await outbound.send_once(before, write())
    assert isinstance(held, Incoming)
    same_line = replace(before, digest="another", prefix="/v2")
    moved = replace(before, limits=Limits(connect_ms=1234))

    await whole(outbound, same_line, write())
    await whole(outbound, moved, write())
    await held.read(10)
    await whole(outbound, before, write())

    assert held.complete
    assert [(r.path, r.connection) for r in crm.received] == [
        ("/notes", 0),
        ("/v2/notes", 0),
        ("/notes", 1),
        ("/notes", 2),
    ]
