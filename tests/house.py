"""A whole gateway inside the test's own event loop: real sockets, real SQLite, time handed in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from gateway.app import Gateway
from gateway.clock import Clock
from gateway.settings import load_settings

FUNCTION = """
function: relatorio
authority: external
leadership: function
max_term_jump: 1000
exceptions: {owner: ops-comercial, deadline: 4h}
"""

DESTINATION = """
destination: crm
base_url: http://127.0.0.1:%(port)d
checked: 2026-11-30
limits: {timeout: 5s, connect: 2s, settle: 1s, barrier_wait: 300ms}
connections: fresh
routes:
  - {match: "GET|HEAD /{rest*}", does: read}
  - {match: "POST|PUT|PATCH|DELETE|OPTIONS /{rest*}", does: write, guard: none}
"""


@dataclass
class Got:
    """An answer as the caller received it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str | None:
        """The slug of the problem, if this is one of ours."""
        if self.headers.get("Content-Type") != "application/problem+json":
            return None
        slug: str = self.json["type"].removeprefix("/problems/")
        return slug


@dataclass
class Worker:
    """A leader (or somebody who believes to be one) calling through the gateway."""

    session: aiohttp.ClientSession
    base: str
    holder: str
    term: int
    function: str = "relatorio"

    def headers(self, key: str | None, **more: str) -> dict[str, str]:
        fence = {
            "Fence-Function": self.function,
            "Fence-Term": str(self.term),
            "Fence-Holder": self.holder,
        }
        if key is not None:
            fence["Idempotency-Key"] = key
        return fence | {name.replace("_", "-"): value for name, value in more.items()}

    async def send(
        self, method: str, path: str, *, key: str | None = None, body: Any = None, **more: str
    ) -> Got:
        """Send one request; `more` are header fields with _ for -."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = self.headers(key, **more)
        if data is not None:
            headers.setdefault("Content-Type", "application/json")
        async with self.session.request(
            method, f"{self.base}{path}", data=data, headers=headers, allow_redirects=False
        ) as answer:
            return Got(answer.status, answer.headers.copy(), await answer.read())

    async def post(self, path: str, key: str, body: Any = None, **more: str) -> Got:
        return await self.send("POST", path, key=key, body={} if body is None else body, **more)


@dataclass
class House:
    """A running gateway and the ways to call it."""

    gateway: Gateway
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"

    def worker(self, holder: str = "ana#1", term: int = 7, destination: str = "crm") -> Worker:
        return Worker(self.session, f"{self.url}/d/{destination}", holder, term)

    async def get(self, path: str, **headers: str) -> Got:
        async with self.session.get(f"{self.url}{path}", headers=headers) as answer:
            return Got(answer.status, answer.headers.copy(), await answer.read())

    async def post(self, path: str, body: Any, **headers: str) -> Got:
        async with self.session.post(f"{self.url}{path}", json=body, headers=headers) as answer:
            return Got(answer.status, answer.headers.copy(), await answer.read())


def write_policies(folder: Path, files: Mapping[str, str]) -> Path:
    """Write policy files, a name and a text each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    return folder


@asynccontextmanager
async def running_house(
    folder: Path,
    policies: Mapping[str, str],
    *,
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncIterator[House]:
    """Run a gateway over `policies` on a free port, its ledger in `folder`."""
    given: dict[str, Any] = {
        "policies": write_policies(folder / "policies", policies),
        "ledger": f"sqlite:///{(folder / 'ledger.db').absolute()}",
        "listen": "127.0.0.1:0",
        "dev": True,
        "drain_s": 1.0,
        "log_level": "error",
    }
    gateway = await Gateway.build(load_settings(**(given | settings)), clock)
    try:
        await gateway.start()
        async with aiohttp.ClientSession(
            auto_decompress=False, connector=aiohttp.TCPConnector(limit=0, force_close=True)
        ) as session:
            yield House(gateway, session)
    finally:
        await gateway.stop()
