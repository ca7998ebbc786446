"""The rows of leadership in memory, while a batch decides: loaded, changed, flushed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.core.candidates import LOSSES_KEPT_MS, Candidate, worker_name
from gateway.core.errors import InvariantError
from gateway.core.ids import Scope
from gateway.core.lease import Ended, Lease
from gateway.store.database import Database
from gateway.store.lease_records import CandidateRecord, CandidateReport

LEASE_COLUMNS: Final = (
    "function, unit, term, holder, principal, acquired_at_ms, renewed_at_ms, expires_at_ms, "
    "duration_ms, drain_until_ms, uncertain_at_ms, ended, ended_at_ms, handed_by, version, "
    "transitions"
)
CANDIDATE_COLUMNS: Final = (
    "function, holder, principal, version, region, ready, priority, since_ms, reported_at_ms, "
    "following_term"
)


def _put(table: str, columns: str, keys: str) -> str:
    """Return the statement that writes a row, whether it is there or not."""
    names = columns.split(", ")
    told = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys.split(", "))
    return (
        f"INSERT INTO {table} ({columns}) VALUES ({','.join('?' * len(names))}) "
        f"ON CONFLICT ({keys}) DO UPDATE SET {told}"
    )


_PUT_LEASE: Final = _put("lease", LEASE_COLUMNS, "function, unit")
_PUT_CANDIDATE: Final = _put("candidate", CANDIDATE_COLUMNS, "function, holder")


@dataclass(slots=True)
class LeaseRow:
    """A scope's latest lease. `version` grows with every change but a renewal."""

    scope: Scope
    lease: Lease | None = None
    version: int = 0
    transitions: int = 0
    uncertain_at_ms: int | None = None

    @classmethod
    def read(cls, row: Sequence[Any]) -> LeaseRow:
        lease = Lease(
            term=row[2],
            holder=row[3],
            principal=row[4],
            acquired_at_ms=row[5],
            renewed_at_ms=row[6],
            expires_at_ms=row[7],
            duration_ms=row[8],
            drain_until_ms=row[9],
            ended=Ended(row[11]) if row[11] else None,
            ended_at_ms=row[12],
            handed_by=row[13],
        )
        return cls(Scope(row[0], row[1]), lease, row[14], row[15], row[10])

    def written(self) -> tuple[Any, ...]:
        lease = self.lease
        if lease is None:
            raise InvariantError(f"{self.scope} has no lease to write")
        return (
            *self.scope, lease.term, lease.holder, lease.principal, lease.acquired_at_ms,
            lease.renewed_at_ms, lease.expires_at_ms, lease.duration_ms, lease.drain_until_ms,
            self.uncertain_at_ms, lease.ended.value if lease.ended else None, lease.ended_at_ms,
            lease.handed_by, self.version, self.transitions,
        )  # fmt: skip


@dataclass(slots=True)
class CandidateRow:
    """A candidate's latest report. `following_term` is the term that it was last told of."""

    function: str
    holder: str
    principal: str
    report: CandidateReport
    since_ms: int
    reported_at_ms: int
    following_term: int = 0

    @classmethod
    def read(cls, row: Sequence[Any]) -> CandidateRow:
        report = CandidateReport(version=row[3], region=row[4], ready=bool(row[5]), priority=row[6])
        return cls(row[0], row[1], row[2], report, row[7], row[8], row[9])

    def written(self) -> tuple[Any, ...]:
        report = self.report
        return (
            self.function, self.holder, self.principal, report.version, report.region,
            int(report.ready), report.priority, self.since_ms, self.reported_at_ms,
            self.following_term,
        )  # fmt: skip

    def as_candidate(self, losses: Mapping[str, Sequence[int]]) -> Candidate:
        report = self.report
        return Candidate(
            holder=self.holder,
            principal=self.principal,
            version=report.version,
            region=report.region,
            ready=report.ready,
            priority=report.priority,
            reported_at_ms=self.reported_at_ms,
            losses=tuple(losses.get(worker_name(self.holder), ())),
        )

    def as_record(self, losses: Mapping[str, Sequence[int]]) -> CandidateRecord:
        return CandidateRecord(self.function, self.as_candidate(losses), self.since_ms)


