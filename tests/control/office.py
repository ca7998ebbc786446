"""An operator's view of a running gateway, and ways to give it something to look at."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from gateway.clock import ManualClock
from tests.house import FUNCTION, Got, House, Worker
from tests.proxy.setting import destination, held
from tests.raw_destination import Behaviour, RawDestination, answer, rst

SEAL_S = 6.0
"""Timeout and settle of the policy: from here on a destination does nothing more."""


def policies_of(crm: RawDestination) -> dict[str, str]:
    """Two destinations and two functions."""
    return {
        "crm": destination(crm),
        "erp": destination(crm, name="erp"),
        "relatorio": FUNCTION,
        "varredura": FUNCTION.replace("relatorio", "varredura"),
    }


def said_by(name: str) -> dict[str, str]:
    """The token of a principal, as `tests.proxy.setting.principals` gives it out."""
    return {"Fence-Authorization": f"Bearer fg_{name}"}


@dataclass
class Office:
    """A gateway, its destination and its clock."""

    house: House
    crm: RawDestination
    clock: ManualClock
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: list[asyncio.Task[Got]] = field(default_factory=list)

    @property
    def panel(self) -> Any:
        return self.house.gateway._control._panel

    def worker(self, destination: str, function: str, term: int) -> Worker:
        worker = self.house.worker(f"ana#{term}", term, destination)
        worker.function = function
        return worker

    async def send(
        self,
        key: str,
        behaviour: Behaviour | None = None,
        *,
        destination: str = "crm",
        function: str = "relatorio",
        term: int = 7,
        **headers: str,
    ) -> Got:
        """Send a write to a path of its own, which behaves as told (or answers 201)."""
        self.crm.on(f"/{key}", behaviour or answer(201, b"{}"))
        self.clock.advance(ms=1)  # effects of one instant have no order
        return await self.worker(destination, function, term).post(f"/{key}", key, **headers)

    async def unknown(self, key: str = "k-1", **changes: Any) -> str:
        """Send a write that is reset; return its effect's id."""
        got = await self.send(key, rst, **changes)
        assert got.problem == "outcome-unknown"
        return str(got.headers["Fence-Effect"])

    async def in_flight(self, key: str, **changes: Any) -> None:
        """Send a write that the destination has got and answers once `gate` is set."""
        before = len(self.crm.received)
        slow = held(self.gate, answer(201, b"{}"))
        self.under_way.append(asyncio.ensure_future(self.send(key, slow, **changes)))
        await self.crm.until_received(before + 1)

    async def land(self) -> None:
        """Let everything that is in flight be answered."""
        self.gate.set()
        await asyncio.gather(*self.under_way)

    async def resolve(self, effect_id: str, as_: str, by: str = "", **more: Any) -> Got:
        body = {"as": as_, "reason": "looked it up"} | more
        headers = said_by(by) if by else {}
        return await self.house.post(f"/v1/effects/{effect_id}/resolve", body, **headers)

    async def effect(self, effect_id: str) -> dict[str, Any]:
        got = await self.house.get(f"/v1/effects/{effect_id}")
        assert got.status == 200, got.body
        shown: dict[str, Any] = got.json
        return shown

    async def exception(self, effect_id: str) -> dict[str, Any]:
        """Wait until an effect is in a person's hands; return its exception."""
        for _ in range(1000):
            shown = await self.effect(effect_id)
            if shown["exception_id"] is not None:
                break
            await asyncio.sleep(0.01)
        got = await self.house.get(f"/v1/exceptions/{shown['exception_id']}")
        assert got.status == 200, got.body
        case: dict[str, Any] = got.json
        return case

    async def keys(self, query: str = "", by: str = "") -> list[str]:
        """The keys of the effects that a query lists, newest first."""
        got = await self.house.get(f"/v1/effects{query}", **(said_by(by) if by else {}))
        assert got.status == 200, got.body
        return [item["key"] for item in got.json["items"]]
