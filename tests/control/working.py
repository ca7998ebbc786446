"""Leaders and workers as they write to units of work over HTTP."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from typing import Any

from yarl import URL

from tests.control.office import Office, policies_of, said_by
from tests.house import Got
from tests.raw_destination import RawDestination

WORKED = """
function: carga
authority: external
leadership: function
callers: leader-or-claimant
units: registered
"""
PER_UNIT = """
function: carteira
authority: lease
leadership: unit
lease: {ttl: 20s, renew_every: 5s, margin: 3s}
callers: leader-or-claimant
"""


def policies_with_units(crm: RawDestination) -> dict[str, str]:
    return policies_of(crm) | {"carga": WORKED, "carteira": PER_UNIT}


def manifest(items: Any = "abc", **more: Any) -> dict[str, Any]:
    """Return a manifest; items are names, or objects as they are."""
    listed = [{"id": item} if isinstance(item, str) else item for item in items]
    return {"sources": ["crm"], "criteria_version": "3", "items": listed} | more


@dataclass
class Hand:
    """Somebody who writes to one unit: its leader, or a worker."""

    office: Office
    unit: str = "carga:2026-10-02"
    function: str = "carga"
    term: int = 7
    holder: str = "ana#1"
    by: str = ""

    def but(self, **changes: Any) -> Hand:
        return replace(self, **changes)

    @property
    def path(self) -> str:
        return f"/v1/units/{self.unit}"

    @property
    def fence(self) -> dict[str, str]:
        return {
            "Fence-Function": self.function,
            "Fence-Term": str(self.term),
            "Fence-Holder": self.holder,
        }

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Got:
        """Send to a path below the unit's; without `headers` with the whole fence."""
        given = dict(self.fence if headers is None else headers)
        given |= said_by(self.by) if self.by else {}
        # a file for the large ones: aiohttp warns of bytes that hold up its event loop
        data = (
            None
            if body is None
            else io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        )
        url = URL(f"{self.office.house.url}{self.path}{path}", encoded=True)
        async with self.office.house.session.request(
            method, url, data=data, headers=given
        ) as answer:
            return Got(answer.status, answer.headers.copy(), await answer.read())

    async def create(self, items: Any = "abc", **more: Any) -> Got:
        plan = {"function": self.function, "manifest": manifest(items)} | more
        return await self.ask("PUT", "", plan)

    async def post(self, verb: str, **body: Any) -> Got:
        return await self.ask("POST", f"/{verb}", body)

    async def claim(self, **more: Any) -> Got:
        return await self.post("claim", **({"limit": 10, "ttl_s": 60} | more))

    async def report(self, *results: tuple[str, str, int], **more: Any) -> Got:
        told = [{"item": i, "state": s, "attempt": n} | more for i, s, n in results]
        return await self.post("report", results=told)

    async def checkpoint(self, item: str, version: str | None, data: Any, **more: str) -> Got:
        known = {} if version is None else {"If-Match": version}
        path = f"/items/{item}/checkpoint"
        return await self.ask("PUT", path, data, self.fence | known | more)

    async def shown(self) -> Any:
        got = await self.ask("GET", "", headers={})
        assert got.status == 200, got.body
        return got.json

    async def items(self, query: str = "") -> Any:
        got = await self.ask("GET", f"/items{query}", headers={})
        assert got.status == 200, got.body
        return got.json

    async def send(self, key: str, item: str | None = None, path: str = "/notes") -> Got:
        """Send an effect of the unit through the data plane."""
        worker = self.office.worker("crm", self.function, self.term)
        worker.holder = self.holder
        more = {"Fence_Unit": self.unit} | ({} if item is None else {"Fence_Item": item})
        more |= {"Fence_Authorization": f"Bearer fg_{self.by}"} if self.by else {}
        return await worker.post(path, key, **more)
