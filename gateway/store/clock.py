"""The store's clock: Unix milliseconds that never go back, across restarts included."""

from __future__ import annotations

from typing import Final

from gateway.clock import Clock

WRITTEN_EVERY_MS: Final = 100
"""How far the ledger's record of the time may lag behind what was used."""


class StoreClock:
    """Counts from where the ledger stood.

    Inside a process it follows the boot clock, so that stepping the wall clock neither ends
    a lease early nor opens a seal. After a restart on the same boot it goes on by the boot
    clock too; only after a reboot does the wall clock have a say, and then only forwards.
    `jump_ms` is how far it was believed: nothing proves that so much time has passed.
    """

    def __init__(self, clock: Clock, *, now_ms: int, boot_id: str, boot_ms: int) -> None:
        self._clock = clock
        self._boot0_s = clock.boot_s()
        self.boot_id = clock.boot_id()
        elapsed_ms = round(self._boot0_s * 1000) - boot_ms
        if now_ms and boot_id and boot_id == self.boot_id and elapsed_ms >= 0:
            self._base_ms = now_ms + elapsed_ms
            self.jump_ms = 0
            self.downtime_unknown = False
        else:
            lag_ms = WRITTEN_EVERY_MS if now_ms else 0
            self._base_ms = max(now_ms + lag_ms, clock.wall_ms())
            self.jump_ms = self._base_ms - now_ms
            # The wall clock says that no time has passed, which cannot be: it is wrong.
            self.downtime_unknown = bool(now_ms) and self.jump_ms <= lag_ms

    @classmethod
    def fresh(cls, clock: Clock) -> StoreClock:
        return cls(clock, now_ms=0, boot_id="", boot_ms=0)

    def now_ms(self) -> int:
        return self._base_ms + round((self._clock.boot_s() - self._boot0_s) * 1000)

    def boot_ms(self) -> int:
        return round(self._clock.boot_s() * 1000)
