"""The ledger's rows in memory, while a batch decides: loaded, changed, flushed.

Statements are per batch and per table, never per request: each one lets go of the
interpreter's lock, and getting it back from a busy event loop costs more than the statement.
So sets are loaded as one JSON value each, and written as one multi-row statement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gateway.core.effect import Fingerprint, OpenAttempt, Outcome, PriorEffect, add_up
from gateway.core.errors import InvariantError
from gateway.core.ids import EffectKey, Scope
from gateway.store.database import Database
from gateway.store.records import AnswerState, StoredAnswer


@dataclass(slots=True)
class ScopeRow:
    """What a scope has accepted. Rows are never deleted."""

    scope: Scope
    highest_term: int = 0
    last_term: int = 0
    holder: str | None = None


@dataclass(slots=True)
class AttemptRow:
    """One attempt of an effect at work."""

    n: int
    term: int
    outcome: Outcome | None
    open: bool
    decided: bool
    deadline_at_ms: int
    seal_at_ms: int
    instance: str
    fingerprint: Fingerprint
    reason: str | None = None
    status: int | None = None
    ended_at_ms: int | None = None
    answer_seq: int | None = None  # only when a new answer is kept


@dataclass(slots=True)
class EffectRow:
    """An effect with those of its attempts that still say something: open, confirmed, last."""

    id: str
    key: EffectKey | None
    scope: Scope
    destination: str
    covers: str
    outcome: Outcome | None
    attempts: int
    rejected: int
    version: int
    abandoned: bool
    resolved_by: str | None
    resource: str | None
    settled_at_ms: int | None
    tries: dict[int, AttemptRow] = field(default_factory=dict)

    def as_prior(self) -> PriorEffect:
        """Return what the fence has to know. The fingerprint is that of the deciding try."""
        ordered = [self.tries[n] for n in sorted(self.tries)]
        deciding = next((t for t in ordered if t.outcome is self.outcome), ordered[-1])
        return PriorEffect(
            effect_id=self.id,
            outcome=self.outcome,
            fingerprint=deciding.fingerprint,
            attempts=self.attempts,
            rejected=self.rejected,
            version=self.version,
            deadline_at_ms=deciding.deadline_at_ms,
            abandoned=self.abandoned,
        )

    def recount(self) -> None:
        """Add the attempts up. Those not loaded were rejected or without effect, and not
        last: they change nothing."""
        self.outcome = add_up(self.tries[n].outcome for n in sorted(self.tries))


@dataclass(slots=True)
class OpenRow:
    """An open attempt as the barrier and the handover see it."""

    effect_id: str
    n: int
    term: int
    destination: str
    covers: str
    deadline_at_ms: int
    seal_at_ms: int
    holder: str
    item: str | None

    def for_fence(self) -> OpenAttempt:
        return OpenAttempt(
            self.effect_id, self.n, self.term, self.deadline_at_ms, self.seal_at_ms, self.holder,
            self.item,
        )  # fmt: skip


COVERS_ALL: Final = "*"
"""The `covers` of an attempt whose own value stopped meaning anything: it holds back all."""

_EFFECT_COLUMNS: Final = (
    "e.id, e.destination, e.function, e.unit, e.key, e.scope_unit, e.covers, e.outcome, "
    "e.attempts, e.rejected, e.version, e.abandoned, e.resolved_by, e.resource, e.settled_at_ms"
)
_TRY_COLUMNS: Final = (
    "a.n, a.term, a.outcome, a.open, a.decided, a.deadline_at_ms, a.seal_at_ms, a.instance, "
    "a.fp_version, hex(a.fp_raw), hex(a.fp_canonical), a.ended_at_ms"
)
_MAX_LISTED: Final = 5000
_JOIN_TRIES: Final = (
    "JOIN attempt a ON a.effect_id = e.id "
    "AND (a.open = 1 OR a.outcome = 'confirmed' OR a.n = e.attempts)"
)


def insert(db: Database, head: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert `rows` in one statement and check that each of them was written.

    The check is not an assert: a row that is silently not there is an effect that nobody
    recorded.
    """
    if not rows:
        return
    written = db.execute(*db.dialect.inserting(head, rows)).rowcount
    if written != len(rows):
        raise InvariantError(f"{written} of {len(rows)} rows were written by {head.split('(')[0]}")


def load_scopes(db: Database, scopes: Collection[Scope]) -> dict[Scope, ScopeRow]:
    """Load scopes; one that is not on record yet has accepted nothing."""
    found = {scope: ScopeRow(scope) for scope in scopes}
    if not found:
        return found
    text = (
        "SELECT json_group_array(json_array(s.function, s.unit, highest_term, last_term, holder)) "
        "FROM ({}) k CROSS JOIN scope s WHERE s.function = k.column1 AND s.unit = k.column2"
    )
    for function, unit, highest, last, holder in _listed(db, text, "tt", list(found)):
        scope = Scope(function, unit)
        found[scope] = ScopeRow(scope, highest, last, holder)
    return found


def load_by_key(db: Database, keys: Collection[EffectKey]) -> list[EffectRow]:
    """Load the effects under `keys`."""
    if not keys:
        return []
    flat = [(k.function, k.unit, k.destination, k.key) for k in keys]
    return _effects(_listed(db, _BY_KEY, "tttt", flat))


def load_by_id(db: Database, ids: Collection[str]) -> list[EffectRow]:
    """Load the effects called `ids`."""
    if not ids:
        return []
    every = list(ids)  # a handover may be about any number of effects
    found: list[EffectRow] = []
    for at in range(0, len(every), _MAX_LISTED):
        some = every[at : at + _MAX_LISTED]
        found += _effects(_listed(db, _BY_ID, "t", [(one,) for one in some]))
    return found


