"""A clock for workers that moves when told, and wakes those whose time has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

PATIENCE_S = 5.0


class HandClock:
    """Sleepers sleep until the clock is moved past their time."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def boot_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sleeper = (self.now_s + seconds, future)
        self._sleepers.append(sleeper)
        try:
            await future
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def jump(self, seconds: float) -> None:
        """Move at once, as after a suspend: whoever sleeps wakes up late."""
        self.now_s += seconds
        for at_s, future in list(self._sleepers):
            if at_s <= self.now_s + 1e-9 and not future.done():
                future.set_result(None)

    async def advance(self, seconds: float) -> None:
        """Move step by step, so that everybody wakes up in time."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            waking = [at_s for at_s, future in self._sleepers if not future.done()]
            next_s = min([until_s, *(at_s for at_s in waking if at_s > self.now_s)])
            self.jump(next_s - self.now_s)
            for _ in range(5):
                await asyncio.sleep(0)

    async def until(self, condition: Callable[[], Any], *, step_s: float = 0.05) -> None:
        """Move on until `condition` holds. Between steps, real input and output gets its turn."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await self.advance(step_s)
                await asyncio.sleep(0.001)


async def until(condition: Callable[[], Any]) -> None:
    """Wait, with the clock standing still, until `condition` holds."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)
