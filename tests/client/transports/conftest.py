"""The same request through each transport, and a gateway that is played on bare sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import httpx
import pytest
from yarl import URL

from gateway.client.aiohttp import fence_middleware
from gateway.client.context import Fence, StepCounter, entered
from gateway.client.errors import FencegateError
from gateway.client.httpx import AsyncFenceTransport, FenceTransport
from gateway.client.requests import fence_session
from tests.raw_destination import Behaviour, RawDestination, answer

CLIENTS = ("httpx", "httpx-async", "requests", "aiohttp")
DESTINATIONS = {"https://api.example.com": "crm", "https://old.example.com/v3": "old"}


@dataclass
class Leadership:
    """A proof of leadership, or the lack of one."""

    url: str
    token: str | None = None
    lost: FencegateError | None = None
    refused: list[FencegateError] = field(default_factory=list)

    def check(self) -> None:
        if self.lost:
            raise self.lost

    def refuted(self, error: FencegateError) -> None:
        self.refused.append(error)


@dataclass
class Caller:
    """Calls the destination's own URLs by one of the clients."""

    client: str
    gateway: RawDestination
    leadership: Leadership
    options: dict[str, Any] = field(default_factory=dict)

    def leads(self, item: str | None = "lead-1", **more: Any) -> Any:
        steps = StepCounter("f", "", item or "")
        return entered(Fence("f", "", 7, "ana#1", self.leadership, steps, item, **more))

    async def send(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        *,
        stream: bool = False,
        follow: bool = False,
        **headers: str,
    ) -> tuple[int, bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.client == "requests":
            return await asyncio.to_thread(self._requests, method, url, body, named, stream, follow)
        if self.client == "httpx":
            return await asyncio.to_thread(self._httpx, method, url, body, named, follow)
        if self.client == "httpx-async":
            transport = AsyncFenceTransport(DESTINATIONS, **self.options)
            async with httpx.AsyncClient(transport=transport) as client:
                got = await client.request(
                    method, url, content=body, headers=named, follow_redirects=follow
                )
                return got.status_code, got.content
        middleware = fence_middleware(DESTINATIONS, **self.options)
        async with (
            aiohttp.ClientSession(middlewares=[middleware]) as session,
            session.request(
                method,
                URL(url, encoded=True),
                data=body,
                headers=named,
                allow_redirects=follow,
            ) as answered,
        ):
            return answered.status, await answered.read()

    def _httpx(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], follow: bool
    ) -> tuple[int, bytes]:
        with httpx.Client(transport=FenceTransport(DESTINATIONS, **self.options)) as client:
            got = client.request(
                method, url, content=body, headers=headers, follow_redirects=follow
            )
            return got.status_code, got.content

    def _requests(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        stream: bool,
        follow: bool,
    ) -> tuple[int, bytes]:
        with fence_session(DESTINATIONS, **self.options) as session:
            got = session.request(
                method, url, data=body, headers=headers, stream=stream, allow_redirects=follow
            )
            return got.status_code, b"".join(got.iter_content(7)) if stream else got.content

    def sent_keys(self) -> list[str | None]:
        return [request.header("Idempotency-Key") for request in self.gateway.received]


def done(status: int = 201, body: bytes = b"{}", *headers: tuple[str, str]) -> Behaviour:
    """The destination's answer as the gateway relays it; the effect is confirmed."""
    return answer(
        status, body, [("Fence-Verdict", "forwarded"), ("Fence-Outcome", "confirmed"), *headers]
    )


def relayed(status: int, body: bytes = b"", *headers: tuple[str, str]) -> Behaviour:
    """An answer of the destination to a read, or to a write without effect."""
    return answer(status, body, [("Fence-Verdict", "forwarded"), *headers])


@pytest.fixture
async def gateway() -> AsyncIterator[RawDestination]:
    async with RawDestination() as played:
        played.default = relayed(200)
        yield played


@pytest.fixture(params=CLIENTS)
def caller(request: pytest.FixtureRequest, gateway: RawDestination) -> Caller:
    return Caller(request.param, gateway, Leadership(gateway.url))
