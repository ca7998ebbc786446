"""Leadership for threads: the elector runs in a thread of its own.

    with gateway.client.lead(url, function="daily-report", worker="w1") as leadership:
        with leadership.item("lead-1"):
            leadership.effect("POST", "crm", "/contacts", json={...})

A thread cannot be cancelled. After a loss every command raises LeadershipLost before anything is
sent; long work between commands asks `leadership.check()`. Context variables do not pass into
other threads by themselves: start those with `contextvars.copy_context().run`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, TypeVar

from gateway.client.context import Fence, entered
from gateway.client.effects import EffectAnswer
from gateway.client.elector import Elector
from gateway.client.errors import LeadershipLost
from gateway.client.leadership import Leadership

T = TypeVar("T")
JOIN_S: Final = 15.0


class ThreadLeadership:
    """A `Leadership`, to be used from threads. Its methods do what those do, and wait."""

    def __init__(self, leadership: Leadership, loop: asyncio.AbstractEventLoop) -> None:
        self._leadership = leadership
        self._loop = loop
        self.function = leadership.function
        self.unit = leadership.unit
        self.term = leadership.term
        self.holder = leadership.holder

    @property
    def state(self) -> str:
        return self._leadership.state

    @property
    def remaining_s(self) -> float:
        return self._leadership.remaining_s

    @property
    def lost(self) -> LeadershipLost | None:
        return self._leadership.lost

    @property
    def fence(self) -> Fence:
        return self._leadership.fence

    def check(self) -> None:
        self._leadership.check()

    def item(self, item: str) -> AbstractContextManager[Fence]:
        return self._leadership.item(item)

    def step(self, name: str) -> AbstractContextManager[Fence]:
        return self._leadership.step(name)

    def key(self, *parts: str | int) -> str:
        return self._leadership.key(*parts)

    def keyed(self, key: str) -> AbstractContextManager[Fence]:
        return self._leadership.keyed(key)

    def effect(self, method: str, destination: str, path: str, **how: Any) -> EffectAnswer:
        """As `Leadership.effect`, with its keyword arguments."""
        return self._wait(self._leadership.effect(method, destination, path, **how))

    def session(self, destination: str) -> ThreadSession:
        return ThreadSession(self, destination)

    def step_down(self, drain_s: float | None = None) -> None:
        self._wait(self._leadership.step_down(drain_s))

    def hand_off(self, to: str) -> None:
        self._wait(self._leadership.hand_off(to))

    def release(self) -> None:
        self._wait(self._leadership.release())

    def _wait(self, coro: Coroutine[Any, Any, T]) -> T:
        if not self._loop.is_running():
            coro.close()
            raise LeadershipLost(message="the `with lead(...)` block has ended; nothing was sent")
        # the context of this thread goes along: item and step are those in force here
        return asyncio.run_coroutine_threadsafe(coro, self._loop).result()


class ThreadSession:
    """`effect`, bound to one destination."""

    def __init__(self, leadership: ThreadLeadership, destination: str) -> None:
        self._leadership = leadership
        self.destination = destination

    def request(self, method: str, path: str, **how: Any) -> EffectAnswer:
        return self._leadership.effect(method, self.destination, path, **how)

    def get(self, path: str, **how: Any) -> EffectAnswer:
        return self.request("GET", path, **how)

    def post(self, path: str, **how: Any) -> EffectAnswer:
        return self.request("POST", path, **how)

    def put(self, path: str, **how: Any) -> EffectAnswer:
        return self.request("PUT", path, **how)

    def patch(self, path: str, **how: Any) -> EffectAnswer:
        return self.request("PATCH", path, **how)

    def delete(self, path: str, **how: Any) -> EffectAnswer:
        return self.request("DELETE", path, **how)


class _Background:
    """The thread in which one elector follows, leads once, and takes its leave."""

    def __init__(self, elector: Elector) -> None:
        self._elector = elector
        self.led: concurrent.futures.Future[ThreadLeadership] = concurrent.futures.Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway.client", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._begun.wait()

    def stop(self) -> None:
        """End the elector, wherever it is, and wait until it has."""
        if self._loop is not None and self._task is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # it has ended by itself meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(JOIN_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except Exception as error:  # whatever it is, the waiting thread is to have it
            if not self.led.done():
                self.led.set_exception(error)
        finally:
            self._begun.set()

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._begun.set()
        async with self._elector as elector:
            leadership = await anext(elector)
            self.led.set_result(ThreadLeadership(leadership, self._loop))
            await asyncio.Event().wait()  # until it is stopped; the heartbeat goes on meanwhile


@contextmanager
def lead(
    url: str | None = None,
    *,
    function: str,
    worker: str,
    wait_s: float | None = None,
    **options: Any,
) -> Iterator[ThreadLeadership]:
    """Follow until this worker leads, for `wait_s` at most; release at the end of the block.

    `options` are those of `Elector`. Raises TimeoutError if the wait was in vain. A loss does not
    pass silently: the LeadershipLost that a command raises leaves the block.
    """
    elector = Elector(url, function=function, worker=worker, **options)
    background = _Background(elector)
    background.start()
    try:
        try:
            leadership = background.led.result(wait_s)
        except TimeoutError:
            raise TimeoutError(
                f"{elector.holder} did not become leader of {function!r} within {wait_s} s; "
                f"last told: {elector.refusal or 'nothing'}"
            ) from None
        with entered(leadership.fence):
            yield leadership
    finally:
        background.stop()
