"""After a ledger came back older than it was: what a missing record does not prove any more.

Between the last moment that the restored ledger knows and its recovery, effects were admitted of
which it has no record. For what may be among them, "not on record" is no evidence that nothing was
sent: a key that would be admitted is written down as an effect of unknown outcome instead, and
settled like any other. The doubt has no end of its own, for no unit's name, age or registration
shows that it was not at work in the lost time. It ends where a person says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.core.effect import FREE_AGAIN, Outcome

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Which records may be missing: those of `from_ms` to `until_ms`, in the store's time.

    `trusted` names functions (`report`), units (`report/2026-10-02`) or everything (`*`) that
    a person has taken out of it.
    """

    from_ms: int
    until_ms: int
    trusted: frozenset[str] = frozenset()

    def about(self, function: str, unit: str) -> bool:
        """Whether records of this unit may be missing."""
        return not self.trusted & {ALL, function, f"{function}/{unit}"}

    def reaches(self, outcome: Outcome | None, settled_at_ms: int | None) -> bool:
        """Whether an effect may have had another attempt that is not on record: its key was
        free, and it has not been settled since the recovery."""
        return outcome in FREE_AGAIN and (settled_at_ms or 0) <= self.until_ms
