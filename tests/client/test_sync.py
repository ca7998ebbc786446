"""Leadership for threads, with the machine's own clock."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from gateway.client import LeadershipLost, current, lead
from gateway.client.errors import Forbidden, GatewayUnreachable, StaleTerm
from gateway.client.trust import SystemClock
from tests.client.script import DROP, Script, problem, scripted


@pytest.fixture
def script() -> Iterator[Script]:
    """Serve from a thread, as the tests themselves block theirs."""
    served = Script(SystemClock())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()

    async def begin() -> None:
        await stack.enter_async_context(scripted(served))

    asyncio.run_coroutine_threadsafe(begin(), loop).result(5)
    yield served
    asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


def test_a_thread_leads_works_and_releases(script: Script):
    with lead(script.url, function="f", worker="ana", wait_s=5) as leadership:
        leadership.check()
        with leadership.item("lead-1"):
            answer = leadership.session("crm").post("/contacts", json={"a": 1})
            assert current() is not None

    assert answer.json() == {"id": "c-1"}
    asked = script.of("effect")[0]
    assert asked.headers["idempotency-key"] == '"f//lead-1/POST:crm:/contacts#1"'
    assert (asked.headers["fence-item"], asked.headers["fence-term"]) == ("lead-1", "1")
    assert script.holder is None
    assert current() is None
    with pytest.raises(LeadershipLost):
        leadership.check()
    with pytest.raises(LeadershipLost):
        leadership.effect("POST", "crm", "/c", key="k")


def test_a_thread_that_is_not_made_leader_in_time_is_told_who_leads(script: Script):
    script.grant("bo#1")

    with (
        pytest.raises(TimeoutError, match="lease-held"),
        lead(script.url, function="f", worker="ana", wait_s=0.3),
    ):
        pass

    assert script.holder == "bo#1"
    assert script.of("withdraw")


def test_a_principal_that_may_not_lead_is_told_so(script: Script):
    script.then("acquire", problem("forbidden", 403))

    with pytest.raises(Forbidden), lead(script.url, function="f", worker="ana", wait_s=5):
        pass


def test_a_loss_leaves_the_block_as_an_error(script: Script):
    script.then("effect", problem("stale-term", 412, verdict="refused"))

    def work() -> None:
        with lead(script.url, function="f", worker="ana", wait_s=5) as leadership:
            with pytest.raises(StaleTerm):
                leadership.effect("POST", "crm", "/c", key="k")
            leadership.effect("POST", "crm", "/c", key="k")

    with pytest.raises(LeadershipLost, match="stale-term"):
        work()

    assert len(script.of("effect")) == 1


def test_an_error_in_the_block_goes_on_and_the_lease_is_released(script: Script):
    with pytest.raises(ZeroDivisionError), lead(script.url, function="f", worker="ana", wait_s=5):
        _ = 1 // 0

    assert script.holder is None


def test_threads_work_on_items_of_their_own(script: Script):
    with (
        lead(script.url, function="f", worker="ana", wait_s=5) as leadership,
        concurrent.futures.ThreadPoolExecutor(4) as pool,
    ):

        def work(item: str) -> None:
            with leadership.item(item):
                leadership.effect("POST", "crm", "/c")

        for done in [
            pool.submit(contextvars.copy_context().run, work, f"lead-{n}") for n in range(8)
        ]:
            done.result(5)

    seen = sorted(asked.headers["fence-item"] for asked in script.of("effect"))
    assert seen == [f"lead-{n}" for n in range(8)]


def test_a_thread_steps_down_and_hands_off(script: Script):
    with lead(script.url, function="f", worker="ana", wait_s=5) as leadership:
        leadership.hand_off("bo#1")

        assert leadership.lost is not None
    assert (script.holder, script.of("release")) == ("bo#1", [])

    script.grant(None)
    with lead(script.url, function="f", worker="ana", wait_s=5) as leadership:
        leadership.step_down(drain_s=1)
    assert leadership.state == "leader-lost"


def test_errors_of_a_command_come_to_the_thread_that_sent_it(script: Script):
    script.then("effect", DROP)

    with (
        lead(script.url, function="f", worker="ana", wait_s=5) as leadership,
        pytest.raises(GatewayUnreachable),
    ):
        leadership.effect("POST", "crm", "/c", key="k")
