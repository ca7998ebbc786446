"""Nothing leaves too late, and nothing is delivered after the deadline."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.clock import ManualClock
from gateway.core.classify import Silence
from gateway.outbound import Incoming, Outbound
from tests.outbound.sending import read, silence, to, whole, write
from tests.raw_destination import RawDestination, Received, Wire, early, silent, sse

BIG = 20_000_000


class WakingClock(ManualClock):
    """A clock of a process that is paused for a minute before its `naps_at`-th look at it."""

    def __init__(self, naps_at: int) -> None:
        super().__init__()
        self.looks = 0
        self.naps_at = naps_at

    def boot_s(self) -> float:
        self.looks += 1
        if self.looks == self.naps_at:
            self.advance(seconds=60)
        return super().boot_s()


@pytest.mark.parametrize("warm", [False, True])
async def test_a_write_whose_send_budget_is_spent_is_not_sent(
    crm: RawDestination, warm: bool
) -> None:
    clock = ManualClock()
    outbound = Outbound(clock)
    if warm:
        await whole(outbound, to(crm), write(target="/warm", clock=clock))
    outgoing = write(clock=clock, send_by_s=11, deadline_s=30)
    before = crm.bytes_received

    clock.advance(seconds=11, ms=1)

    assert await silence(outbound, to(crm), outgoing) == Silence(False, "send-budget-spent")
    await outbound.close()
    assert crm.bytes_received == before


@pytest.mark.parametrize("body", [None, b"{}"])
@pytest.mark.parametrize("naps_at", range(1, 9))
async def test_a_pause_at_any_moment_sends_everything_in_time_or_nothing(
    crm: RawDestination, naps_at: int, body: bytes | None
) -> None:
    clock = WakingClock(naps_at + 1)
    outbound = Outbound(clock)
    outgoing = write(body=body, clock=clock, send_by_s=11, deadline_s=1000)

    result = await outbound.send_once(to(crm), outgoing)

    if isinstance(result, Incoming):
        await result.read(10)
    else:
        assert result == Silence(False, "send-budget-spent")
    await outbound.close()
    assert len(crm.received) == (1 if outgoing.sent else 0)
    assert outgoing.sent or crm.bytes_received == 0


async def test_a_read_has_no_send_budget(crm: RawDestination) -> None:
    clock = ManualClock()
    outbound = Outbound(clock)
    outgoing = read(clock=clock, deadline_s=30)
    clock.advance(seconds=29)

    await whole(outbound, to(crm), outgoing)

    await outbound.close()


async def test_at_the_deadline_the_connection_is_reset(
    crm: RawDestination, outbound: Outbound
) -> None:
    crm.default = silent

    result = await silence(outbound, to(crm), write(deadline_s=0.05))

    assert result == Silence(True, "deadline")
    assert await crm.how_it_ended(0) == "rst"


async def test_the_deadline_holds_when_only_the_boot_clock_has_reached_it(
    crm: RawDestination,
) -> None:
    """As after a suspend: the loop's own timers have stood still."""
    clock = ManualClock()
    outbound = Outbound(clock)
    crm.default = silent
    sending = asyncio.create_task(outbound.send_once(to(crm), write(clock=clock, deadline_s=600)))
    await crm.until_received(1)

    clock.advance(seconds=601)

    assert await sending == Silence(True, "deadline")
    assert await crm.how_it_ended(0) == "rst"
    await outbound.close()


@pytest.mark.parametrize("spooled", [False, True])
async def test_bytes_still_queued_at_the_deadline_are_not_delivered(
    crm: RawDestination, outbound: Outbound, tmp_path: Path, spooled: bool
) -> None:
    may_read = asyncio.Event()

    async def look_away(request: Received, wire: Wire) -> None:
        del request, wire
        await may_read.wait()

    crm.default = early(look_away)
    body: bytes | Path = b"x" * BIG
    if spooled:
        body = tmp_path / "body"
        body.write_bytes(b"x" * BIG)

    result = await silence(outbound, to(crm), write(body=body, deadline_s=0.3))
    may_read.set()

    assert result == Silence(True, "deadline")
    assert await crm.how_it_ended(0) == "rst"
    assert crm.bytes_received < BIG


async def test_the_deadline_also_ends_a_body(crm: RawDestination, outbound: Outbound) -> None:
    async def half(request: Received, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await silent(request, wire)

    crm.default = half

    result = await outbound.send_once(to(crm), write(deadline_s=0.2))

    assert isinstance(result, Incoming)
    assert await result.read(100) == b"half"
    assert (result.complete, result.broken) == (False, "deadline")
    assert await crm.how_it_ended(0) == "rst"


@pytest.mark.parametrize(("deadline_s", "at_least_ms"), [(30, 29_000), (2.0, 1_000), (0.4, 1)])
async def test_the_kernel_gives_up_no_later_than_the_deadline(
    crm: RawDestination, outbound: Outbound, deadline_s: float, at_least_ms: int
) -> None:
    await whole(outbound, to(crm), write(deadline_s=100))

    result = await outbound.send_once(to(crm), write(deadline_s=deadline_s))

    assert isinstance(result, Incoming)
    (connection,) = outbound._lines["crm"].connections
    transport = connection.transport
    assert transport is not None
    sock = transport.get_extra_info("socket")
    gives_up_ms = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert at_least_ms <= gives_up_ms <= deadline_s * 1000
    assert len(crm.wires) == 1


async def test_a_stream_outlives_its_deadline_and_ends_by_silence(
    crm: RawDestination,
) -> None:
    clock = ManualClock()
    outbound = Outbound(clock)
    next_one = asyncio.Event()
    crm.default = sse(b"data: 1\n\n", b"data: 2\n\n", gate=next_one, end=False)
    result = await outbound.send_once(to(crm), read(clock=clock, deadline_s=600))
    assert isinstance(result, Incoming)
    assert result.is_stream
    result.stream(idle_s=0.3)
    clock.advance(seconds=10_000)
    events = []

    async for chunk in result.chunks():
        events.append(chunk)
        next_one.set()

    assert events == [b"data: 1\n\n", b"data: 2\n\n"]
    assert (result.complete, result.broken) == (False, "deadline")
    await outbound.close()


async def test_a_cancelled_write_says_whether_it_was_sent_and_is_reset(
    crm: RawDestination, outbound: Outbound
) -> None:
    crm.default = silent
    outgoing = write()
    sending = asyncio.create_task(outbound.send_once(to(crm), outgoing))
    await crm.until_received(1)

    sending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await sending
    assert outgoing.sent
    assert await crm.how_it_ended(0) == "rst"
    assert len(crm.received) == 1


@pytest.mark.parametrize("turns", range(12))
async def test_a_write_cancelled_at_any_moment_is_received_only_if_it_says_so(
    crm: RawDestination, outbound: Outbound, turns: int
) -> None:
    outgoing = write()
    sending = asyncio.create_task(outbound.send_once(to(crm), outgoing))
    for _ in range(turns):
        await asyncio.sleep(0)

    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await outbound.close()
    for wire in list(crm.wires):
        await crm.how_it_ended(wire.number)

    assert outgoing.sent or crm.bytes_received == 0
    assert len(crm.received) <= 1
