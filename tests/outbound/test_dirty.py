"""What a destination says out of turn reaches nobody."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.clock import ManualClock
from gateway.core.classify import Silence
from gateway.outbound import Incoming, Outbound
from gateway.outbound.connection import Connection
from tests.outbound.sending import CLOCK, fresh, read, silence, to, whole, write
from tests.raw_destination import (
    Behaviour,
    RawDestination,
    Received,
    Wire,
    answer,
    chunked,
    in_turn,
    raw,
    rendered,
    until_close,
)

POISON = rendered(200, b"poison")


@pytest.mark.parametrize(
    "behaviour",
    [
        raw(rendered(200, b"mine") + POISON),
        raw(rendered(200, b"mine") + b"\r\n"),
        raw(rendered(200, b"mine") + b"x"),
        chunked(b"mine", end=b"0\r\n\r\n" + POISON),
        chunked(b"mine", end=b"0\r\n\r\n\r\n"),
        chunked(b"mine", end=b"0\r\nX-T: 1\r\n\r\n" + POISON),
        raw(b"HTTP/1.1 204 None\r\n\r\n" + POISON),
        raw(b"HTTP/1.1 204 None\r\nContent-Length: 4\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_follows_an_answer_is_not_given_to_the_next_request(
    crm: RawDestination, outbound: Outbound, method: str, behaviour: Behaviour
) -> None:
    crm.on("/first", behaviour)
    crm.on("/next", answer(200, b"its own"))

    first = await whole(outbound, to(crm), write(method, "/first"))
    body = await whole(outbound, to(crm), write(method, "/next"))

    assert (first, body) in ((b"mine", b"its own"), (b"", b"its own"))
    assert [(r.path, r.connection) for r in crm.received] == [("/first", 0), ("/next", 1)]


async def test_a_head_answer_with_a_body_does_not_shift_the_answers(
    crm: RawDestination, outbound: Outbound
) -> None:
    crm.on("/first", raw(rendered(200, b"should not be here")))
    crm.on("/next", answer(200, b"its own"))

    assert await whole(outbound, to(crm), read("HEAD", "/first")) == b""

    assert await whole(outbound, to(crm), read("GET", "/next")) == b"its own"
    assert [r.connection for r in crm.received] == [0, 1]


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"]
)
async def test_a_connection_that_will_be_closed_is_not_used_again(
    crm: RawDestination, outbound: Outbound, head: bytes
) -> None:
    crm.default = raw(head + b"Content-Length: 2\r\n\r\nok")

    for _ in range(2):
        assert await whole(outbound, to(crm), write()) == b"ok"

    assert [r.connection for r in crm.received] == [0, 1]
    assert await crm.how_it_ended(0) == "fin"


async def test_a_connection_that_keeps_http_1_0_alive_is_used_again(
    crm: RawDestination, outbound: Outbound
) -> None:
    crm.default = raw(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")

    for _ in range(2):
        await whole(outbound, to(crm), write())

    assert [r.connection for r in crm.received] == [0, 0]


async def test_a_connection_that_lay_idle_too_long_is_not_used_again(crm: RawDestination) -> None:
    clock = ManualClock()
    outbound = Outbound(clock)
    await whole(outbound, to(crm), write(clock=clock))
    clock.advance(seconds=1.9)
    await whole(outbound, to(crm), write(clock=clock))

    clock.advance(seconds=2.1)
    await whole(outbound, to(crm), write(clock=clock))

    assert [r.connection for r in crm.received] == [0, 0, 1]
    await outbound.close()


async def test_idle_connections_are_closed_without_anybody_asking(crm: RawDestination) -> None:
    clock = ManualClock()
    outbound = Outbound(clock)
    await whole(outbound, to(crm), write(clock=clock))

    clock.advance(seconds=2.1)

    assert await crm.how_it_ended(0) == "fin"
    await outbound.close()


async def test_one_connection_carries_one_exchange_at_a_time(
    crm: RawDestination, outbound: Outbound
) -> None:
    gate = asyncio.Event()

    async def wait(request: Received, wire: Wire) -> None:
        await gate.wait()
        await answer(200)(request, wire)

    crm.default = wait
    sending = [asyncio.create_task(whole(outbound, to(crm), write())) for _ in range(8)]
    await crm.until_received(8)
    gate.set()
    await asyncio.gather(*sending)

    assert sorted(r.connection for r in crm.received) == list(range(8))


@pytest.mark.parametrize("noticed", [True, False], ids=["read-by-the-loop", "still-in-the-kernel"])
@pytest.mark.parametrize("spoken", [b"SSH-2.0-OpenSSH_9.2\r\n", POISON, b""])
async def test_a_fresh_connection_that_has_spoken_or_ended_is_not_written_to(
    spoken: bytes, noticed: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    lost = asyncio.Event()
    with theirs:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(None, lambda _: lost.set()), sock=ours
        )
        assert connection.is_fit()

        theirs.send(spoken) if spoken else theirs.shutdown(socket.SHUT_WR)
        if noticed:
            async with asyncio.timeout(5):
                await lost.wait()

        assert not connection.is_fit()
        connection.reset()
        async with asyncio.timeout(5):
            await lost.wait()


async def test_a_body_that_ends_with_its_connection_is_never_followed_by_another(
    crm: RawDestination, outbound: Outbound
) -> None:
    crm.on("/first", until_close(200, b"all of it"))

    assert await whole(outbound, to(crm), write(target="/first")) == b"all of it"
    await whole(outbound, to(crm), write())

    assert [r.connection for r in crm.received] == [0, 1]


@pytest.mark.parametrize("bad", [b"zz\r\n", b"3\r\nabcd\r\n", b"5;\x00\r\nhello\r\n"])
async def test_a_body_that_breaks_its_framing_is_cut_and_its_connection_reset(
    crm: RawDestination, outbound: Outbound, bad: bytes
) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    crm.on("/first", in_turn(raw(head + b"5\r\nhello\r\n" + bad)))

    result = await outbound.send_once(to(crm), write(target="/first"))

    assert isinstance(result, Incoming)
    await result.read(100)
    assert (result.complete, result.broken, result.status) == (False, "truncated", 200)
    assert await crm.how_it_ended(0) == "rst"


async def test_a_closed_way_out_sends_nothing_more(crm: RawDestination) -> None:
    outbound = Outbound(CLOCK)
    await whole(outbound, fresh(crm), write())
    await outbound.close()

    assert await silence(outbound, to(crm), write()) == Silence(False, "not-sent")

    assert len(crm.received) == 1


async def test_closing_ends_what_is_under_way_by_a_reset(crm: RawDestination) -> None:
    outbound = Outbound(CLOCK)
    gate = asyncio.Event()

    async def wait(request: Received, wire: Wire) -> None:
        del request
        await gate.wait()
        await wire.send(POISON)

    crm.default = wait
    sending = asyncio.create_task(outbound.send_once(to(crm), write()))
    await crm.until_received(1)

    await outbound.close()

    assert await sending == Silence(True, "aborted")
    gate.set()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await crm.until(lambda: len(crm.received) > 1)
