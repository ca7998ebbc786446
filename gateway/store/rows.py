"""The ledger's rows in memory, while a batch decides: loaded, changed, flushed.

Statements are per batch and per table, never per request: each one lets go of the
interpreter's lock, and getting it back from a busy event loop costs more than the statement.
So sets are loaded as one JSON value each, and written as one multi-row statement.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import orjson

from gateway.core.effect import Fingerprint, OpenAttempt, Outcome, PriorEffect, add_up
from gateway.core.errors import InvariantError
from gateway.core.ids import EffectKey, Scope
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
_OF_LIST: Final = re.compile(r"\b[kv]\.column(\d+)")
_LIST: Final = re.compile(r"FROM \(\{\}\) v |\(\{\}\) k CROSS JOIN ")
_JOIN_TRIES: Final = (
    "JOIN attempt a ON a.effect_id = e.id "
    "AND (a.open = 1 OR a.outcome = 'confirmed' OR a.n = e.attempts)"
)


@lru_cache(maxsize=4096)
def values(rows: int, columns: int) -> str:
    """Return the text of a VALUES list of so many rows and columns."""
    row = "(" + ",".join("?" * columns) + ")"
    return "VALUES " + ",".join([row] * rows)


@lru_cache(maxsize=64)
def for_one(text: str) -> str:
    """Return `text`, written for a list of rows called k or v, for a single row.

    The list of one costs several times the statement itself, and at quiet times each batch is
    of one.
    """
    return _OF_LIST.sub(r"?\1", _LIST.sub("", text))


def insert(db: sqlite3.Connection, head: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert `rows` in one statement and check that each of them was written.

    The check is not an assert: a row that is silently not there is an effect that nobody
    recorded.
    """
    if not rows:
        return
    flat = [value for row in rows for value in row]
    written = db.execute(f"{head} {values(len(rows), len(rows[0]))}", flat).rowcount
    if written != len(rows):
        raise InvariantError(f"{written} of {len(rows)} rows were written by {head.split('(')[0]}")


def load_scopes(db: sqlite3.Connection, scopes: Collection[Scope]) -> dict[Scope, ScopeRow]:
    """Load scopes; one that is not on record yet has accepted nothing."""
    found = {scope: ScopeRow(scope) for scope in scopes}
    if not found:
        return found
    text = (
        "SELECT json_group_array(json_array(s.function, s.unit, highest_term, last_term, holder)) "
        f"FROM ({values(len(found), 2)}) k "
        "JOIN scope s ON s.function = k.column1 AND s.unit = k.column2"
    )
    keys = [part for scope in found for part in (scope.function, scope.unit)]
    for function, unit, highest, last, holder in _json(db, text, keys):
        scope = Scope(function, unit)
        found[scope] = ScopeRow(scope, highest, last, holder)
    return found


def load_by_key(db: sqlite3.Connection, keys: Collection[EffectKey]) -> list[EffectRow]:
    """Load the effects under `keys`."""
    if not keys:
        return []
    flat = [part for k in keys for part in (k.function, k.unit, k.destination, k.key)]
    return _effects(_json(db, _listed(_BY_KEY, len(keys), 4), flat))


def load_by_id(db: sqlite3.Connection, ids: Collection[str]) -> list[EffectRow]:
    """Load the effects called `ids`."""
    if not ids:
        return []
    every = list(ids)  # a handover may be about any number of effects
    found: list[EffectRow] = []
    for at in range(0, len(every), _MAX_LISTED):
        some = every[at : at + _MAX_LISTED]
        text = (
            f"SELECT json_group_array(json_array({_EFFECT_COLUMNS}, {_TRY_COLUMNS})) "
            f"FROM ({values(len(some), 1)}) k CROSS JOIN effect e ON e.id = k.column1 {_JOIN_TRIES}"
        )
        found += _effects(_json(db, text, some))
    return found


def load_try(db: sqlite3.Connection, effect_id: str, n: int) -> dict[int, AttemptRow]:
    """Load one attempt by its number; nothing if there is none."""
    text = (
        f"SELECT json_group_array(json_array({_TRY_COLUMNS})) "
        "FROM attempt a WHERE a.effect_id = ? AND a.n = ?"
    )
    return {row[0]: _try(row) for row in _json(db, text, [effect_id, n])}


def load_open(
    db: sqlite3.Connection, wanted: Collection[tuple[Scope, str, str]], below_term: int
) -> list[tuple[Scope, OpenRow]]:
    """Load open attempts under terms below `below_term`, by (scope, destination, covers).

    Attempts of the current term hold nobody back, so in quiet times this finds no row.
    """
    if not wanted:
        return []
    flat: list[Any] = [
        part
        for scope, destination, covers in wanted
        for part in (scope.function, scope.unit, destination, covers)
    ]
    return _opens(_json(db, _listed(_OPEN_BELOW, len(wanted), 4), [*flat, below_term]))


def load_scope_open(db: sqlite3.Connection, scope: Scope) -> list[tuple[Scope, OpenRow]]:
    """Load every open attempt of `scope`: what a handover may have to list."""
    text = (
        "SELECT json_group_array(json_array(function, scope_unit, effect_id, n, term, "
        "destination, covers, deadline_at_ms, seal_at_ms, holder, item)) "
        "FROM attempt INDEXED BY attempt_open WHERE open = 1 AND function = ? AND scope_unit = ?"
    )
    return _opens(_json(db, text, [scope.function, scope.unit]))


_BY_KEY: Final = (
    f"SELECT json_group_array(json_array({_EFFECT_COLUMNS}, {_TRY_COLUMNS})) "
    "FROM ({}) k CROSS JOIN effect e JOIN attempt a ON a.effect_id = e.id "
    "AND (a.open = 1 OR a.outcome = 'confirmed' OR a.n = e.attempts) "
    "WHERE e.function = k.column1 AND e.unit = k.column2 "
    "AND e.destination = k.column3 AND e.key = k.column4"
)
_OPEN_BELOW: Final = (
    "SELECT json_group_array(json_array(a.function, a.scope_unit, a.effect_id, a.n, a.term, "
    "a.destination, a.covers, a.deadline_at_ms, a.seal_at_ms, a.holder, a.item)) "
    "FROM ({}) k CROSS JOIN attempt a WHERE a.open = 1 "
    "AND a.function = k.column1 AND a.scope_unit = k.column2 AND a.destination = k.column3 "
    f"AND a.covers IN (k.column4, '{COVERS_ALL}') AND a.term < ?"
)


@lru_cache(maxsize=1024)
def _listed(text: str, rows: int, columns: int) -> str:
    return for_one(text) if rows == 1 else text.format(values(rows, columns))


def _json(db: sqlite3.Connection, text: str, parameters: Sequence[Any]) -> list[list[Any]]:
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


def read_answer(db: sqlite3.Connection, effect_id: str) -> StoredAnswer | None:
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
