"""How long a worker may believe in its grant, and the clock on which it does.

A grant is trusted from the moment it was *asked* for: the answer may have been under way for any
time, and the gateway began to count before it answered. The clock counts suspend time, because a
machine that slept must not wake up believing.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final, Protocol

RHO: Final = 0.0005
"""How wrong a clock's rate may be: 500 ppm, ten times what NTP corrects in normal times. Counted
twice, for ours and the gateway's."""
JITTER: Final = 0.1
MARGIN_SHARE: Final = 0.15
RENEW_SHARE: Final = 0.25


class Clock(Protocol):
    """Where a worker's time comes from."""

    def boot_s(self) -> float:
        """Seconds on a clock that never steps and counts suspend time."""

    async def sleep(self, seconds: float) -> None:
        """Let others run for that long; longer if the machine is suspended meanwhile."""


class SystemClock:
    """The machine's clocks."""

    def boot_s(self) -> float:
        # where it is missing, CLOCK_MONOTONIC counts suspend time too (macOS), or nothing does
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def trusted_until_s(asked_s: float, remaining_ms: float, margin_s: float) -> float:
    """Return the instant, on the clock of `asked_s`, until which a grant is proof."""
    return asked_s + max(0.0, remaining_ms / 1000 * (1 - 2 * RHO) - margin_s)


def jittered(seconds: float, chance: random.Random) -> float:
    """Return `seconds` give or take a tenth, so that workers started together spread out."""
    return seconds * chance.uniform(1 - JITTER, 1 + JITTER)


class Backoff:
    """Pauses after failures in a row: growing, capped, and never the same for two workers."""

    def __init__(self, chance: random.Random, first_s: float = 0.2, most_s: float = 5.0) -> None:
        self._chance = chance
        self._first_s = first_s
        self._most_s = most_s
        self._failures = 0

    def next_s(self) -> float:
        pause_s = min(self._most_s, self._first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 16)
        return pause_s * self._chance.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._failures = 0
