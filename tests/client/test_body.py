"""The body under a leadership, and how a leader leaves of its own will."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.client.context import current
from gateway.client.elector import Elector
from gateway.client.errors import LeadershipLost
from tests.client.conftest import MakeElector
from tests.client.hand_clock import HandClock, until
from tests.client.script import DROP, Asked, Reply, Script, problem
from tests.client.working import Notes, body, led


async def test_a_body_that_somebody_else_cancels_stays_cancelled(
    elector: Elector, clock: HandClock, notes: Notes, script: Script
):
    leadership = await led(elector, clock)
    working = asyncio.ensure_future(body(leadership, notes))
    await asyncio.sleep(0)

    working.cancel()
    await asyncio.wait([working])

    assert working.cancelled()
    assert script.of("release")


async def test_a_loss_does_not_hide_that_somebody_else_cancels(
    elector: Elector, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    working = asyncio.ensure_future(body(leadership, notes))
    await asyncio.sleep(0)

    leadership.lose("margin", "for the test")
    await asyncio.sleep(0)
    working.cancel()
    await asyncio.wait([working])

    assert working.cancelled()


async def test_a_commit_that_somebody_else_cancels_is_no_loss(elector: Elector, clock: HandClock):
    leadership = await led(elector, clock)

    async def work() -> None:
        async with leadership, leadership.commit():
            leadership.lose("margin", "for the test")
            await asyncio.Event().wait()

    working = asyncio.ensure_future(work())
    for _ in range(3):
        await asyncio.sleep(0)
    working.cancel()
    await asyncio.wait([working])

    assert working.cancelled()


async def test_an_error_in_the_body_goes_on_and_the_lease_is_released(
    elector: Elector, clock: HandClock, script: Script
):
    leadership = await led(elector, clock)

    with pytest.raises(ZeroDivisionError):
        async with leadership:
            _ = 1 // 0

    assert script.holder is None


async def test_tasks_of_a_group_in_the_body_end_with_it(
    elector: Elector, clock: HandClock, notes: Notes, script: Script
):
    leadership = await led(elector, clock)
    ended: list[str] = []

    async def part() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("part")

    async def work() -> str:
        async with leadership, asyncio.TaskGroup() as group:
            group.create_task(part())
            group.create_task(part())
        return "went on"

    working = asyncio.ensure_future(work())
    for _ in range(3):
        await asyncio.sleep(0)
    leadership.lose("margin", "for the test")
    await until(working.done)

    assert (working.result(), ended) == ("went on", ["part", "part"])


async def test_a_lost_command_in_a_group_raises_nothing_outside(
    elector: Elector, clock: HandClock, script: Script
):
    leadership = await led(elector, clock)
    script.then("effect", problem("stale-term", 412, verdict="refused"))

    async with leadership, asyncio.TaskGroup() as group:
        group.create_task(leadership.effect("POST", "crm", "/c", key="k"))

    assert leadership.lost is not None


async def test_callbacks_that_fail_change_nothing(
    elect: MakeElector, script: Script, clock: HandClock, caplog: pytest.LogCaptureFixture
):
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    async with elect(on_start=broken, on_lost=broken, on_uncertain=broken) as elector:
        leadership = await led(elector, clock)
        script.then("renew", DROP)
        await clock.until(lambda: leadership.state == "leader-uncertain")
        await clock.until(lambda: leadership.state == "leader-renewing")

    assert [r.message for r in caplog.records].count("gateway.client callback failed") == 3


async def test_stepping_down_admits_nothing_new_and_ends_the_body(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    refused: list[str] = []

    async def during(asked: Asked) -> Reply:
        try:
            leadership.check()
        except LeadershipLost as error:
            refused.append(error.reason)
        return await script.usual(asked)

    script.then("step-down", during)
    working = asyncio.ensure_future(body(leadership, notes))
    await asyncio.sleep(0)

    await leadership.step_down(drain_s=2)
    await until(working.done)

    assert script.of("step-down")[0].json == {"holder": "ana#1", "term": 1, "drain_s": 2}
    assert refused == ["stopping"]
    assert leadership.lost is not None
    assert leadership.lost.reason == "stepped-down"


async def test_a_step_down_that_the_gateway_never_hears_of_ends_it_all_the_same(
    elector: Elector, script: Script, clock: HandClock
):
    leadership = await led(elector, clock)
    script.then("step-down", DROP)

    with pytest.raises(Exception, match="no whole answer"):
        await leadership.step_down()

    assert leadership.remaining_s == 0


async def test_a_hand_off_grants_the_next_term_to_the_one_named(
    elector: Elector, script: Script, clock: HandClock
):
    leadership = await led(elector, clock)

    await leadership.hand_off("bo#1")

    assert (script.holder, script.term) == ("bo#1", 2)
    assert leadership.lost is not None
    assert leadership.lost.reason == "handed-off"
    assert script.of("release") == []


async def test_a_hand_off_to_one_that_may_not_lead_changes_nothing(
    elector: Elector, script: Script, clock: HandClock
):
    leadership = await led(elector, clock)
    script.then("hand-off", problem("not-eligible", 409))

    with pytest.raises(Exception, match="not-eligible"):
        await leadership.hand_off("bo#1")

    leadership.check()


async def test_outside_of_the_body_no_leadership_is_in_force(elector: Elector, clock: HandClock):
    leadership = await led(elector, clock)

    async with leadership:
        assert current() is leadership.fence
    assert current() is None
