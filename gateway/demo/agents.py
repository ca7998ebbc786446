"""The callers of the demo: workers, an operator, and the reader of the CRM's own journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from gateway.core.errors import GatewayError

JSON_TYPE = {"Content-Type": "application/json"}


class NotAnswered(GatewayError):
    """The gateway or the sandbox CRM gave no usable answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request as a worker means it. `intent` is what the CRM's journal counts it under;
    `fault` tells the sandbox CRM how to misbehave."""

    method: str
    path: str
    key: str
    body: bytes = b""
    intent: str = ""
    fault: str = ""
    wait_s: int = 0

    @property
    def counted_as(self) -> str:
        return self.intent or self.key


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, with what the `Fence-*` headers say taken apart."""

    status: int
    verdict: str = ""
    reason: str = ""
    outcome: str = ""
    effect_id: str = ""
    after_dispatch: str = ""
    retry_after: str = ""
    content: Any = None

    @property
    def record_id(self) -> str:
        """The id of the CRM record that the answer shows.

        Raises:
            NotAnswered: it shows none.
        """
        if isinstance(self.content, dict) and "id" in self.content:
            return str(self.content["id"])
        raise NotAnswered(f"the answer {self.status} shows no record with an id: {self.content!r}")


def read_reply(status: int, headers: Mapping[str, str], body: bytes) -> Reply:
    """Take an answer apart; a problem's slug stands in where the verdict gives no reason."""
    try:
        content = orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        content = None
    verdict, _, reason = headers.get("Fence-Verdict", "").partition(";")
    slug = ""
    if headers.get("Content-Type", "").startswith("application/problem+json"):
        kind = content.get("type", "") if isinstance(content, dict) else ""
        slug = str(kind).rpartition("/")[2]
    return Reply(
        status=status,
        verdict=verdict.strip(),
        reason=reason.strip().removeprefix("reason=") or slug,
        outcome=headers.get("Fence-Outcome", ""),
        effect_id=headers.get("Fence-Effect", ""),
        after_dispatch=headers.get("Fence-After-Dispatch", ""),
        retry_after=headers.get("Retry-After", ""),
        content=content,
    )


async def ask(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Reply:
    """Send one request and take its answer apart."""
    try:
        async with session.request(method, url, headers=headers, data=body or None) as answer:
            return read_reply(answer.status, answer.headers, await answer.read())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise NotAnswered(f"{method} {url}: {type(error).__name__} {error}") from error


@dataclass(frozen=True, slots=True)
class Worker:
    """A replica that believes that it leads. It holds a gateway token, never the CRM's."""

    session: aiohttp.ClientSession
    destination_url: str
    token: str = field(repr=False)
    function: str
    unit: str
    holder: str
    term: int

    @property
    def label(self) -> str:
        return f"{self.holder.partition('#')[0].rpartition('-')[2]}/{self.term}"

    async def send(self, call: Call) -> Reply:
        """Send `call` through the gateway under this worker's term."""
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Fence-Function": self.function,
            "Fence-Unit": self.unit,
            "Fence-Term": str(self.term),
            "Fence-Holder": self.holder,
            "Idempotency-Key": f'"{call.key}"',
            **_passed_on(call),
        }
        if call.wait_s:
            headers["Prefer"] = f"wait={call.wait_s}"
        url = f"{self.destination_url}{call.path}"
        return await ask(self.session, call.method, url, headers=headers, body=call.body)

    async def send_directly(self, crm_url: str, call: Call) -> Reply:
        """Try the CRM without the gateway, with the only token that this worker has."""
        headers = {"Authorization": f"Bearer {self.token}", **_passed_on(call)}
        url = f"{crm_url}{call.path}"
        return await ask(self.session, call.method, url, headers=headers, body=call.body)


def _passed_on(call: Call) -> dict[str, str]:
    headers = {"X-Sandbox-Intent": call.counted_as, **(JSON_TYPE if call.body else {})}
    if call.fault:
        headers["X-Sandbox-Fault"] = call.fault
    return headers


@dataclass(frozen=True, slots=True)
class Operator:
    """The person who answers for what nobody else can know."""

    session: aiohttp.ClientSession
    gateway_url: str
    token: str = field(repr=False)

    async def effect(self, effect_id: str) -> dict[str, Any]:
        reply = await self._ask("GET", f"/v1/effects/{effect_id}")
        if reply.status != 200 or not isinstance(reply.content, dict):
            raise NotAnswered(f"effect {effect_id} cannot be read: {reply.status} {reply.content}")
        return reply.content

    async def unknown_left(self) -> int:
        """Count the effects that are unknown now."""
        reply = await self._ask("GET", "/v1/effects?outcome=unknown")
        if reply.status != 200 or not isinstance(reply.content, dict):
            raise NotAnswered(f"effects cannot be listed: {reply.status} {reply.content}")
        return len(reply.content["items"])

    async def resolve(self, effect_id: str, *, version: int, reason: str) -> Reply:
        """Say `confirmed` on the evidence in `reason`."""
        body = orjson.dumps({"as": "confirmed", "reason": reason, "version": version})
        return await self._ask("POST", f"/v1/effects/{effect_id}/resolve", body)

    async def _ask(self, method: str, path: str, body: bytes = b"") -> Reply:
        headers = {"Authorization": f"Bearer {self.token}", **(JSON_TYPE if body else {})}
        return await ask(
            self.session, method, f"{self.gateway_url}{path}", headers=headers, body=body
        )


@dataclass(frozen=True, slots=True)
class CrmJournal:
    """What the CRM says that it received and did, at one moment."""

    entries: list[dict[str, Any]]

    @property
    def received(self) -> Counter[str]:
        return Counter(str(entry["intent"]) for entry in self.entries)

    @property
    def applied(self) -> Counter[str]:
        return Counter(str(entry["intent"]) for entry in self.entries if entry["applied"])

    def effect_of(self, intent: str) -> str:
        """Return which version of which record `intent` made: `notes/note-1@1`."""
        found = (entry["effect"] for entry in self.entries if entry["intent"] == intent)
        return next((str(effect) for effect in found if effect), "")

    def headers_seen(self) -> set[str]:
        return {name.lower() for entry in self.entries for name, _ in entry["headers"]}


@dataclass(frozen=True, slots=True)
class Crm:
    """The sandbox CRM from behind: its journal and its held requests."""

    session: aiohttp.ClientSession
    url: str

    async def journal(self) -> CrmJournal:
        content = (await ask(self.session, "GET", f"{self.url}/_sandbox/requests")).content
        if not isinstance(content, list):
            raise NotAnswered(f"the CRM's journal cannot be read: {content!r}")
        return CrmJournal(content)

    async def duplicates(self) -> int:
        content = (await ask(self.session, "GET", f"{self.url}/_sandbox/summary")).content
        return len(content["duplicates"])

    async def until_held(self, name: str) -> None:
        """Wait until a request is being held under `name`."""
        url = f"{self.url}/_sandbox/holds?name={name}&wait=5s"
        content = (await ask(self.session, "GET", url)).content
        if name not in (content or {}):
            raise NotAnswered(f"no request reached the CRM to be held as {name!r} within 5 s")

    async def release(self, name: str) -> None:
        await ask(self.session, "POST", f"{self.url}/_sandbox/release/{name}")
