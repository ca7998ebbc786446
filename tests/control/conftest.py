"""A gateway whose time stands still until a test moves it, in front of two destinations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.control.leading import LEADING_PEOPLE, policies_with_leases
from tests.control.office import Office, policies_of
from tests.house import running_house
from tests.proxy.setting import principals
from tests.raw_destination import RawDestination


@pytest.fixture
async def crm() -> AsyncIterator[RawDestination]:
    async with RawDestination() as crm:
        yield crm


@pytest.fixture
async def open_office(tmp_path: Path, crm: RawDestination) -> AsyncIterator[Any]:
    """Opens an office; with `principals` (a file), tokens are asked for."""
    async with AsyncExitStack() as stack:

        async def open_it(policies: Any = policies_of, **settings: Any) -> Office:
            clock = ManualClock()
            if "principals" in settings:
                settings.setdefault("dev", False)
            house = await stack.enter_async_context(
                running_house(tmp_path, policies(crm), clock=clock, **settings)
            )
            return Office(house, crm, clock)

        yield open_it


@pytest.fixture
async def office(open_office: Any) -> Office:
    opened: Office = await open_office()
    return opened


@pytest.fixture
async def leased(open_office: Any) -> Office:
    """An office whose policies declare functions that the gateway grants leases of."""
    opened: Office = await open_office(policies_with_leases)
    return opened


@pytest.fixture
async def guarded(open_office: Any, tmp_path: Path) -> Office:
    """As `leased`, with principals who may lead one function, look, or operate."""
    people = principals(tmp_path, **LEADING_PEOPLE)
    opened: Office = await open_office(policies_with_leases, principals=people)
    return opened
