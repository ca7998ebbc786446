"""What the client's tests stand on."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gateway.client.elector import Elector
from tests.client.hand_clock import HandClock
from tests.client.script import Script, scripted
from tests.client.working import Notes

MakeElector = Callable[..., Elector]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def script(clock: HandClock) -> AsyncIterator[Script]:
    async with scripted(Script(clock)) as running:
        yield running


@pytest.fixture
def elect(script: Script, clock: HandClock) -> MakeElector:
    """Make an elector of the scripted gateway, on the test's clock."""

    def make(worker: str = "ana", **how: Any) -> Elector:
        given: dict[str, Any] = {
            "function": "f", "token": "t-1", "incarnation": "1",
            "clock": clock, "chance": random.Random(7),
        }  # fmt: skip
        return Elector(script.url, worker=worker, **(given | how))

    return make


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def elector(elect: MakeElector, notes: Notes) -> AsyncIterator[Elector]:
    async with elect(**notes.hooks) as running:
        yield running
