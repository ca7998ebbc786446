"""Processes that stand still and go on: the gateway itself, and a leader who has lost its term."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from gateway.demo.processes import python
from tests.scenarios.load import Load
from tests.scenarios.proof import count, dice
from tests.scenarios.stage import Stage, until

SEND_BUDGET_S = 0.5 + 1.0
"""The policy's `connect`, and a second: no first byte leaves later than this."""


def stands_still(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def paused(stage: Stage, seconds: float) -> None:
    """Stop the whole gateway for a while, as a suspended machine or a frozen container does."""
    assert stage.gateway is not None
    pid = stage.gateway.pid
    stage.signal(signal.SIGSTOP)
    try:
        await until(lambda: stands_still(pid), "standstill of the gateway")
        await asyncio.sleep(seconds)  # the pause is the scenario
    finally:
        stage.signal(signal.SIGCONT)


async def test_a_gateway_paused_longer_than_its_send_budget_does_nothing_twice(stage):
    throws, pauses = dice("pause"), count(small=5, full=30)
    await stage.start(timeout="1s")
    load = Load(stage, throws)
    await load.prepare()
    load.up.set()

    async with load.running():
        for _ in range(pauses):
            await asyncio.sleep(throws.uniform(0.05, 0.4))  # any moment will do
            await paused(stage, SEND_BUDGET_S + throws.uniform(0.1, 1.0))
            load.term += 1
    account = await load.settle_down()
    again = await load.retry_unknown()

    print(f"pause: {pauses} pauses, {sum(load.answers.values())} answers, {account}")
    print(f"pause: callers got {dict(load.answers.most_common())}")
    assert account.broken == {}
    assert await load.lies() == []
    assert load.term_fell == []
    assert account.effects > pauses
    assert set(again) == {"423 outcome-unknown"}


async def test_a_write_whose_gateway_sleeps_past_its_deadline_is_unknown_and_stays_so(stage):
    await stage.start(timeout="1s")
    sending = asyncio.ensure_future(stage.leader().create("k-1", X_Sandbox_Fault="hold:away"))
    await stage.until_held("away")

    await paused(stage, 2.5)

    assert (await sending).problem == "outcome-unknown"
    await stage.release("away")
    assert (await stage.leader(8).create("k-1")).problem == "outcome-unknown"
    assert await stage.received_keys() == ["k-1"]


async def test_a_leader_that_wakes_up_with_a_command_in_hand_is_turned_away(stage):
    await stage.start()
    words = (str(stage.port), "184", "old-command")
    zombie = stage.children.start("zombie", python("-m", "tests.scenarios.zombie", *words))
    await until(lambda: stands_still(zombie.pid), "standstill of the leader with term 184")
    new = await stage.leader(185, "bo#1").create("new-command")

    os.kill(zombie.pid, signal.SIGCONT)
    code = await asyncio.to_thread(zombie.process.wait, 10)

    assert new.status == 201
    assert (code, zombie.tail()) == (0, "answer 412 stale-term")
    assert await stage.received_keys() == ["new-command"]
    assert stage.ask_ledger("SELECT highest_term FROM scope") == [(185,)]
    assert "old-command" not in await stage.effects()


async def test_a_leader_that_was_never_replaced_may_go_on_after_a_pause(stage):
    await stage.start()
    words = (str(stage.port), "184", "late-command")
    sleeper = stage.children.start("sleeper", python("-m", "tests.scenarios.zombie", *words))
    await until(lambda: stands_still(sleeper.pid), "standstill of the leader with term 184")

    os.kill(sleeper.pid, signal.SIGCONT)
    await asyncio.to_thread(sleeper.process.wait, 10)

    assert sleeper.tail() == "answer 201 None"
    assert await stage.applied_keys() == ["late-command"]
