"""Asking over HTTP, and the reader of the CRM's own journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from gateway.core.errors import GatewayError

JSON_TYPE = {"Content-Type": "application/json"}


class NotAnswered(GatewayError):
    """The gateway or the sandbox CRM gave no usable answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; `content` is None where it is no JSON."""

    status: int
    content: Any = None


def read_reply(status: int, body: bytes) -> Reply:
    try:
        return Reply(status, orjson.loads(body) if body else None)
    except orjson.JSONDecodeError:
        return Reply(status)


async def ask(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Reply:
    """Send one request and read its answer."""
    try:
        async with session.request(method, url, headers=headers, data=body or None) as answer:
            return read_reply(answer.status, await answer.read())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise NotAnswered(f"{method} {url}: {type(error).__name__} {error}") from error


@dataclass(frozen=True, slots=True)
class CrmJournal:
    """What the CRM says that it received and did, at one moment."""

    entries: list[dict[str, Any]]

    def headers_seen(self) -> set[str]:
        """Return the names of all header fields that reached the CRM."""
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
