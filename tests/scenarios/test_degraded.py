"""A database that may lose what it commits: the gateway works on it, and says so."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.postgres_server import Server
from tests.scenarios.pair import running_pair
from tests.scenarios.stage import Stage, until

UNSEEN = "unseen"


async def readiness(stage: Stage) -> dict[str, Any]:
    got = await stage.get("/readyz")
    assert got.status == 200
    return dict(got.json)


async def gauge(stage: Stage, name: str) -> str:
    text = (await stage.get("/metrics")).body.decode()
    (line,) = [line for line in text.splitlines() if line.startswith(f"fencegate_{name} ")]
    return line.split()[1]


async def until_degraded(stage: Stage, part: str | None) -> None:
    """Wait until what is told has `part` in it; None waits until nothing is told."""

    async def so() -> bool:
        told = (await readiness(stage))["degraded"]
        return not told if part is None else any(part in text for text in told)

    await until(so, f"degraded to be {part!r}")


async def test_a_standby_that_commits_do_not_wait_for_degrades_the_gateway(stage: Stage):
    with running_pair() as pair:
        pair.set("synchronous_standby_names", "")
        await stage.start("--ledger", pair.url)
        leader = stage.leader()

        (told,) = (await readiness(stage))["degraded"]
        assert "none is synchronous" in told
        assert "set synchronous_standby_names" in told
        assert await gauge(stage, "ledger_standby_safe") == "0.0"
        assert await gauge(stage, "ledger_crash_safe") == "1.0"
        assert (await leader.create("k-1")).status == 201

        await asyncio.to_thread(pair.set, "synchronous_standby_names", "*")
        await until_degraded(stage, None)
        assert await gauge(stage, "ledger_standby_safe") == "1.0"

        await asyncio.to_thread(pair.set, "synchronous_commit", "local")
        await until_degraded(stage, "synchronous_commit = local")

        await asyncio.to_thread(pair.set, "synchronous_commit", "on")
        await until_degraded(stage, None)
        assert (await leader.create("k-2")).status == 201

        said = stage.gateway.log.read_text("utf-8")
        assert said.count('"ledger-degraded"') == 2
        assert said.count('"ledger-sound"') == 2


async def test_a_role_that_may_not_see_standbys_is_told_which_right_it_lacks(stage: Stage):
    with running_pair() as pair:
        pair.primary.psql(f"CREATE ROLE {UNSEEN} LOGIN")
        name = pair.url.partition("@/")[2].partition("?")[0]
        pair.primary.psql(f"ALTER DATABASE {name} OWNER TO {UNSEEN}")
        pair.primary.psql(f"ALTER SCHEMA public OWNER TO {UNSEEN}", name)
        pair.set("synchronous_standby_names", "")
        await stage.start("--ledger", pair.url.replace("fencegate@", f"{UNSEEN}@"))

        (told,) = (await readiness(stage))["degraded"]
        assert f"GRANT pg_monitor TO {UNSEEN}" in told
        assert await gauge(stage, "ledger_standby_safe") == "0.0"

        await asyncio.to_thread(pair.primary.psql, f"GRANT pg_monitor TO {UNSEEN}")
        await until_degraded(stage, "none is synchronous")
        await asyncio.to_thread(pair.set, "synchronous_standby_names", "*")
        await until_degraded(stage, None)


async def test_a_database_that_may_lose_a_commit_is_taken_when_told_and_it_shows(
    stage: Stage, postgres_server: Server
):
    name = postgres_server.database()
    postgres_server.psql(f"ALTER DATABASE {name} SET synchronous_commit = off")

    await stage.start("--ledger", postgres_server.url(name), "--ledger-unsafe")

    shown = await readiness(stage)
    assert shown["ledger"]["unsafe"] is True
    (told,) = shown["degraded"]
    assert "synchronous_commit = off" in told
    assert await gauge(stage, "ledger_crash_safe") == "0.0"
    assert await gauge(stage, "ledger_standby_safe") == "1.0"
    assert '"ledger-unsafe"' in stage.gateway.log.read_text("utf-8")
    assert (await stage.leader().create("k-1")).status == 201


async def test_a_ledger_in_a_file_is_not_degraded_and_takes_no_override(stage: Stage):
    await stage.start()

    shown = await readiness(stage)
    assert (shown["degraded"], shown["ledger"]["unsafe"]) == ([], False)
    assert await gauge(stage, "ledger_standby_safe") == "1.0"

    await stage.kill()
    refused = stage.launch("--ledger-unsafe", name="unsafe")
    assert await asyncio.to_thread(refused.process.wait, 20) == 3
    assert "ledger_unsafe is given for a ledger in a file" in refused.log.read_text("utf-8")
