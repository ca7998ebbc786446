"""What this process wrote last, kept so that it need not be read back for the next step.

The file is ours alone and everything goes through one writer, so what was committed is what
stands there. An effect is admitted and settled within milliseconds; reading it back in between
costs more than deciding. Whatever goes another way (a failed batch, upkeep with statements of
its own) empties this, and the next batch reads again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.core.ids import Scope
from gateway.store.lease_rows import LeaseMemory
from gateway.store.rows import EffectRow, ScopeRow

SCOPES_MAX: Final = 4096


class Recent:
    """Effects in flight and scopes, as of the last commit."""

    def __init__(self) -> None:
        self.effects: dict[str, EffectRow] = {}
        self.scopes: dict[Scope, ScopeRow] = {}
        self.leadership = LeaseMemory()
        self._last_answer_seq: int | None = None

    def next_answer_seq(self, db: sqlite3.Connection) -> int:
        """Return the number of the next answer; chosen here so that its attempt can name it."""
        last = self._last_answer_seq
        if last is None:
            (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM answer").fetchone()
        self._last_answer_seq = last + 1
        return last + 1

    def learn(self, effects: Iterable[EffectRow], scopes: Mapping[Scope, ScopeRow]) -> None:
        """Take note of what a batch has committed."""
        for effect in effects:
            if effect.outcome is None:
                self.effects[effect.id] = effect
            else:
                self.effects.pop(effect.id, None)
        if len(self.scopes) > SCOPES_MAX:
            self.scopes.clear()
        if len(self.leadership.leases) > SCOPES_MAX:
            self.leadership.forget()
        self.scopes.update(scopes)

    def forget(self) -> None:
        self.effects.clear()
        self.scopes.clear()
        self.leadership.forget()
        self._last_answer_seq = None
