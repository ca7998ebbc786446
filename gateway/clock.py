"""Time, handed in. Nothing else in the house reads a clock."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def wall_ms(self) -> int:
        """Unix milliseconds. May jump; used to seed the store's clock and to print."""

    def boot_s(self) -> float:
        """Seconds on a clock that never steps and counts suspend time."""

    def boot_id(self) -> str:
        """Which boot `boot_s` counts from; "" if that cannot be told."""


class SystemClock:
    """The machine's clocks. CLOCK_MONOTONIC stands still in suspend, so BOOTTIME is used
    where it exists: a laptop or a VM that slept must not believe in old authority."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot_id(self) -> str:
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        except OSError:
            return ""


class ManualClock:
    """A clock that moves when told; for tests and simulations."""

    def __init__(self, wall_ms: int = 1_790_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._boot_s = 1000.0

    def wall_ms(self) -> int:
        return self._wall_ms

    def boot_s(self) -> float:
        return self._boot_s

    def boot_id(self) -> str:
        return "manual"

    def advance(self, *, seconds: float = 0, ms: int = 0) -> None:
        self._boot_s += seconds + ms / 1000
        self._wall_ms += round(seconds * 1000) + ms

    def step_wall(self, *, seconds: float) -> None:
        """Step the wall clock alone, as an administrator or NTP would."""
        self._wall_ms += round(seconds * 1000)
