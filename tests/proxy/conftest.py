"""A gateway in front of a destination on bare sockets, on the event loop that it is served on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.house import FUNCTION, House, running_house
from tests.proxy.setting import OpenHouse, destination
from tests.raw_destination import RawDestination


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uv": uvloop.new_event_loop}


@pytest.fixture
async def crm() -> AsyncIterator[RawDestination]:
    async with RawDestination() as crm:
        yield crm


@pytest.fixture
async def open_house(tmp_path: Path, crm: RawDestination) -> AsyncIterator[OpenHouse]:
    """Opens a gateway with the policy that a test wants; see `setting.destination`."""
    async with AsyncExitStack() as stack:

        async def open_it(
            policy: str | None = None, *, function: str = FUNCTION, **settings: Any
        ) -> House:
            policies = {"crm": policy or destination(crm), "relatorio": function}
            return await stack.enter_async_context(running_house(tmp_path, policies, **settings))

        yield open_it


@pytest.fixture
async def house(open_house: OpenHouse) -> House:
    return await open_house()
