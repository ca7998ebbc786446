"""Whose time is up. One tick looks over all exchanges; only what is nearly due has a timer.

The loop's timers stand still while the machine sleeps and deadlines do not, so each look reads
the boot clock too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.outbound.exchange import Exchange

TICK_S: Final = 0.25


class Watch:
    """Ends the exchanges that are late."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tidy: Callable[[], bool]) -> None:
        """`tidy` is called with every tick; while it returns True the ticks go on."""
        self._loop = loop
        self._tidy = tidy
        self._tick: asyncio.TimerHandle | None = None
        self._watched: set[Exchange] = set()

    def add(self, exchange: Exchange) -> None:
        self._watched.add(exchange)
        due_s = exchange.due_s()
        if due_s is not None:
            self._arm_if_near(exchange, due_s)
        if self._tick is None:
            self._tick = self._loop.call_later(TICK_S, self._look_over)

    def remove(self, exchange: Exchange) -> None:
        self._watched.discard(exchange)
        if exchange.timer is not None:
            exchange.timer.cancel()
            exchange.timer = None

    def close(self) -> None:
        """Let go of everything, without ending it."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        for exchange in list(self._watched):
            self.remove(exchange)

    @property
    def watched(self) -> list[Exchange]:
        return list(self._watched)

    def _look_over(self) -> None:
        self._tick = None
        for exchange in list(self._watched):
            self._look(exchange)
        if self._tidy() or self._watched:
            self._tick = self._loop.call_later(TICK_S, self._look_over)

    def _look(self, exchange: Exchange) -> None:
        if exchange.is_late():
            exchange.expire()
            return
        due_s = exchange.due_s()
        if due_s is not None:
            self._arm_if_near(exchange, due_s)

    def _arm_if_near(self, exchange: Exchange, due_s: float) -> None:
        if exchange.timer is None and due_s - self._loop.time() < TICK_S:
            exchange.timer = self._loop.call_at(due_s, self._ring, exchange)

    def _ring(self, exchange: Exchange) -> None:
        exchange.timer = None
        self._look(exchange)
