"""Slots: how many exchanges a destination carries at once. Waiting is bounded and in order."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class Slots:
    """A counter of free slots with a queue. A waiter holds nothing."""

    def __init__(self, at_once: int, *, queue_max: int = 4096) -> None:
        self._free = at_once
        self.at_once = at_once
        self._queue_max = queue_max
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def resize(self, at_once: int) -> None:
        """Change the number; exchanges under way go on."""
        self._free += at_once - self.at_once
        self.at_once = at_once
        self._wake()

    async def take(self, wait_s: float) -> Slot | None:
        """Return a slot, or None if none came free in time."""
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return Slot(self)
        if len(self._waiting) >= self._queue_max:
            return None
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(wait_s):
                await turn
        except BaseException as error:
            if turn in self._waiting:
                self._waiting.remove(turn)
            if turn.done() and not turn.cancelled():
                self.give_back()  # the slot came at the very moment of giving up
            if isinstance(error, TimeoutError):
                return None
            raise
        return Slot(self)

    def give_back(self) -> None:
        self._free += 1
        self._wake()

    def _wake(self) -> None:
        while self._free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._free -= 1
                turn.set_result(None)


class Slot:
    """One slot, given back once."""

    __slots__ = ("_slots",)

    def __init__(self, slots: Slots) -> None:
        self._slots: Slots | None = slots

    def release(self) -> None:
        if self._slots is not None:
            self._slots.give_back()
            self._slots = None

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
