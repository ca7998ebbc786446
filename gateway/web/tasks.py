"""Background tasks, held so that none is lost and none fails unheard.

The event loop keeps only weak references to tasks: one that nobody holds may vanish in the
middle of a send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from structlog.typing import FilteringBoundLogger

from gateway.web.errors import new_incident_id

T = TypeVar("T")


class Tasks:
    """Keeps the background tasks of one event loop."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._held: set[asyncio.Task[Any]] = set()

    def start(self, coro: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run `coro` until it ends, whatever becomes of the caller."""
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._held.add(task)
        task.add_done_callback(self._ended)
        return task

    def launch(self, coro: Coroutine[Any, Any, Any], name: str) -> None:
        """As `start`, for work whose result nobody waits for."""
        _ = self.start(coro, name)

    @property
    def running(self) -> int:
        return len(self._held)

    async def drain(self, timeout_s: float) -> set[asyncio.Task[Any]]:
        """Wait until no task is left, those started meanwhile included.

        Returns the tasks that have not finished in time. They go on running.
        """
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + timeout_s
        while self._held:
            left_s = give_up_s - loop.time()
            if left_s <= 0:
                break
            await asyncio.wait(self._held, timeout=left_s)
            # The callbacks that let go of finished tasks run one turn of the loop later.
            await asyncio.sleep(0)
        return {task for task in self._held if not task.done()}

    def cancel_all(self) -> None:
        """Ask every task to end. `drain` waits until they have."""
        for task in self._held:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._held.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._log.error(
                "task-failed", incident=new_incident_id(), task=task.get_name(), exc_info=error
            )
