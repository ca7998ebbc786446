"""One scenario on its stage: a gateway, a CRM, replicas, and what is done to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from gateway.clock import SystemClock
from gateway.demo.company import Company, Member
from gateway.demo.office import Office
from gateway.demo.processes import Child, Children
from gateway.demo.relay import Relay, running_relay
from gateway.demo.watch import Watch

ITEMS: Final = 4
ANSWER_S: Final = 20


@dataclass(eq=False)
class Play(Watch):
    """What a scenario works with. `faults` is what was not as it should be."""

    children: Children
    company: Company
    stack: AsyncExitStack
    faults: list[str] = field(default_factory=list)
    unled_since_ms: list[int] = field(default_factory=list)
    gateway: Child | None = None

    # -- the stage

    async def open(self) -> None:
        """Start the CRM with its opportunities, and the gateway."""
        office = self.office
        await asyncio.to_thread(office.start_crm, self.children)
        office.write_files(office.crm_url)
        await self.seed(ITEMS)
        await self.start_gateway()

    async def start_gateway(self) -> None:
        """Start the gateway, again if need be, where the replicas look for it."""
        self.gateway = await asyncio.to_thread(self.office.start_gateway, self.children)

    def kill_gateway(self) -> None:
        if self.gateway is not None:
            self.gateway.kill()

    async def relay(self) -> Relay:
        """Return a line to the gateway that can be cut."""
        return await self.stack.enter_async_context(running_relay(self.office.gateway_url))

    # -- the replicas

    async def enlist(self, *names: str, **part: Any) -> list[Member]:
        return await self.company.enlist(*names, **part)

    async def leads(self, name: str, **part: Any) -> Member:
        """Start a replica, and return it once it leads."""
        (member,) = await self.enlist(name, **part)
        await self.company.heard("leads", member)
        return member

    async def published(self) -> None:
        """Wait until the report is published."""
        await self.company.heard("published")

    def nobody_commands(self) -> None:
        """From now on there is nobody who coordinates, until the next leader is recorded."""
        self.unled_since_ms.append(SystemClock().wall_ms())

    # -- judging

    def expect(self, what: str, found: object, wanted: object) -> None:
        """Note a fault unless `found` is what was `wanted`."""
        if found != wanted:
            self.faults.append(f"{what}: {found!r}, expected {wanted!r}")

    async def refused_as_stale(self, member: Member) -> None:
        """Let a replica insist on a term that is over; it is to be refused, by the gateway."""
        told = await self.company.ask(member, "insist")
        self.judge_insistence(told)

    def judge_insistence(self, told: Mapping[str, Any]) -> None:
        self.expect("the old leader publishes", told["publish"], "412 stale-term")
        self.expect("the old leader closes the unit", told["complete"], "412 stale-term")


@asynccontextmanager
async def playing(folder: Path, office: Office) -> AsyncIterator[Play]:
    """Give a stage that is not open yet; at the end all of it is taken down."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        children = stack.enter_context(Children(folder))
        company = await stack.enter_async_context(Company(office, children))
        yield Play(office, session, children, company, stack)
