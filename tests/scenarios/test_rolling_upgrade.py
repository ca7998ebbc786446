"""An old and a new version on one database, each a process, and what the CRM received of both."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.postgres_server import Server
from tests.scenarios.caller import Leader
from tests.scenarios.newer import next_step
from tests.scenarios.stage import Stage

COMPATIBLE = ("tests.scenarios.newer", "compatible")
BREAKING = ("tests.scenarios.newer", "breaking")


@dataclass
class Stream:
    """Writes one after the other at a gateway, each under its own key."""

    name: str
    port: int
    statuses: dict[str, int] = field(default_factory=dict)
    written: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self) -> None:
        while True:
            key = f"{self.name}-{len(self.statuses)}"
            self.statuses[key] = (await Leader(self.port, 7).create(key)).status
            self.written.set()

    async def until(self, many: int) -> None:
        """Wait until so many more are through."""
        have = len(self.statuses)
        async with asyncio.timeout(15):
            while len(self.statuses) < have + many:
                await self.written.wait()
                self.written.clear()


@asynccontextmanager
async def streaming(name: str, port: int) -> AsyncIterator[Stream]:
    stream = Stream(name, port)
    writing = asyncio.ensure_future(stream.write())
    try:
        yield stream
    finally:
        writing.cancel()
        await asyncio.wait([writing])
    assert writing.cancelled()


@pytest.fixture
def url(postgres_server: Server) -> str:
    """A database of its own: what the next version makes of it is for no other test."""
    return postgres_server.url(postgres_server.database())


async def test_the_old_version_serves_on_while_the_new_one_migrates_and_after_it(
    stage: Stage, url: str
):
    await stage.start("--ledger", url)
    old, old_port = stage.gateway, stage.port
    async with AsyncExitStack() as stack:
        at_old = await stack.enter_async_context(streaming("old", old_port))
        await at_old.until(20)
        await stage.start_gateway("--ledger", url, name="new", program=COMPATIBLE)
        new_port = stage.port
        at_new = await stack.enter_async_context(streaming("new", new_port))
        await at_old.until(20)
        await at_new.until(20)
    replayed = await Leader(old_port, 7).create("new-0")
    stale = (
        (await Leader(new_port, 8, "bo#1").create("taken-over")).status,
        (await Leader(old_port, 7).create("old-late")).problem,
    )
    assert old is not None
    old.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(old.process.wait, 15) == 0
    restarted = await stage.start_gateway("--ledger", url, name="old-again")
    after = await Leader(stage.port, 8, "bo#1").create("by-the-old-again")

    statuses = at_old.statuses | at_new.statuses
    print(f"{len(at_old.statuses)} writes at the old gateway, {len(at_new.statuses)} at the new")
    assert set(statuses.values()) == {201}
    assert (replayed.status, stale, after.status) == (201, (201, "stale-term"), 201)
    assert "ledger-newer" in restarted.log.read_text("utf-8")
    applied = await stage.applied_keys()
    assert sorted(await stage.received_keys()) == sorted(applied)
    assert len(applied) == len(set(applied))
    assert statuses.keys() <= set(applied)


async def test_what_is_not_compatible_waits_until_the_old_version_has_stopped(
    stage: Stage, url: str
):
    old = await stage.start("--ledger", url)
    port = stage.port

    new = stage.launch("--ledger", url, name="new", program=BREAKING)
    assert await asyncio.to_thread(new.process.wait, 20) == 3
    served = await Leader(port, 7).create("k-1")
    old.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(old.process.wait, 15) == 0
    await stage.start_gateway("--ledger", url, name="new-again", program=BREAKING)
    again = await Leader(stage.port, 7).create("k-1")
    late = stage.launch("--ledger", url, name="old-again")
    assert await asyncio.to_thread(late.process.wait, 20) == 3

    number = next_step("breaking").number
    assert f"migration {number} (remarks) cannot be applied under" in new.tail()
    assert f"the ledger has migration {number}, which this version does not" in late.tail()
    assert (served.status, again.status) == (201, 201)
    assert await stage.received_keys() == ["k-1"]
