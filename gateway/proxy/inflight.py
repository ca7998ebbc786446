"""What this process has in flight: who waits for it, and what is left when the process ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.proxy.answer import Answer


@dataclass(frozen=True, slots=True)
class Running:
    """An admitted attempt that this process has not settled yet."""

    effect_id: str
    n: int


class InFlight:
    """The attempts under way here, and the callers that wait for one of them to end.

    Waiters are woken by the settlement; they never inherit the right to send.
    """

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._ends: dict[str, asyncio.Future[Answer | None]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def began(self, effect_id: str, n: int) -> None:
        self._running[effect_id] = Running(effect_id, n)

    def ended(self, effect_id: str, answer: Answer | None) -> None:
        """Wake whoever waits. `answer` is None where it cannot be shared (a stream)."""
        self._running.pop(effect_id, None)
        waiting = self._ends.pop(effect_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def left(self) -> Iterable[Running]:
        return list(self._running.values())

    async def wait(self, effect_id: str, seconds: float) -> Answer | None:
        """Wait until the attempt ends here, at most `seconds`; return what may be shared.

        One that runs elsewhere, or has ended meanwhile, is waited for by asking again: this
        returns soon, so that the ledger is looked at.
        """
        if effect_id not in self._running:
            await asyncio.sleep(min(seconds, 0.1))
            return None
        future = self._ends.get(effect_id)
        if future is None:
            future = self._ends[effect_id] = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait({future}, timeout=seconds)
        return future.result() if done else None
