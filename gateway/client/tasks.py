"""Background tasks and callbacks of a worker, held so that none is lost and none fails unheard."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

LOG: Final = logging.getLogger("gateway.client")


class Tasks:
    """Keeps the tasks of one elector."""

    def __init__(self) -> None:
        self._held: set[asyncio.Task[Any]] = set()

    def start(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(coro, name=name)
        self._held.add(task)
        task.add_done_callback(self._ended)
        return task

    def launch(self, coro: Coroutine[Any, Any, Any], name: str) -> None:
        """As `start`, for work whose result nobody waits for."""
        _ = self.start(coro, name)

    def tell(self, callback: Callable[..., Awaitable[None] | None] | None, *about: Any) -> None:
        """Call a user's callback, in a task of its own: what it does holds nothing up, and what
        goes wrong in it changes nothing."""
        if callback is not None:
            self.launch(_call(callback, about), "gateway.client callback")

    async def drain(self, timeout_s: float) -> None:
        """Wait until all have ended; cancel those that have not in time."""
        left = self._held - {asyncio.current_task()}
        if left:
            _, late = await asyncio.wait(left, timeout=timeout_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=timeout_s)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._held.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("%s failed", task.get_name(), exc_info=error)


async def _call(callback: Callable[..., Awaitable[None] | None], about: tuple[Any, ...]) -> None:
    result = callback(*about)
    if inspect.isawaitable(result):
        await result
