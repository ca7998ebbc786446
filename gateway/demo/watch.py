"""Looking at a run from outside: the gateway as its operator, the CRM from behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import aiohttp
import orjson

from gateway.demo.agents import JSON_TYPE, Crm, NotAnswered, Reply, ask
from gateway.demo.office import Office, opportunities
from gateway.demo.record import NOTES, Record, read_record

PATIENCE_S: Final = 20.0
LOOK_AGAIN_S: Final = 0.05
T = TypeVar("T")
Row = Mapping[str, Any]


@dataclass(eq=False)
class Watch:
    """Who looks, and at what."""

    office: Office
    session: aiohttp.ClientSession

    # -- the gateway

    async def get(self, path: str) -> Any:
        return await self._operator("GET", path)

    async def post(self, path: str, content: Row) -> Any:
        return await self._operator("POST", path, orjson.dumps(content))

    async def _operator(self, method: str, path: str, body: bytes = b"") -> Any:
        headers = _bearer(self.office.operator.token, body)
        url = f"{self.office.gateway_url}{path}"
        reply = await ask(self.session, method, url, headers=headers, body=body)
        if reply.status >= 300:
            raise NotAnswered(f"{method} {path}: {reply.status} {reply.content}")
        return reply.content

    async def until(self, look: Callable[[], Awaitable[T]], what: str) -> T:
        """Look again and again until there is something; return it."""
        give_up_s = asyncio.get_running_loop().time() + PATIENCE_S
        while not (found := await look()):
            if asyncio.get_running_loop().time() > give_up_s:
                raise NotAnswered(f"no {what} within {PATIENCE_S:g} s")
            await asyncio.sleep(LOOK_AGAIN_S)
        return found

    async def transition(self, kind: str) -> Row:
        """Wait until something of a kind is in the journal; return the first of it."""

        async def look() -> list[Row]:
            page = await self.get(f"/v1/transitions?function={self.office.function}&limit=500")
            return [one for one in page["items"] if one["kind"] == kind]

        return (await self.until(look, f"transition {kind}"))[0]

    async def units(self) -> list[Row]:
        found: list[Row] = (await self.get(f"/v1/units?function={self.office.function}"))["items"]
        return found

    async def handover(self) -> Row:
        found: Row = await self.get(f"/v1/functions/{self.office.function}/handover")
        return found

    async def record(self) -> Record:
        return await read_record(self.get, self.crm, self.office.function)

    # -- the CRM

    @property
    def crm(self) -> Crm:
        return Crm(self.session, self.office.crm_url)

    async def seed(self, count: int) -> None:
        """Put opportunities into the CRM, as sales people do: not through the gateway."""
        for fields in opportunities(count):
            body = orjson.dumps(fields)
            reply = await self.write_directly(self.office.crm_token, "/opportunities", body)
            if reply.status != 201:
                raise NotAnswered(f"an opportunity was not taken: {reply.status} {reply.content}")

    async def write_directly(self, token: str, path: str, body: bytes) -> Reply:
        """Write to the CRM past the gateway."""
        url = f"{self.office.crm_url}{path}"
        return await ask(self.session, "POST", url, headers=_bearer(token, body), body=body)

    async def misbehave(self, fault: str, item: str) -> None:
        """Let the CRM do `fault` at the next note about one item."""
        match = {"method": "POST", "intent": f"POST {NOTES} {item}"}
        body = orjson.dumps({"match": match, "fault": fault})
        url = f"{self.office.crm_url}/_sandbox/faults"
        await ask(self.session, "POST", url, headers=JSON_TYPE, body=body)

    async def notes_in_crm(self) -> int:
        """Count the notes that the CRM has, by its own record."""
        journal = await self.crm.journal()
        return sum(bool(entry["applied"]) and entry["target"] == NOTES for entry in journal.entries)


def _bearer(token: str, body: bytes) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **(JSON_TYPE if body else {})}
