"""Leaders and followers as they call the control plane, and functions that they may lead."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from yarl import URL

from tests.control.office import Office, policies_of, said_by
from tests.house import Got
from tests.raw_destination import RawDestination

LEASED = """
function: plantao
authority: lease
leadership: function
lease: {ttl: 20s, renew_every: 5s, margin: 3s}
eligible: {versions: ">=2026.10", upgrades: oldest-first}
exceptions: {owner: ops-comercial, deadline: 4h}
"""
OPEN = """
function: ronda
authority: lease
leadership: function
lease: {ttl: 20s, renew_every: 5s, margin: 3s}
"""
PER_UNIT = OPEN.replace("ronda", "carteira").replace("leadership: function", "leadership: unit")
GOOD = {"version": "2026.10.1", "region": "br-southeast", "ready": True, "priority": 0}

LEADING_PEOPLE = {
    "ana": 'functions: ["ronda"]',
    "rui": 'functions: ["ronda"]',
    "bo": 'functions: ["plantao"]',
    "olga": "role: operator",
    "vera": "role: viewer",
}


def policies_with_leases(crm: RawDestination) -> dict[str, str]:
    return policies_of(crm) | {"plantao": LEASED, "ronda": OPEN, "carteira": PER_UNIT}


@dataclass
class Leader:
    """A worker that leads, or would."""

    office: Office
    holder: str = "ana#1"
    function: str = "ronda"
    unit: str | None = None
    by: str = ""
    term: int = 0

    async def ask(self, verb: str, **more: Any) -> Got:
        body: dict[str, Any] = {"holder": self.holder} | more
        if self.unit is not None:
            body.setdefault("unit", self.unit)
        headers = said_by(self.by) if self.by else {}
        got = await self.office.house.post(f"/v1/leases/{self.function}/{verb}", body, **headers)
        if verb == "acquire" and got.status in (200, 201):
            self.term = got.json["term"]
        return got

    async def acquire(self, **more: Any) -> Got:
        return await self.ask("acquire", **more)

    async def named(self, verb: str, **more: Any) -> Got:
        """Ask by the exact term that is held."""
        return await self.ask(verb, **({"term": self.term} | more))

    @property
    def candidate(self) -> str:
        return f"/v1/candidates/{self.function}/{self.holder.replace('#', '%23')}"

    async def report(self, **given: Any) -> Got:
        return await send(self.office, "PUT", self.candidate, GOOD | given, self.by)

    async def withdraw(self) -> Got:
        return await send(self.office, "DELETE", self.candidate, None, self.by)


async def send(office: Office, method: str, path: str, body: Any, by: str) -> Got:
    data = None if body is None else json.dumps(body).encode()
    url = URL(f"{office.house.url}{path}", encoded=True)
    async with office.house.session.request(
        method, url, data=data, headers=said_by(by) if by else {}
    ) as got:
        return Got(got.status, got.headers.copy(), await got.read())


async def lease_of(office: Office, function: str = "ronda", query: str = "", by: str = "") -> Any:
    headers = said_by(by) if by else {}
    got = await office.house.get(f"/v1/leases/{function}{query}", **headers)
    assert got.status == 200, got.body
    return got.json
