"""What time does to leases when nobody asks: a keeper's turn, in a transaction of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.core import lease as machine
from gateway.core.ids import Scope
from gateway.core.lease import Ended, LeaseState
from gateway.store.alerts import nobody_may_lead
from gateway.store.batch import Batch
from gateway.store.database import Database
from gateway.store.lease_records import FunctionTerms, LeaseRecord
from gateway.store.lease_rows import LeaseRow
from gateway.store.leases import bring_up_to_date, view_of
from gateway.store.wanted import Wanted

LOOK_MS: Final = 1000
"""How often a scope is looked at that candidates may have left."""

DRAIN_LOOK_MS: Final = 250
"""How often a draining lease is looked at: what it waits for ends at any time."""

# A unit's scope that was given back is done with: of those there are more every day.
_LIVE: Final = "SELECT function, unit FROM lease WHERE ended IS NULL"
_DUE: Final = f"{_LIVE} AND (expires_at_ms <= ? OR drain_until_ms IS NOT NULL)"
_NEXT: Final = "SELECT min(expires_at_ms) FROM lease WHERE ended IS NULL AND expires_at_ms > ?"
_FREE: Final = (
    "SELECT function, unit FROM lease WHERE ended IS NOT NULL AND (unit = '' OR ended = ?)"
)

_TOLD: Final = (
    "SELECT coalesce(max(made_at_ms), -1) FROM alert WHERE kind = 'no-eligible-candidate' "
    "AND json_extract(body, '$.about.function') = ?"
)
_LED: Final = (
    "SELECT EXISTS (SELECT 1 FROM lease WHERE function = ? AND ended IS NULL AND expires_at_ms > ?)"
)


@dataclass(frozen=True, slots=True)
class Lapsed:
    """Something that the keeper met and journalled. `reasons` say why nobody can lead."""

    kind: str  # leader-lost, leader-uncertain or no-eligible-candidate
    record: LeaseRecord
    reasons: tuple[str, ...] = ()
    uncertain: int = 0


@dataclass(slots=True)
class _Vacant:
    """The scopes that nobody can lead, and when people were last told so of a function.

    Candidates are a function's, so its scopes are deserted together: a leader that dies leaves
    all of its units behind, and people need to hear of it once.
    """

    scopes: set[Scope]
    listening_since_ms: int = 0
    told_at_ms: dict[str, int] = field(default_factory=dict)

    def is_told(self, batch: Batch, row: LeaseRow) -> bool:
        """Whether people know of the function since this scope was last led."""
        function = row.scope.function
        if not any(scope.function == function for scope in self.scopes):
            return False
        if function not in self.told_at_ms:
            (at_ms,) = batch.db.execute(_TOLD, (function,)).fetchone()
            self.told_at_ms[function] = at_ms
        since_ms = (row.lease.ended_at_ms or 0) if row.lease else 0
        return self.told_at_ms[function] >= since_ms

    def tell(self, batch: Batch, scope: Scope, reasons: Sequence[str], owner: str) -> None:
        (led,) = batch.db.execute(_LED, (scope.function, batch.now_ms)).fetchone()
        named = scope if led else Scope(scope.function, "")  # the function, if nobody leads there
        nobody_may_lead(batch, named, list(reasons), owner)
        self.told_at_ms[scope.function] = batch.now_ms


def lapse(
    db: Database,
    now_ms: int,
    instance: str,
    terms: Mapping[str, FunctionTerms],
    known_vacant: frozenset[Scope],
) -> tuple[list[Lapsed], int | None, frozenset[Scope]]:
    """End what time has ended, note leases that are late, and scopes that nobody can lead.

    Return what was met, when there may be something again, and the scopes without a candidate;
    `known_vacant` are those of the last turn, which are not told again.
    """
    vacant = _Vacant(set(known_vacant))  # what a turn that fails has found out it finds out again
    margin_ms = max((one.rules.margin_ms for one in terms.values()), default=0)
    live = _scopes(db.execute(_LIVE))
    due = set(_scopes(db.execute(_DUE, (now_ms + margin_ms,))))
    vacant.scopes.difference_update(live)
    freed = _scopes(db.execute(_FREE, (Ended.EXPIRED.value,)))
    free = [scope for scope in freed if scope not in vacant.scopes]
    asked = {(name, "") for (name,) in db.execute("SELECT DISTINCT function FROM candidate")}
    open_to_all = {Scope(*one) for one in asked} - {*live, *free}
    batch = Batch(db, now_ms, instance)
    wanted = Wanted()
    wanted.grants.update(s for s in (*due, *free, *open_to_all) if s.function in terms)
    db.lock(wanted)
    batch.load(wanted)
    (vacant.listening_since_ms,) = db.execute(
        "SELECT coalesce(max(started_at_ms), 0) FROM instance WHERE id = ?", (instance,)
    ).fetchone()
    found: list[Lapsed] = []
    looks: list[int | None] = []
    for scope in wanted.grants:
        row, known = batch.book.lease(scope), terms[scope.function]
        count = 0
        if row.lease is not None and row.lease.ended is None:
            count = bring_up_to_date(batch, row, known)
            found += _ended_or_late(batch, row, known, count)
        found += _vacancy(batch, row, known, count, vacant)
        if scope not in vacant.scopes:
            late = row.uncertain_at_ms is not None
            looks.append(next_look_ms(record_of(batch, row, count), known, late=late))
    batch.flush()
    (next_ms,) = db.execute(_NEXT, (now_ms + margin_ms,)).fetchone()
    if next_ms is not None:  # of those that were not looked at now
        looks.append(next_ms - margin_ms)
    if not db.alone:  # another gateway may have granted something that it will not look at again
        looks.append(now_ms + LOOK_MS)
    due_at_ms = min((at for at in looks if at is not None), default=None)
    return found, due_at_ms, frozenset(vacant.scopes)


def next_look_ms(record: LeaseRecord, terms: FunctionTerms, *, late: bool = False) -> int | None:
    """Return when time may do something to a scope. `late`: that it is late is noted already."""
    lease = record.lease
    if lease is None or lease.ended is not None:
        done = bool(record.scope.unit) and lease is not None and lease.ended is not Ended.EXPIRED
        return None if done else record.now_ms + LOOK_MS
    if lease.draining:
        return record.now_ms + DRAIN_LOOK_MS
    return lease.expires_at_ms if late else lease.expires_at_ms - terms.rules.margin_ms


def record_of(batch: Batch, row: LeaseRow, count: int) -> LeaseRecord:
    return LeaseRecord(
        scope=row.scope,
        last_term=batch.scopes[row.scope].last_term,
        lease=row.lease,
        version=row.version,
        transitions=row.transitions,
        now_ms=batch.now_ms,
        in_flight=count,
    )


def _ended_or_late(batch: Batch, row: LeaseRow, terms: FunctionTerms, count: int) -> list[Lapsed]:
    lease = row.lease
    if lease is None:
        return []
    if lease.ended is not None:
        return [Lapsed("leader-lost", record_of(batch, row, count), uncertain=count)]
    state = machine.state_of(lease, batch.now_ms, terms.rules.margin_ms)
    if state is not LeaseState.UNCERTAIN or row.uncertain_at_ms is not None:
        return []
    row.uncertain_at_ms = batch.now_ms
    batch.book.change(row, lease, counts=False)
    batch.journal(
        "leader-uncertain",
        row.scope,
        term=lease.term,
        holder=lease.holder,
        reason="not-renewed-within-margin",
        lease_version=row.version,
        uncertain=count,
        next_action="it renews, or the lease expires and a candidate acquires the next term",
        detail={"expires_at_ms": lease.expires_at_ms},
    )
    return [Lapsed("leader-uncertain", record_of(batch, row, count), uncertain=count)]


def _vacancy(
    batch: Batch, row: LeaseRow, terms: FunctionTerms, count: int, vacant: _Vacant
) -> list[Lapsed]:
    """Journal once for each time that a scope is left with nobody to lead it, and alert once for
    each time that a function is.

    A unit's scope that was given back is done with, not deserted. While no gateway ran, nobody
    could report, so silence counts from its start.
    """
    scope, lease = row.scope, row.lease
    view = view_of(batch, row, count)
    reasons = machine.no_candidate(view, terms.rules, terms.eligible)
    done = bool(scope.unit) and lease is not None and lease.ended is not Ended.EXPIRED
    waited = lease is None
    if lease is not None:
        silent_since_ms = max(lease.ended_at_ms or 0, vacant.listening_since_ms)
        waited = batch.now_ms >= silent_since_ms + terms.rules.fresh_for_ms
    if reasons is None or done or (lease is None and not reasons):
        vacant.scopes.discard(scope)
        return []
    if not waited or scope in vacant.scopes:
        return []
    batch.journal(
        "no-eligible-candidate",
        scope,
        term=batch.scopes[scope].last_term or None,
        reason="no-eligible-candidate",
        lease_version=row.version,
        next_action="start an eligible worker, or change what the function's policy wants",
        responsible=terms.owner or None,
        detail={"reasons": reasons},
    )
    if not vacant.is_told(batch, row):
        vacant.tell(batch, scope, reasons, terms.owner)
    vacant.scopes.add(scope)
    return [Lapsed("no-eligible-candidate", record_of(batch, row, count), tuple(reasons))]


def _scopes(rows: Iterable[Sequence[Any]]) -> list[Scope]:
    return [Scope(row[0], row[1]) for row in rows]
