"""Background tasks: none lost, none fails unheard."""

import asyncio
import gc

import structlog
from structlog.testing import CapturingLogger

from gateway.web.tasks import Tasks


def tasks_with_log():
    said = CapturingLogger()
    return Tasks(structlog.wrap_logger(said, processors=[lambda _l, _m, line: ((), line)])), said


async def test_a_task_that_nobody_holds_runs_to_its_end():
    tasks, _ = tasks_with_log()
    go, done = asyncio.Event(), asyncio.Event()

    async def work():
        await go.wait()
        done.set()

    tasks.start(work(), "work")
    await asyncio.sleep(0)
    gc.collect()
    assert tasks.running == 1
    go.set()
    await asyncio.wait_for(done.wait(), 5)

    assert await tasks.drain(5) == set()
    assert tasks.running == 0


async def test_a_failure_is_logged_with_an_incident():
    tasks, said = tasks_with_log()

    async def fails():
        raise RuntimeError("boom")

    tasks.start(fails(), "settle")
    await tasks.drain(5)

    (call,) = said.calls
    assert call.method_name == "error"
    assert call.kwargs["task"] == "settle"
    assert call.kwargs["incident"].startswith("inc-")
    assert isinstance(call.kwargs["exc_info"], RuntimeError)


async def test_drain_waits_for_tasks_that_tasks_started():
    tasks, _ = tasks_with_log()
    ended = []

    async def second():
        ended.append("second")

    async def first():
        tasks.start(second(), "second")
        ended.append("first")

    tasks.start(first(), "first")

    assert await tasks.drain(5) == set()
    assert ended == ["first", "second"]


async def test_drain_names_what_has_not_finished_and_lets_it_run():
    tasks, said = tasks_with_log()
    never = asyncio.Event()
    slow = tasks.start(never.wait(), "slow")

    assert await tasks.drain(0.01) == {slow}
    assert not slow.done()
    tasks.cancel_all()
    assert await tasks.drain(5) == set()

    assert slow.cancelled()
    assert said.calls == []


async def test_the_result_comes_to_whoever_awaits_it():
    tasks, _ = tasks_with_log()

    async def answer():
        return 42

    assert await tasks.start(answer(), "answer") == 42
