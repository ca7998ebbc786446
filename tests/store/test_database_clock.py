"""One clock for all gateways: the database's, whose steps are not felt."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.clock import ManualClock
from gateway.store.clock import BELIEVED_MS, DatabaseClock

HOUR_MS = 3_600_000
START_MS = 1_790_000_000_000


class Found:
    def __init__(self, row: tuple[int, int, int]) -> None:
        self._row = row

    def fetchone(self) -> tuple[int, int, int]:
        return self._row


class Server:
    """A database with a clock of its own and the row that the gateways share."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.stood_ms = 0
        self.offset_ms = 0

    def execute(self, text: str, parameters: Any = ()) -> Found:
        if text.startswith("UPDATE"):
            now_ms, offset_ms = parameters[0], parameters[1]
            if now_ms > self.stood_ms:
                self.stood_ms = now_ms
                if abs(self.offset_ms - offset_ms) > 100:
                    self.offset_ms = offset_ms
        return Found((self.wall_ms, self.stood_ms, self.offset_ms))


class World:
    """A server and gateways, for all of which the same time passes."""

    def __init__(self, gateways: int) -> None:
        self.server: Any = Server()
        self.machines = [ManualClock() for _ in range(gateways)]
        self.clocks = [self.join(machine) for machine in self.machines]

    def join(self, machine: ManualClock) -> DatabaseClock:
        clock = DatabaseClock(machine, self.server)
        clock.write(self.server, clock.now_ms())
        return clock

    def passes(self, ms: int) -> None:
        self.server.wall_ms += ms
        for machine in self.machines:
            machine.advance(ms=ms)

    def read(self, gateway: int = 0) -> int:
        clock = self.clocks[gateway]
        now_ms = clock.read(self.server)
        clock.write(self.server, now_ms)
        return now_ms


def test_it_is_the_servers_clock_whatever_the_gateways_think():
    world = World(2)
    world.machines[0].step_wall(seconds=3600)
    world.passes(250)

    assert world.read(0) == world.read(1) == START_MS + 250


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS, -5000, 5000])
def test_a_step_of_the_servers_clock_is_not_felt_by_any_gateway(step_ms: int):
    world = World(2)
    world.passes(1000)
    world.read(0)
    world.read(1)

    world.server.wall_ms += step_ms
    world.passes(300)

    assert world.read(0) == START_MS + 1300
    world.passes(300)
    assert world.read(1) == START_MS + 1600
    assert world.read(0) == START_MS + 1600
    late = DatabaseClock(ManualClock(), world.server)
    assert late.read(world.server) == START_MS + 1600
    assert late.jump_ms == 0


def test_it_never_goes_back_not_even_between_gateways():
    world = World(2)
    world.passes(1000)
    first = world.read(0)
    world.server.wall_ms -= BELIEVED_MS // 2

    assert world.read(1) >= first
    assert world.read(0) >= first


def test_after_an_absence_of_all_the_clock_is_believed_forwards_and_says_how_far():
    world = World(1)
    world.server.wall_ms += HOUR_MS

    back = DatabaseClock(ManualClock(), world.server)

    assert back.now_ms() == START_MS + HOUR_MS
    assert back.jump_ms == HOUR_MS
    assert not back.downtime_unknown


def test_after_an_absence_a_clock_in_the_past_is_not_believed():
    world = World(1)
    world.passes(5000)
    world.read()
    world.server.wall_ms -= HOUR_MS

    back = DatabaseClock(ManualClock(), world.server)

    assert back.now_ms() == START_MS + 5000
    assert back.downtime_unknown
    assert back.jump_ms == 0


def test_a_gateway_that_was_paused_agrees_with_the_others_at_once():
    world = World(2)
    world.passes(60_000)  # the second read nothing meanwhile

    assert world.read(0) == world.read(1) == START_MS + 60_000
