"""What the tests of the data plane have in common: policies, and ways to wait for a fact."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from multidict import CIMultiDict

from gateway.wire.principals_file import token_digest
from tests.house import Got, House
from tests.proxy.raw_caller import ask
from tests.raw_destination import Behaviour, RawDestination, Received, Wire

OpenHouse = Callable[..., Awaitable[House]]
PATIENCE_S = 5.0

READ = '{match: "GET|HEAD /{rest*}", does: read}'
WRITE = '{match: "POST|PUT|PATCH|DELETE /{rest*}", does: write, guard: none}'
LIMITS = "{timeout: 5s, connect: 2s, settle: 1s, barrier_wait: 300ms}"


def destination(
    crm: RawDestination, *routes: str, name: str = "crm", prefix: str = "", **words: str
) -> str:
    """Return the policy of a destination: `routes` (or a read and a write), and more words."""
    given = {"limits": LIMITS, "connections": "fresh"} | words
    lines = [f"destination: {name}", f"base_url: {crm.url}{prefix}"]
    lines += [f"{word}: {value}" for word, value in given.items()]
    lines += ["routes:", *(f"  - {route}" for route in routes or (READ, WRITE))]
    return "\n".join(lines) + "\n"


def principals(folder: Path, **rights: str) -> Path:
    """Write a principals file: for each name its rights in YAML, and the token `fg_` + name."""
    lines = ["principals:"]
    for name, given in rights.items():
        fields = {"role": "worker", "functions": '["*"]', "destinations": '["*"]'}
        fields |= dict(word.split(": ", 1) for word in given.split("; ") if word)
        told = ", ".join(f"{word}: {value}" for word, value in fields.items())
        digest = token_digest(f"fg_{name}")
        lines.append(f"  - {{name: {name}, token_sha256: {digest}, {told}}}")
    path = folder / "principals.yaml"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


async def raw_got(house: House, data: bytes, method: str = "GET") -> Got:
    """Send exact bytes; return the answer as other callers see it."""
    answer = await ask(house.gateway.port, data, method)
    fields = CIMultiDict((name, value.decode()) for name, value in answer.fields)
    return Got(answer.status, fields, answer.body)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again until it holds.

    Raises:
        TimeoutError: it does not hold within a few seconds.
    """
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - the gateway has no event for it
            await asyncio.sleep(0.01)


async def effects(house: House, **headers: str) -> list[dict[str, Any]]:
    """What the ledger shows, newest first."""
    got = await house.get("/v1/effects", **headers)
    assert got.status == 200, got.body
    items: list[dict[str, Any]] = got.json["items"]
    return items


async def until_settled(house: House, count: int = 1) -> list[dict[str, Any]]:
    """Wait until that many effects are on record and none is in flight."""

    async def settled() -> bool:
        shown = await effects(house)
        return len(shown) == count and all(each["state"] == "settled" for each in shown)

    await eventually(settled)
    return await effects(house)


def verdict(got: Got) -> str | None:
    return got.headers.get("Fence-Verdict")


def held(gate: asyncio.Event, then: Behaviour) -> Behaviour:
    """Answer once the gate opens."""

    async def behave(request: Received, wire: Wire) -> None:
        await gate.wait()
        await then(request, wire)

    return behave
