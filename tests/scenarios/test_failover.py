"""The primary dies under load, and its synchronous standby is promoted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from gateway.core.effect import Outcome
from gateway.demo.processes import Children
from tests.house import Got
from tests.scenarios.fleet import Fleet
from tests.scenarios.load import Load
from tests.scenarios.pair import Pair, running_pair
from tests.scenarios.proof import dice
from tests.scenarios.stage import until


class TimedLoad(Load):
    """Remembers when writes succeeded, and under which terms."""

    def __init__(self, fleet: Fleet, throws: Random) -> None:
        super().__init__(fleet, throws)
        self.succeeded_s: list[float] = []

    def _note(self, got: Got, floor: int) -> None:
        super()._note(got, floor)
        if got.status in (200, 201):
            self.succeeded_s.append(time.monotonic())


@pytest.fixture
def pair() -> Iterator[Pair]:
    with running_pair() as made:
        yield made


@pytest.fixture
def fleet(tmp_path: Path, pair: Pair) -> Iterator[Fleet]:
    with Children(tmp_path) as children:
        made = Fleet(tmp_path, children, disk=tmp_path / "var", url=pair.url)
        yield made
        made.clear()


async def test_what_was_acknowledged_outlives_the_primary_and_nothing_is_done_twice(
    fleet: Fleet, pair: Pair
):
    await fleet.open(2)
    load = TimedLoad(fleet, dice("failover"))
    await load.prepare()
    load.up.set()

    async with load.running():
        await until(lambda: len(load.succeeded_s) > 100, "writes before the failover")
        load.term += 1
        await asyncio.to_thread(pair.kill_primary)
        killed_s = time.monotonic()
        await until(lambda: _refused(load), "writes to be refused while there is no primary")
        unready = await fleet.until_ready(503)
        read = await fleet.crm("GET", "/contacts")
        through = await fleet.get("/d/crm/contacts")
        await asyncio.to_thread(pair.promote)
        promoted_s = time.monotonic()
        load.term += 1
        again = load.succeeded_s.copy()
        await until(lambda: len(load.succeeded_s) > len(again) + 100, "writes after it")
    account = await load.settle_down()
    outcomes = {key: effect.outcome for key, effect in (await fleet.effects()).items()}

    before_s = max(s for s in load.succeeded_s if s <= killed_s)
    after_s = min(s for s in load.succeeded_s if s > promoted_s)
    print(f"failover: {sum(load.answers.values())} answers, {account}")
    print(f"failover: callers got {dict(load.answers.most_common())}")
    print(
        f"failover: {after_s - before_s:.2f} s without writes, {after_s - promoted_s:.2f} s of "
        "them after the promotion"
    )
    assert "the ledger cannot be written" in str(unready["reasons"])
    assert (through.status, len(through.json["items"])) == (200, len(read["items"]))
    told = [wish.key for wish in load.wishes if wish.told_done]
    assert [key for key in told if outcomes.get(key) is not Outcome.CONFIRMED] == []
    assert account.broken == {}
    assert await load.lies() == []
    assert load.term_fell == []


def _refused(load: Load) -> bool:
    return load.answers["503 ledger-unavailable"] > 10
