"""The code under `async with leadership`: cancelled at a loss, as `asyncio.timeout` does it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gateway.client.errors import LeadershipLost, NotInCommand


class Body:
    """The task that runs it, and the sections that a loss does not cut in two."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._to_end = False
        self._cancelled = False
        self._commits = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def enter(self) -> None:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        if self._to_end:
            asyncio.get_running_loop().call_soon(self.end)

    def leave(self, error: BaseException | None) -> bool:
        """Say whether `error` is nothing but the loss. What somebody else cancelled stays so."""
        task, self._task = self._task, None
        alone = True
        if self._cancelled and task is not None:
            alone = task.uncancel() <= self._cancelling
        if isinstance(error, asyncio.CancelledError):
            return self._cancelled and alone
        # Before 3.13 a TaskGroup whose part fails while it waits for the others leaves a
        # cancelling of its own behind on the task.
        if not alone and sys.version_info >= (3, 13):
            return False
        if isinstance(error, BaseExceptionGroup):
            return error.split((LeadershipLost, NotInCommand))[1] is None
        return isinstance(error, LeadershipLost | NotInCommand)

    def end(self) -> None:
        """Cancel it: now, or once the last commit section has ended.

        Only called by the event loop, never from within the task: a task that cancels itself
        may have left the body by the time it notices.
        """
        self._to_end = True
        if self._task is not None and not self._commits and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    @contextmanager
    def committing(self) -> Iterator[None]:
        self._commits += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._commits -= 1
            if not self._commits:
                self._quiet.set()
                if self._to_end:
                    asyncio.get_running_loop().call_soon(self.end)

    async def until_quiet(self, timeout_s: float) -> None:
        """Wait until nothing is being committed, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._quiet.wait()
