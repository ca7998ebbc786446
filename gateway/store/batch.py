"""One batch: load what it needs, decide each operation in order, write the lot down.

Each operation is decided against what the batch has already written, so that deciding many
in one transaction gives what deciding them one after another would have given.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import orjson

from gateway.core.effect import Outcome
from gateway.core.errors import InvariantError
from gateway.core.fence import UnitState
from gateway.core.ids import EffectKey, Scope
from gateway.store import rows
from gateway.store.database import Database
from gateway.store.journal import Journal
from gateway.store.lease_rows import LeaseBook
from gateway.store.recent import Recent
from gateway.store.records import StoredAnswer
from gateway.store.rows import COVERS_ALL, AttemptRow, EffectRow, OpenRow, ScopeRow
from gateway.store.wanted import Wanted

STRANDED_AFTER_MS: Final = 1000
"""How long past its deadline an intent's owner has for settling it."""

_INSERT_EFFECT: Final = (
    "INSERT INTO effect (id, destination, function, unit, key, scope_unit, item, covers, "
    "principal, outcome, attempts, observed, created_at_ms)"
)
_INSERT_ATTEMPT: Final = (
    "INSERT INTO attempt (effect_id, n, function, scope_unit, destination, covers, term, holder, "
    "principal, instance, method, target, fp_version, fp_raw, fp_canonical, policy_digest, "
    "created_at_ms, deadline_at_ms, seal_at_ms, request_head, request_body, request_file, item, "
    "route, sent_method, sent_target, sent_head, sent_body)"
)
_INSERT_ANSWER: Final = (
    "INSERT INTO answer (seq, effect_id, n, status, headers, body, body_sha256, body_bytes, "
    "state, at_ms)"
)
_INSERT_SCOPE: Final = (
    "INSERT INTO scope (function, unit, highest_term, last_term, holder, raised_at_ms)"
)
_UPSERT_SCOPE: Final = (
    " ON CONFLICT (function, unit) DO UPDATE SET highest_term = excluded.highest_term, "
    "last_term = excluded.last_term, holder = excluded.holder, "
    "raised_at_ms = excluded.raised_at_ms"
)


