"""The store's clock: Unix milliseconds that never go back, across restarts included."""

from __future__ import annotations

from typing import Final, Protocol

from gateway.clock import Clock
from gateway.store.database import Database

WRITTEN_EVERY_MS: Final = 100
"""How far the ledger's record of the time may lag behind what was used."""


BELIEVED_MS: Final = 1_000
"""How far two clocks may differ between two looks before one of them was stepped."""


class Timekeeper(Protocol):
    """The store's time. `jump_ms` is how far an unproven jump was believed at the start."""

    boot_id: str
    jump_ms: int
    downtime_unknown: bool

    def now_ms(self) -> int:
        """Return the time without asking the database."""

    def boot_ms(self) -> int: ...

    def read(self, db: Database) -> int:
        """Return the time inside a transaction, after its locks."""

    def write(self, db: Database, now_ms: int) -> None:
        """Write down how far time has come, inside a transaction."""


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

    def read(self, db: Database) -> int:
        return self.now_ms()

    def write(self, db: Database, now_ms: int) -> None:
        db.execute(
            "UPDATE store_clock SET now_ms = ?, boot_id = ?, boot_ms = ? WHERE id = 1",
            (now_ms, self.boot_id, self.boot_ms()),
        )


class DatabaseClock:
    """One clock for all gateways on a database: its server's, whose steps are taken back.

    Each reading is compared with how long this process's boot clock says it has been. Where the
    two differ by more than drift, the server's clock was stepped, or another server has taken
    over: the difference goes into an offset, which is written down for all, and time goes on as
    if nothing had been. Nothing is known of a step while no gateway ran: then the jump is
    believed, forwards only, and `jump_ms` says how far.
    """

    def __init__(self, clock: Clock, db: Database) -> None:
        self._clock = clock
        self.boot_id = clock.boot_id()
        self._last = (0, clock.boot_s())  # one value: another thread asks for the time, too
        wall_ms, stood_ms, self._offset_ms = _reading(db)
        now_ms = wall_ms + self._offset_ms
        self.downtime_unknown = now_ms < stood_ms
        self.jump_ms = now_ms - stood_ms if stood_ms and now_ms - stood_ms > BELIEVED_MS else 0
        self._set(max(now_ms, stood_ms), wall_ms)

    def now_ms(self) -> int:
        """Return the time as this process has it between two readings."""
        last_ms, last_boot_s = self._last
        return last_ms + round((self._clock.boot_s() - last_boot_s) * 1000)

    def boot_ms(self) -> int:
        return round(self._clock.boot_s() * 1000)

    def read(self, db: Database) -> int:
        wall_ms, stood_ms, offset_ms = _reading(db)
        now_ms, expected_ms = wall_ms + offset_ms, self.now_ms()
        if abs(now_ms - expected_ms) > BELIEVED_MS:
            now_ms = expected_ms
        return self._set(max(now_ms, stood_ms, self._last[0]), wall_ms)

    def _set(self, now_ms: int, wall_ms: int) -> int:
        self._last = (now_ms, self._clock.boot_s())
        self._offset_ms = now_ms - wall_ms
        return now_ms

    def write(self, db: Database, now_ms: int) -> None:
        """Write the time down, unless another gateway is doing so: nobody waits for this row."""
        db.execute(
            "UPDATE store_clock SET now_ms = ?, offset_ms = CASE WHEN abs(offset_ms - ?) > 100 "
            "THEN ? ELSE offset_ms END WHERE id = (SELECT id FROM store_clock WHERE now_ms < ? "
            "FOR UPDATE SKIP LOCKED)",
            (now_ms, self._offset_ms, self._offset_ms, now_ms),
        )


def _reading(db: Database) -> tuple[int, int, int]:
    """Return the server's clock, where the ledger's time stood, and the offset."""
    row = db.execute(
        "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint), now_ms, "
        "offset_ms FROM store_clock"
    ).fetchone()
    return row[0], row[1], row[2]
