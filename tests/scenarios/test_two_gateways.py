"""Two gateway processes on one PostgreSQL ledger, real HTTP, and what the CRM received of it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.postgres_server import Server, running_server
from tests.scenarios.caller import Leader, NoAnswer
from tests.scenarios.stage import Stage, until
from tests.scenarios.test_reconcile_crash import POLICY as RECONCILED
from tests.scenarios.test_reconcile_crash import script


async def two(stage: Stage, url: str, timeout: str = "5s") -> tuple[int, int]:
    """Start the CRM and two gateways on `url`; return their ports. The first keeps house."""
    await stage.start("--ledger", url, timeout=timeout)
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
    second, first = await two(stage, postgres_url, timeout="3s")
    dying = stage.children.started[2]
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


async def test_whoever_waits_at_one_gateway_gets_the_result_of_the_other(
    stage: Stage, postgres_url: str
):
    first, second = await two(stage, postgres_url)
    sending = asyncio.ensure_future(Leader(first, 7).create("k-1", X_Sandbox_Fault="hold:k-1"))
    await stage.until_held("k-1")

    in_flight = await Leader(second, 7).create("k-1")
    sharing = [
        asyncio.ensure_future(Leader(second, 7).create("k-1", Prefer="wait=10")) for _ in range(3)
    ]
    reused = await Leader(second, 7).send("POST", "/contacts", "k-1", {"name": "other"})
    assert not any(each.done() for each in sharing)
    await stage.release("k-1")
    sent, *shared = await asyncio.gather(sending, *sharing)

    assert (in_flight.status, in_flight.problem) == (409, "in-flight")
    assert reused.problem == "key-reused"
    assert [got.status for got in (sent, *shared)] == [201] * 4
    assert {got.body for got in shared} == {sent.body}
    assert await stage.received_keys() == ["k-1"]


async def test_a_newer_leader_at_one_gateway_waits_for_an_older_write_at_the_other(
    stage: Stage, postgres_url: str
):
    first, second = await two(stage, postgres_url)
    older, newer = Leader(first, 7), Leader(second, 8, "bo#1")
    made = await older.send("POST", "/notes", "make", {"text": "a"})
    note = f"/notes/{made.json['id']}"
    old = ("PATCH", note, "old", {"text": "old"})
    overtaken = asyncio.ensure_future(older.send(*old, X_Sandbox_Fault="hold:old"))
    await stage.until_held("old")

    waiting = asyncio.ensure_future(newer.send("PATCH", note, "new", {"text": "new"}))

    async def shut_out() -> bool:  # so the newer one has been to the ledger, and waits
        return (await older.send(*old)).problem == "stale-term"

    await until(shut_out, "the older leader to be shut out")
    assert await stage.received_keys() == ["make", "old"]
    await stage.release("old")

    assert (await waiting).status == 200
    assert (await overtaken).headers["Fence-After-Dispatch"] == "superseded"
    assert await stage.applied_keys() == ["make", "old", "new"]


async def test_the_other_gateway_settles_what_the_one_that_kept_house_was_settling(
    stage: Stage, postgres_url: str
):
    """It dies with a question on the wire; what was lost is sent again once, by its successor."""
    await stage.start_crm()
    stage.write_policies(timeout="600ms", text=RECONCILED)
    ports = []
    for name in ("first", "second"):
        await stage.start_gateway("--ledger", postgres_url, name=name)
        ports.append(stage.port)
    await script(stage, "hold:asked", 1, method="GET", path_prefix="/notes")
    await script(stage, "close-before", 1, method="POST", path_prefix="/notes")
    lost = await Leader(ports[0], 7).send("POST", "/notes", "k-1", {"text": "a"})
    await stage.until_held("asked")

    await asyncio.to_thread(stage.children.started[1].kill)
    await stage.release("asked")

    async def confirmed() -> bool:
        (effect,) = (await stage.get("/v1/effects")).json["items"]
        return bool(effect["outcome"] == "confirmed")

    await until(confirmed, "the effect is confirmed", 30)
    again = await Leader(ports[1], 7).send("POST", "/notes", "k-1", {"text": "a"})

    assert lost.problem == "outcome-unknown"
    assert again.status == 201
    assert await stage.received_keys() == ["k-1", "k-1"]
    assert await stage.applied_keys() == ["k-1"]


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
