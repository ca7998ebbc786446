"""kill -9 at any moment, over and over: nothing is done twice and nothing sent is forgotten."""

from __future__ import annotations

import asyncio
import random

from tests.scenarios.load import Load
from tests.scenarios.proof import count, dice
from tests.scenarios.stage import Stage


async def crash(stage: Stage, load: Load, throws: random.Random) -> None:
    """Kill the gateway at a random moment of its work, or while it starts; start a new one."""
    # A random moment is what is wanted here: nothing is being waited for.
    await asyncio.sleep(throws.uniform(0.01, 0.3))
    load.up.clear()
    await stage.kill()
    if throws.random() < 0.1:
        stage.gateway = stage.launch()
        await asyncio.sleep(throws.uniform(0.3, 1.2))
        await stage.kill()
    await stage.start_gateway()
    load.term += 1
    load.up.set()


async def test_a_gateway_killed_at_any_moment_does_nothing_twice_and_forgets_nothing(stage):
    throws, kills = dice("crash"), count(small=10, full=200)
    # Slow enough for a write to be still on its way when the next term begins.
    await stage.start(timeout="3s")
    load = Load(stage, throws, slow="delay:2500ms")
    await load.prepare()
    load.up.set()

    async with load.running():
        for _ in range(kills):
            await crash(stage, load, throws)
    account = await load.settle_down()
    again = await load.retry_unknown()

    print(f"crash: {kills} kills, {sum(load.answers.values())} answers, {account}")
    print(f"crash: callers got {dict(load.answers.most_common())}")
    assert account.broken == {}
    assert await load.lies() == []
    assert load.term_fell == []
    assert account.effects > kills
    assert set(again) == {"423 outcome-unknown"}
    assert again.total() == account.unknown
    applied = await stage.applied_keys()
    assert len(applied) == len(set(applied))
    assert stage.ledger_is_sound()
