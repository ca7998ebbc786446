"""What a batch says about itself: transitions, handovers, and counted refusals."""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.core.ids import Scope
from gateway.store import rows
from gateway.store.database import Database
from gateway.store.rows import ScopeRow

_INSERT_TRANSITION: Final = (
    "INSERT INTO transition (at_ms, kind, function, unit, term, holder, effect_id, principal, "
    "reason, detail, lease_version, uncertain, next_action, responsible, checkpoint)"
)
_INSERT_HANDOVER: Final = (
    "INSERT INTO handover (function, unit, term, holder, previous_term, previous_holder, at_ms, "
    "effects)"
)
_INSERT_REFUSAL: Final = (
    "INSERT INTO refusal (function, unit, destination, principal, holder, term, reason, count, "
    "first_at_ms, last_at_ms)"
)
_COUNT_REFUSAL: Final = (
    " ON CONFLICT (function, unit, destination, principal, holder, term, reason) DO UPDATE SET "
    "count = refusal.count + excluded.count, last_at_ms = excluded.last_at_ms"
)

RefusalKey = tuple[str, str, str, str, str, int, str]
"""Function, unit, destination, principal, holder, term, reason."""


class Journal:
    """Appended to while a batch decides, written with it. `scopes` are those it speaks of."""

    def __init__(self, db: Database, now_ms: int) -> None:
        self._db = db
        self._now_ms = now_ms
        self._transitions: list[tuple[Any, ...]] = []
        self._handovers: list[tuple[Any, ...]] = []
        self._refusals: dict[RefusalKey, int] = {}
        self.scopes: set[Scope] = set()

    def note(
        self,
        kind: str,
        scope: Scope,
        *,
        term: int | None = None,
        holder: str | None = None,
        effect_id: str | None = None,
        principal: str | None = None,
        reason: str | None = None,
        lease_version: int | None = None,
        uncertain: int | None = None,
        next_action: str | None = None,
        responsible: str | None = None,
        checkpoint: str | None = None,
        detail: Any = None,
    ) -> None:
        """Append a transition. `uncertain` counts the effects that are unfinished."""
        text = None if detail is None else orjson.dumps(detail).decode()
        self.scopes.add(scope)
        self._transitions.append(
            (
                self._now_ms, kind, scope.function, scope.unit, term, holder, effect_id, principal,
                reason, text, lease_version, uncertain, next_action, responsible, checkpoint,
            )
        )  # fmt: skip

    def add_handover(self, scope: ScopeRow, term: int, holder: str, effects: list[str]) -> None:
        """Record a change of term. `scope` is as it was before."""
        self._handovers.append(
            (
                scope.scope.function, scope.scope.unit, term, holder, scope.highest_term,
                scope.holder, self._now_ms, orjson.dumps(effects).decode(),
            )
        )  # fmt: skip

    def count_refusal(self, key: RefusalKey) -> None:
        self._refusals[key] = self._refusals.get(key, 0) + 1

    def flush(self) -> None:
        """Write what was noted since the last flush."""
        self._write_refusals()
        rows.insert(self._db, _INSERT_HANDOVER, self._handovers)
        rows.insert(self._db, _INSERT_TRANSITION, self._transitions)
        self._handovers.clear()
        self._transitions.clear()
        self._refusals.clear()

    def _write_refusals(self) -> None:
        if not self._refusals:
            return
        flat = [(*key, n, self._now_ms, self._now_ms) for key, n in self._refusals.items()]
        flat.sort()  # two gateways that count the same ones wait for each other in one order
        self._db.execute(*self._db.dialect.inserting(_INSERT_REFUSAL, flat, _COUNT_REFUSAL))