class Batch:
    """The rows at work. Operations read and change them; `flush` writes what changed."""

    def __init__(
        self, db: Database, now_ms: int, instance: str, recent: Recent | None = None
    ) -> None:
        self.db = db
        self._recent = recent or Recent()
        self.now_ms = now_ms
        self.instance = instance
        self.scopes: dict[Scope, ScopeRow] = {}
        self.effects: dict[str, EffectRow] = {}
        self.by_key: dict[EffectKey, EffectRow] = {}
        self.open: dict[Scope, dict[tuple[str, int], OpenRow]] = {}
        self._lowest_open: dict[Scope, int] = {}
        self._new_effects: list[tuple[Any, ...]] = []
        self._new_attempts: list[tuple[Any, ...]] = []
        self._answers: list[tuple[Any, ...]] = []
        self._changed_effects: dict[str, EffectRow] = {}
        self._changed_attempts: dict[tuple[str, int], AttemptRow] = {}
        self._changed_scopes: dict[Scope, ScopeRow] = {}
        self._journal = Journal(db, now_ms)
        self.journal = self._journal.note
        self.count_refusal = self._journal.count_refusal
        self.add_handover = self._journal.add_handover
        self._superseded: set[str] = set()
        self._running: frozenset[str] | None = None
        self.units: dict[Scope, UnitState | None] = {}
        self.lineage = self._recent.lineage
        self.raised: dict[Scope, tuple[int, int]] = {}
        self.last_attempt: tuple[str, int] | None = None
        self.last_answer = 0
        self.book = LeaseBook(db, now_ms, self._recent.leadership)

    # -- loading

    def load(self, wanted: Wanted) -> None:
        """Load what is wanted. Locks are taken before, so that what is read stands still."""
        recent = self._recent
        if not self.db.alone:
            recent.things.look_at(self.db, wanted.things)
            recent.number_answers(self.db, wanted.answers)
        for effect_id in wanted.ids:
            if effect_id in recent.effects:
                self._know(recent.effects[effect_id])
        for effect in rows.load_by_key(self.db, wanted.keys):
            self._know(effect)
        for effect in rows.load_by_id(self.db, wanted.ids - self.effects.keys()):
            self._know(effect)
        self._load_tries(wanted.tries)
        self.book.load(
            wanted.leases | wanted.grants, wanted.candidates | {s.function for s in wanted.grants}
        )
        scopes = wanted.scopes | wanted.leases | wanted.grants
        scopes |= {effect.scope for effect in self.effects.values()}
        self.scopes.update((s, recent.scopes[s]) for s in scopes if s in recent.scopes)
        self.scopes.update(rows.load_scopes(self.db, scopes - self.scopes.keys()))
        below = max(wanted.terms.values(), default=0) + wanted.claimants
        self._know_open(rows.load_open(self.db, wanted.covers, below))
        raised = {s for s, term in wanted.terms.items() if term > self.scopes[s].highest_term}
        for scope in raised | wanted.grants:
            self._know_open(rows.load_scope_open(self.db, scope))
        older = {
            row.effect_id
            for scope, opened in self.open.items()
            for row in opened.values()
            if scope in wanted.grants or row.term < wanted.terms.get(scope, 0)
        }
        for effect in rows.load_by_id(self.db, older - self.effects.keys()):
            self._know(effect)

    def _load_tries(self, wanted: Collection[tuple[str, int]]) -> None:
        """Load attempts that came to nothing and have successors: a fact about one of them may
        still come in, and an operator may have been wrong about it."""
        for effect_id, n in wanted:
            effect = self.effects.get(effect_id)
            if effect is not None and n not in effect.tries:
                effect.tries.update(rows.load_try(self.db, effect_id, n))

    def _know(self, effect: EffectRow) -> None:
        # One row, one object: two would be changed apart from each other.
        effect = self._recent.effects.get(effect.id, effect)
        self.effects[effect.id] = effect
        if effect.key is not None:
            self.by_key[effect.key] = effect

    def _know_open(self, found: Collection[tuple[Scope, OpenRow]]) -> None:
        for scope, row in found:
            self._add_open(scope, row)

    def _add_open(self, scope: Scope, row: OpenRow) -> None:
        self.open.setdefault(scope, {})[row.effect_id, row.n] = row
        lowest = self._lowest_open.get(scope)
        if lowest is None or row.term < lowest:
            self._lowest_open[scope] = row.term

    # -- reading

    @property
    def journalled(self) -> set[Scope]:
        return self._journal.scopes

    def open_below(self, term: int, scope: Scope, destination: str, covers: str) -> list[OpenRow]:
        """Return the open attempts under terms below `term` that touch `covers`.

        In quiet times there is none in the whole scope, and a batch of many must not look
        through its own intents for each of its admissions.
        """
        if self._lowest_open.get(scope, term) >= term:
            return []
        return [
            row
            for row in self.open.get(scope, {}).values()
            if row.term < term
            and row.destination == destination
            and row.covers in (covers, COVERS_ALL)
        ]

    # -- changing

    def add_effect(self, effect: EffectRow, row: tuple[Any, ...]) -> None:
        self._know(effect)
        self._new_effects.append(row)

    def add_attempt(
        self, effect: EffectRow, attempt: AttemptRow, holder: str, item: str | None,
        row: tuple[Any, ...],
    ) -> None:  # fmt: skip
        if attempt.n in effect.tries:
            raise InvariantError(f"attempt {attempt.n} of effect {effect.id} is there already")
        effect.tries[attempt.n] = attempt
        self._new_attempts.append(row)
        self.last_attempt = (effect.id, attempt.n)
        row_open = OpenRow(
            effect.id,
            attempt.n,
            attempt.term,
            effect.destination,
            effect.covers,
            attempt.deadline_at_ms,
            attempt.seal_at_ms,
            holder,
            item,
        )
        self._add_open(effect.scope, row_open)
        thing = (effect.destination, effect.covers)
        self._superseded |= self._recent.things.touch(
            self.db, thing, effect.id, self.now_ms, attempt.seal_at_ms
        )

    def change_effect(self, effect: EffectRow) -> None:
        effect.version += 1
        self._changed_effects[effect.id] = effect

    def change_attempt(self, effect: EffectRow, attempt: AttemptRow) -> None:
        self._changed_attempts[effect.id, attempt.n] = attempt
        if not attempt.open:
            self.open.get(effect.scope, {}).pop((effect.id, attempt.n), None)
            thing = (effect.destination, effect.covers)
            if not any(one.open for one in effect.tries.values()):
                self._recent.things.leave(self.db, thing, effect.id)

    def change_scope(self, scope: ScopeRow) -> None:
        self.db.alone_with(scope.scope)
        self._changed_scopes[scope.scope] = scope
        self.raised[scope.scope] = (scope.highest_term, scope.last_term)

    def add_answer(self, effect: EffectRow, attempt: AttemptRow, answer: StoredAnswer) -> None:
        attempt.answer_seq = self.last_answer = self._recent.next_answer_seq(self.db)
        self._answers.append(
            (
                attempt.answer_seq,
                effect.id,
                attempt.n,
                answer.status,
                orjson.dumps(answer.headers).decode(),
                answer.body,
                answer.body_sha256,
                answer.body_bytes,
                answer.state.value,
                self.now_ms,
            )
        )

    def strand(self, effect: EffectRow) -> None:
        """Turn the effect's intents that nobody will settle into unknown ones.

        An intent is stranded past its deadline, or at once when the run of a gateway that it
        belongs to is over.
        """
        for attempt in effect.tries.values():
            if attempt.outcome is not None:
                continue
            late = self.now_ms > attempt.deadline_at_ms + STRANDED_AFTER_MS
            if late or not self.runs(attempt.instance):
                attempt.outcome = Outcome.UNKNOWN
                attempt.reason = "stranded"
                attempt.ended_at_ms = self.now_ms
                self.change_attempt(effect, attempt)
                effect.recount()
                self.change_effect(effect)
                self.journal("effect-stranded", effect.scope, effect_id=effect.id)

    def runs(self, instance: str) -> bool:
        """Whether a run of a gateway is still under way, as far as its heartbeat tells."""
        if instance == self.instance:
            return True
        if self._running is None:
            self._running = frozenset() if self.db.alone else running(self.db)
        return instance in self._running

    # -- writing

    def flush(self) -> None:
        """Write what changed since the last flush. Raises InvariantError if a row was not
        written. Statements of an operation's own come after one."""
        rows.insert(self.db, _INSERT_EFFECT, self._new_effects)
        rows.insert(self.db, _INSERT_ATTEMPT, self._new_attempts)
        self._write_effects([*self._changed_effects.values()])
        self._write_attempts([*self._changed_attempts.items()])
        rows.insert(self.db, _INSERT_ANSWER, self._answers)
        self._write_scopes()
        self._write_superseded()
        self._journal.flush()
        self.book.flush()
        self._new_effects.clear()
        self._new_attempts.clear()
        self._changed_effects.clear()
        self._changed_attempts.clear()
        self._answers.clear()
        self._changed_scopes.clear()

    def _write_effects(self, changed: Sequence[EffectRow]) -> None:
        flat = [
            (
                e.id,
                e.outcome.value if e.outcome else None,
                e.abandoned,
                e.resolved_by,
                e.attempts,
                e.rejected,
                e.version,
                e.resource,
                e.settled_at_ms,
                e.covers,
                e.scope.unit,
            )
            for e in changed
        ]
        self._update(
            "UPDATE effect SET outcome = v.column2, abandoned = v.column3, "
            "resolved_by = v.column4, attempts = v.column5, rejected = v.column6, "
            "version = v.column7, resource = v.column8, settled_at_ms = v.column9, "
            "covers = v.column10, scope_unit = v.column11 FROM ({}) v WHERE effect.id = v.column1",
            "ttitiiititt",
            flat,
        )

    def _write_attempts(self, changed: Sequence[tuple[tuple[str, int], AttemptRow]]) -> None:
        """Write outcomes. The request is kept only while its effect may still need it."""
        flat = [
            (
                effect_id,
                n,
                a.outcome.value if a.outcome else None,
                a.reason,
                a.status,
                a.ended_at_ms,
                a.open,
                a.decided,
                a.outcome in (None, Outcome.UNKNOWN),
                a.answer_seq,
            )
            for (effect_id, n), a in changed
        ]
        self._update(
            "UPDATE attempt SET outcome = v.column3, reason = coalesce(v.column4, reason), "
            "status = coalesce(v.column5, status), ended_at_ms = v.column6, open = v.column7, "
            "decided = v.column8, "
            "request_head = CASE WHEN v.column9 = 1 THEN request_head END, "
            "request_body = CASE WHEN v.column9 = 1 THEN request_body END, "
            "request_file = CASE WHEN v.column9 = 1 THEN request_file END, "
            "sent_head = CASE WHEN v.column9 = 1 THEN sent_head END, "
            "sent_body = CASE WHEN v.column9 = 1 THEN sent_body END, "
            "answer_seq = coalesce(v.column10, answer_seq) "
            "FROM ({}) v WHERE attempt.effect_id = v.column1 AND attempt.n = v.column2",
            "tittiiiiii",
            flat,
        )

    def _update(self, text: str, types: str, flat: Sequence[tuple[Any, ...]]) -> None:
        if not flat:
            return
        changed = self.db.execute(*self.db.dialect.listing(text, types, flat)).rowcount
        if changed != len(flat):
            raise InvariantError(f"{changed} of {len(flat)} rows were there for {text[:14]}")

    def _write_superseded(self) -> None:
        """Note whose things have been written to since. They need not be loaded here."""
        if self._superseded:
            ids = orjson.dumps(sorted(self._superseded)).decode()
            self.db.execute(
                "UPDATE effect SET superseded = 1 "
                "WHERE id IN (SELECT value FROM json_each(?)) AND superseded = 0",
                (ids,),
            )
            self._superseded.clear()

    def _write_scopes(self) -> None:
        if not self._changed_scopes:
            return
        flat = [
            (s.scope.function, s.scope.unit, s.highest_term, s.last_term, s.holder, self.now_ms)
            for s in self._changed_scopes.values()
        ]
        written = self.db.execute(
            *self.db.dialect.inserting(_INSERT_SCOPE, flat, _UPSERT_SCOPE)
        ).rowcount
        if written != len(flat):
            raise InvariantError(f"{written} of {len(flat)} terms were raised")


def running(db: Database) -> frozenset[str]:
    """Return the runs of gateways that are under way: neither stopped nor found dead."""
    found = db.execute("SELECT id FROM instance WHERE stopped_at_ms IS NULL").fetchall()
    return frozenset(name for (name,) in found)
