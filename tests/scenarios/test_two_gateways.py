"""Two gateway processes on one PostgreSQL ledger, real HTTP, and what the CRM received of it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.postgres_server import Server, running_server
from tests.scenarios.caller import Leader, NoAnswer
from tests.scenarios.stage import Stage, until


async def two(stage: Stage, url: str) -> tuple[int, int]:
    """Start the CRM and two gateways on `url`; return their ports."""
    await stage.start("--ledger", url)
    first = stage.port
    await stage.start_gateway("--ledger", url, name="second")
    return first, stage.port


async def test_what_one_gateway_sent_the_other_does_not_send_again(stage: Stage, postgres_url: str):
    first, second = await two(stage, postgres_url)

    sent = await Leader(first, 7).create("k-1")
    again = await Leader(second, 7).create("k-1")
    newer = await Leader(second, 8, "bo#1").create("k-2")
    older = await Leader(first, 7).create("k-3")

    assert (sent.status, again.status, newer.status) == (201, 201, 201)
    assert again.body == sent.body
    assert (older.status, older.problem) == (412, "stale-term")
    assert await stage.received_keys() == ["k-1", "k-2"]
    assert await stage.applied_keys() == ["k-1", "k-2"]


async def test_under_one_key_the_crm_hears_once_whichever_gateway_is_asked(
    stage: Stage, postgres_url: str
):
    ports = await two(stage, postgres_url)

    answers = await asyncio.gather(
        *(Leader(ports[n % 2], 7).create(f"k-{n // 8}") for n in range(64))
    )

    assert {answer.status for answer in answers} <= {201, 409, 425}
    assert sorted(await stage.received_keys()) == [f"k-{n}" for n in range(8)]


async def test_what_a_killed_gateway_left_is_unknown_to_the_other_and_is_not_repeated(
    stage: Stage, postgres_url: str
):
    """It dies with a write on the wire. Until the deadline that may still be settled by it."""
    first, second = await two(stage, postgres_url)
    dying = stage.children.started[1]
    sending = asyncio.ensure_future(Leader(first, 7).create("k-1", X_Sandbox_Fault="hold:k-1"))
    await stage.until_held("k-1")
    dying.kill()
    got = (await asyncio.gather(sending, return_exceptions=True))[0]
    assert isinstance(got, NoAnswer | OSError), got

    early = await Leader(second, 7).create("k-1")
    assert early.problem == "in-flight"

    async def unknown() -> bool:
        return (await Leader(second, 7).create("k-1")).problem == "outcome-unknown"

    await until(unknown, "the effect is unknown")
    assert await stage.received_keys() == ["k-1"]


async def test_while_the_database_is_gone_nothing_is_sent_and_it_resumes_alone(
    stage: Stage, tmp_path: Path
):
    with running_server() as server:
        await stage.start("--ledger", server.url(server.database()))
        leader = stage.leader()
        assert (await leader.create("k-1")).status == 201

        server.stop(signal.SIGQUIT)  # no farewell: as in a crash
        refused = await leader.create("k-2")
        assert (refused.status, refused.problem) == (503, "ledger-unavailable")

        await asyncio.to_thread(server.start)

        async def back() -> bool:
            return (await leader.create("k-3")).status == 201

        await until(back, "writes are taken again")
        assert (await leader.create("k-1")).status == 201
        older = await Leader(stage.port, 6, "bo#1").create("k-4")
        assert older.problem == "stale-term"
        assert await stage.received_keys() == ["k-1", "k-3"]


async def test_a_database_that_may_lose_a_commit_is_refused(stage: Stage, postgres_server: Server):
    name = postgres_server.database()
    postgres_server.psql(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await stage.start_crm()
    stage.write_policies()

    gateway = stage.launch("--ledger", postgres_server.url(name))
    assert await asyncio.to_thread(gateway.process.wait, 20) == 3

    assert "synchronous_commit = off" in gateway.log.read_text("utf-8")