def load_try(db: Database, effect_id: str, n: int) -> dict[int, AttemptRow]:
    """Load one attempt by its number; nothing if there is none."""
    text = (
        f"SELECT json_group_array(json_array({_TRY_COLUMNS})) "
        "FROM attempt a WHERE a.effect_id = ? AND a.n = ?"
    )
    return {row[0]: _try(row) for row in _json(db, text, [effect_id, n])}


def load_open(
    db: Database, wanted: Collection[tuple[Scope, str, str]], below_term: int
) -> list[tuple[Scope, OpenRow]]:
    """Load open attempts under terms below `below_term`, by (scope, destination, covers).

    Attempts of the current term hold nobody back, so in quiet times this finds no row.
    """
    if not wanted:
        return []
    flat = [(*scope, destination, covers) for scope, destination, covers in wanted]
    return _opens(_listed(db, _OPEN_BELOW, "tttt", flat, [below_term]))


def load_scope_open(db: Database, scope: Scope) -> list[tuple[Scope, OpenRow]]:
    """Load every open attempt of `scope`: what a handover may have to list."""
    text = (
        "SELECT json_group_array(json_array(function, scope_unit, effect_id, n, term, "
        "destination, covers, deadline_at_ms, seal_at_ms, holder, item)) "
        "FROM attempt INDEXED BY attempt_open WHERE open = 1 AND function = ? AND scope_unit = ?"
    )
    return _opens(_json(db, text, [scope.function, scope.unit]))


_BY_KEY: Final = (
    f"SELECT json_group_array(json_array({_EFFECT_COLUMNS}, {_TRY_COLUMNS})) "
    f"FROM ({{}}) k CROSS JOIN effect e {_JOIN_TRIES} "
    "WHERE e.function = k.column1 AND e.unit = k.column2 "
    "AND e.destination = k.column3 AND e.key = k.column4"
)
_BY_ID: Final = (
    f"SELECT json_group_array(json_array({_EFFECT_COLUMNS}, {_TRY_COLUMNS})) "
    f"FROM ({{}}) k CROSS JOIN effect e {_JOIN_TRIES} WHERE e.id = k.column1"
)
_OPEN_BELOW: Final = (
    "SELECT json_group_array(json_array(a.function, a.scope_unit, a.effect_id, a.n, a.term, "
    "a.destination, a.covers, a.deadline_at_ms, a.seal_at_ms, a.holder, a.item)) "
    "FROM ({}) k CROSS JOIN attempt a WHERE a.open = 1 "
    "AND a.function = k.column1 AND a.scope_unit = k.column2 AND a.destination = k.column3 "
    f"AND a.covers IN (k.column4, '{COVERS_ALL}') AND a.term < ?"
)


def _listed(
    db: Database, text: str, types: str, rows: Sequence[Sequence[Any]], more: Sequence[Any] = ()
) -> list[list[Any]]:
    """Ask `text` about a list of rows; it answers with one JSON value."""
    return _json(db, *db.dialect.listing(text, types, rows, more))


def _json(db: Database, text: str, parameters: Sequence[Any]) -> list[list[Any]]:
    row = db.execute(text, parameters).fetchone()
    return orjson.loads(row[0]) if row and row[0] else []


def _opens(rows: Iterable[list[Any]]) -> list[tuple[Scope, OpenRow]]:
    return [(Scope(row[0], row[1]), OpenRow(*row[2:])) for row in rows]


def _effects(rows: Iterable[list[Any]]) -> list[EffectRow]:
    found: dict[str, EffectRow] = {}
    for row in rows:
        effect = found.get(row[0])
        if effect is None:
            effect = found[row[0]] = _effect(row)
        attempt = _try(row[15:])
        effect.tries[attempt.n] = attempt
    return list(found.values())


def _effect(row: Sequence[Any]) -> EffectRow:
    key = None if row[4] is None else EffectKey(row[1], row[2], row[3], row[4])
    return EffectRow(
        id=row[0],
        key=key,
        scope=Scope(row[2], row[5]),
        destination=row[1],
        covers=row[6],
        outcome=Outcome(row[7]) if row[7] else None,
        attempts=row[8],
        rejected=row[9],
        version=row[10],
        abandoned=bool(row[11]),
        resolved_by=row[12],
        resource=row[13],
        settled_at_ms=row[14],
    )


def _try(row: Sequence[Any]) -> AttemptRow:
    canonical = bytes.fromhex(row[10]) if row[10] else None
    return AttemptRow(
        n=row[0],
        term=row[1],
        outcome=Outcome(row[2]) if row[2] else None,
        open=bool(row[3]),
        decided=bool(row[4]),
        deadline_at_ms=row[5],
        seal_at_ms=row[6],
        instance=row[7],
        fingerprint=Fingerprint(row[8], bytes.fromhex(row[9]), canonical),
        ended_at_ms=row[11],
    )


def read_answer(db: Database, effect_id: str) -> StoredAnswer | None:
    """Return the answer that confirmed the effect, if one is kept. It is the first, so that a
    replay stays what it was, should a second attempt turn out to be confirmed too."""
    row = db.execute(
        "SELECT w.status, headers, body, body_sha256, body_bytes, state FROM attempt a "
        "JOIN answer w ON w.seq = a.answer_seq "
        "WHERE a.effect_id = ? AND state <> 'evidence' ORDER BY w.seq LIMIT 1",
        (effect_id,),
    ).fetchone()
    if row is None:
        return None
    headers = tuple((name, value) for name, value in orjson.loads(row[1]))
    return StoredAnswer(row[0], headers, row[2], row[3], row[4], AnswerState(row[5]))
