"""Gateways that share a database: what one writes the others hear, and one keeps house for all."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from gateway.store.hearing import LISTENER
from tests.house import Got, write_policies
from tests.postgres_server import Server
from tests.scenarios.caller import ask
from tests.scenarios.holding import Holder, leased
from tests.scenarios.stage import Stage, until

POLICY = leased("relatorio", ttl="30s", renew_every="5s", margin="3s")
SHORT = leased("relatorio", ttl="2s", renew_every="400ms", margin="300ms")
SOON_S = 0.5  # a follower would otherwise look again after its long poll of 20 s
TAKEN_OVER_S = 15.0


@dataclass
class At:
    """One of the gateways, for a caller."""

    port: int


async def fleet(stage: Stage, url: str, policy: str = POLICY) -> tuple[At, At]:
    """Start the CRM and two gateways on one database; the first one keeps house."""
    await stage.start_crm()
    stage.write_policies()
    write_policies(stage.policies, {"relatorio": policy})
    gateways = []
    for name in ("first", "second"):
        await stage.start_gateway("--ledger", url, name=name)
        gateways.append(At(stage.port))
    return gateways[0], gateways[1]


async def follow(at: At, version: int, wait_s: int = 20) -> tuple[Got, float]:
    """Wait for another version of the lease; return what came, and when."""
    path = f"/v1/leases/relatorio?wait_s={wait_s}&after_version={version}"
    got = await ask(at.port, "GET", path)
    return got, time.monotonic()


async def waiting_follower(holder: Holder) -> asyncio.Task[tuple[Got, float]]:
    """Return a follower that has been taken up: its gateway has answered others behind it."""
    version = (await holder.look())["version"]
    waiting = asyncio.create_task(follow(holder.stage, version))
    for _ in range(3):
        await holder.look()
    assert not waiting.done()
    return waiting


async def test_a_follower_at_one_gateway_hears_of_a_release_at_the_other(
    stage: Stage, postgres_url: str
):
    first, second = await fleet(stage, postgres_url)
    ana, bo = Holder(first, "ana#1"), Holder(second, "bo#1")
    assert (await ana.ask("acquire")).status == 201
    waiting = await waiting_follower(bo)

    released_s = time.monotonic()
    assert (await ana.ask("release")).status == 200
    got, heard_s = await waiting
    granted = await bo.ask("acquire")

    print(f"heard at the other gateway {(heard_s - released_s) * 1000:.0f} ms after the release")
    assert got.json["holder"] is None
    assert heard_s - released_s < SOON_S
    assert (granted.status, granted.json["term"]) == (201, 2)


async def test_what_cannot_be_heard_is_looked_for_once_a_second(
    stage: Stage, postgres_server: Server, postgres_url: str
):
    first, second = await fleet(stage, postgres_url)
    ana, bo = Holder(first, "ana#1"), Holder(second, "bo#1")
    assert (await ana.ask("acquire")).status == 201
    waiting = await waiting_follower(bo)

    await asyncio.to_thread(
        postgres_server.psql,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE application_name = '{LISTENER}'",
    )
    released_s = time.monotonic()
    assert (await ana.ask("release")).status == 200
    _, heard_s = await waiting

    print(f"found {heard_s - released_s:.2f} s after the release, with nobody listening")
    assert heard_s - released_s < 3


async def test_the_transitions_of_one_gateway_are_streamed_by_the_other(
    stage: Stage, postgres_url: str
):
    first, second = await fleet(stage, postgres_url)
    reader, writer = await asyncio.open_connection("127.0.0.1", second.port)
    writer.write(
        b"GET /v1/transitions?after=0 HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"
    )
    await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)

    assert (await Holder(first, "ana#1").ask("acquire")).status == 201

    async def acquired() -> None:
        while b"leader-acquired" not in await reader.readline():
            pass

    await asyncio.wait_for(acquired(), 5)
    writer.close()


async def test_when_the_one_that_keeps_house_dies_another_does_it(
    stage: Stage, postgres_server: Server, postgres_url: str
):
    """Nobody asks for the lease: its end is journalled by a keeper, or not at all."""
    _first, second = await fleet(stage, postgres_url, SHORT)
    assert (await Holder(second, "ana#1").ask("acquire")).status == 201
    stage.children.started[1].kill()
    died_s = time.monotonic()

    async def lost() -> Any:
        got = await ask(second.port, "GET", "/v1/transitions?after=0&limit=100")
        return [one for one in got.json["items"] if one["kind"] == "leader-lost"]

    (gone,) = await until(lost, "the end of the lease", TAKEN_OVER_S)

    print(f"journalled by its successor {time.monotonic() - died_s:.1f} s after the keeper died")
    assert (gone["term"], gone["reason"]) == (1, "expired")
