"""A real sandbox CRM on a free port for each test that asks, and a client that speaks to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from multidict import CIMultiDictProxy
from yarl import URL

from gateway.sandbox.server import build_app, running

ENOUGH_S = 10.0


class Client:
    """What the tests say to the sandbox; aiohttp for the polite, raw sockets for the rest."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session

    async def ask(
        self, method: str, path: str, content: Any = None, *, data: Any = None, **headers: str
    ) -> tuple[int, Any, CIMultiDictProxy[str]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(
            method, URL(self.url + path, encoded=True), json=content, data=data, headers=named
        ) as answer:
            raw = await answer.read()
            is_json = "json" in answer.headers.get("Content-Type", "") and raw
            return answer.status, await answer.json() if is_json else raw, answer.headers

    async def journal(self, query: str = "") -> list[dict[str, Any]]:
        return (await self.ask("GET", f"/_sandbox/requests?{query}"))[1]

    async def summary(self) -> dict[str, Any]:
        return (await self.ask("GET", "/_sandbox/summary"))[1]

    async def dial(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send one request over a connection of its own, and leave the answer to the caller."""
        at = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named = {
            "Host": at.netloc,
            "Connection": "close",
            "Content-Length": str(len(body)),
            **named,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        start = f"{method} {path} HTTP/1.1\r\n{head}\r\n"
        writer.write(start.encode("utf-8", "surrogateescape") + body)
        await writer.drain()
        return reader, writer

    async def received(self, at_least: int) -> list[dict[str, Any]]:
        """Wait until that many requests are in the journal."""
        return await self.journal(f"since={at_least - 1}&wait=10s")


Start = Callable[..., Awaitable[Client]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start a sandbox with the given options; every one is stopped after the test."""
    async with AsyncExitStack() as stack:

        async def start_one(**options: Any) -> Client:
            url = await stack.enter_async_context(running(build_app(**options)))
            timeout = aiohttp.ClientTimeout(total=ENOUGH_S)
            session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
            return Client(url, session)

        yield start_one


@pytest.fixture
async def crm(start: Start) -> Client:
    return await start()
