"""kill -9 of gateways behind a load balancer, over and over: nothing twice, nothing forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.demo.processes import Children
from tests.scenarios.fleet import Fleet, balancer
from tests.scenarios.load import Load
from tests.scenarios.proof import count, dice

GATEWAYS = 3


@pytest.fixture
def fleet(tmp_path: Path, postgres_url: str) -> Iterator[Fleet]:
    with Children(tmp_path) as children:
        made = Fleet(tmp_path, children, disk=tmp_path / "var", url=postgres_url)
        yield made
        made.clear()


async def test_gateways_killed_at_any_moment_do_nothing_twice_and_forget_nothing(fleet: Fleet):
    program = balancer()
    if program is None:
        pytest.skip("HAProxy is not installed: callers have nobody to be shared out by")
    throws, kills = dice("fleet crash"), count(small=4, full=100)
    await fleet.open(GATEWAYS)
    await fleet.balance(program)
    load = Load(fleet, throws, slow="delay:2500ms")
    await load.prepare()
    load.up.set()

    async with load.running():
        for _ in range(kills):
            # A random moment is what is wanted here: nothing is being waited for.
            await asyncio.sleep(throws.uniform(0.05, 0.5))
            port = throws.choice(list(fleet.gateways))
            await fleet.kill_one(port)
            load.term += 1
            await fleet.start_one(port)
    account = await load.settle_down()
    again = await load.retry_unknown()

    print(f"fleet crash: {kills} kills, {sum(load.answers.values())} answers, {account}")
    print(f"fleet crash: callers got {dict(load.answers.most_common())}")
    assert account.broken == {}
    assert await load.lies() == []
    assert load.term_fell == []
    assert account.effects > kills
    assert set(again) <= {"423 outcome-unknown"}
    assert again.total() == account.unknown
    applied = await fleet.applied_keys()
    assert len(applied) == len(set(applied))
