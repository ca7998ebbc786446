"""A real destination, and the way out to it, on both event loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from gateway.clock import SystemClock
from gateway.outbound import Outbound
from tests.raw_destination import RawDestination


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"std": asyncio.new_event_loop, "uv": uvloop.new_event_loop}


@pytest.fixture
async def crm() -> AsyncIterator[RawDestination]:
    async with RawDestination() as destination:
        yield destination


@pytest.fixture
async def outbound() -> AsyncIterator[Outbound]:
    out = Outbound(SystemClock())
    yield out
    await out.close()