@dataclass(slots=True)
class LeaseMemory:
    """What was read or written last. The file is ours alone, so it is what stands there; a
    failed batch and upkeep with statements of its own empty it."""

    leases: dict[Scope, LeaseRow] = field(default_factory=dict)
    candidates: dict[str, dict[str, CandidateRow]] = field(default_factory=dict)
    losses: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def forget(self) -> None:
        self.leases.clear()
        self.candidates.clear()
        self.losses.clear()


class LeaseBook:
    """The leases and candidates at work in one batch."""

    def __init__(self, db: Database, now_ms: int, memory: LeaseMemory) -> None:
        self._db = db
        self._now_ms = now_ms
        self._memory = memory
        self._changed: dict[Scope, LeaseRow] = {}
        self._reported: dict[tuple[str, str], CandidateRow] = {}
        self._withdrawn: set[tuple[str, str]] = set()
        self._lost: list[tuple[str, str, int]] = []

    # -- loading

    def load(self, scopes: Collection[Scope], functions: Collection[str]) -> None:
        memory = self._memory
        for scope in scopes:
            if scope not in memory.leases:
                row = self._db.execute(
                    f"SELECT {LEASE_COLUMNS} FROM lease WHERE function = ? AND unit = ?", scope
                ).fetchone()
                memory.leases[scope] = LeaseRow.read(row) if row else LeaseRow(scope)
        for function in functions:
            if function not in memory.candidates:
                memory.candidates[function] = load_candidates(self._db, function)
                memory.losses[function] = load_losses(self._db, function, self._now_ms)

    # -- reading

    def lease(self, scope: Scope) -> LeaseRow:
        return self._memory.leases[scope]

    def candidate(self, function: str, holder: str) -> CandidateRow | None:
        return self._memory.candidates[function].get(holder)

    def losses(self, function: str) -> Mapping[str, Sequence[int]]:
        return self._memory.losses[function]

    def candidates(self, function: str) -> list[Candidate]:
        losses = self.losses(function)
        return [row.as_candidate(losses) for row in self._memory.candidates[function].values()]

    # -- changing

    def change(self, row: LeaseRow, lease: Lease, *, counts: bool = True) -> None:
        """Put `lease` in its row. A change that counts gives the row its next version."""
        row.lease = lease
        row.version += counts
        self._changed[row.scope] = row

    def put_candidate(self, row: CandidateRow) -> None:
        self._memory.candidates[row.function][row.holder] = row
        self._reported[row.function, row.holder] = row
        self._withdrawn.discard((row.function, row.holder))

    def withdraw(self, row: CandidateRow) -> None:
        del self._memory.candidates[row.function][row.holder]
        self._reported.pop((row.function, row.holder), None)
        self._withdrawn.add((row.function, row.holder))

    def add_loss(self, function: str, holder: str, at_ms: int) -> None:
        worker = worker_name(holder)
        self._lost.append((function, worker, at_ms))
        if function in self._memory.losses:
            self._memory.losses[function].setdefault(worker, []).append(at_ms)

    # -- writing

    def flush(self) -> None:
        """Write what changed. Raises InvariantError if a lease was not written."""
        if self._changed:
            for row in self._changed.values():
                written = self._db.execute(_PUT_LEASE, row.written()).rowcount
                if written != 1:
                    raise InvariantError(f"the lease of {row.scope} was not written")
        if self._withdrawn:
            self._db.executemany(
                "DELETE FROM candidate WHERE function = ? AND holder = ?", self._withdrawn
            )
        if self._reported:
            self._db.executemany(_PUT_CANDIDATE, [row.written() for row in self._reported.values()])
        if self._lost:
            self._db.executemany(
                "INSERT INTO lease_loss (function, worker, at_ms) VALUES (?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                self._lost,
            )
        self._changed.clear()
        self._withdrawn.clear()
        self._reported.clear()
        self._lost.clear()


def load_candidates(db: Database, function: str) -> dict[str, CandidateRow]:
    found = db.execute(f"SELECT {CANDIDATE_COLUMNS} FROM candidate WHERE function = ?", [function])
    return {row[1]: CandidateRow.read(row) for row in found.fetchall()}


def load_losses(db: Database, function: str, now_ms: int) -> dict[str, list[int]]:
    losses: dict[str, list[int]] = {}
    found = db.execute(
        "SELECT worker, at_ms FROM lease_loss WHERE function = ? AND at_ms > ? ORDER BY at_ms",
        (function, now_ms - LOSSES_KEPT_MS),
    )
    for worker, at_ms in found.fetchall():
        losses.setdefault(worker, []).append(at_ms)
    return losses
