"""What candidates report of themselves, on a batch."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.ids import Scope
from gateway.store.batch import Batch
from gateway.store.lease_records import CandidateRecord, CandidateReport
from gateway.store.lease_rows import CandidateRow
from gateway.store.wanted import Wanted


def report(
    batch: Batch, function: str, holder: str, principal: str, given: CandidateReport | None
) -> CandidateRow:
    """Note what a candidate says of itself. None is a sign of life that says nothing new.

    A holder's name belongs to the principal that reports it: another's report is not taken,
    and what stands there is returned.
    """
    known = batch.book.candidate(function, holder)
    if known is not None and known.principal != principal:
        return known
    row = CandidateRow(
        function=function,
        holder=holder,
        principal=principal,
        report=given or (known.report if known else CandidateReport()),
        since_ms=known.since_ms if known else batch.now_ms,
        reported_at_ms=batch.now_ms,
        following_term=known.following_term if known else 0,
    )
    batch.book.put_candidate(row)
    if known is None:
        batch.journal(
            "candidate",
            Scope(function),
            holder=holder,
            principal=principal,
            reason="reported",
            next_action="it follows until a lease that it may acquire is free",
        )
    return row


@dataclass(frozen=True, slots=True)
class Reporting:
    """Note a candidate's report."""

    function: str
    holder: str
    principal: str
    given: CandidateReport

    def wants(self, wanted: Wanted) -> None:
        wanted.candidates.add(self.function)

    def run(self, batch: Batch) -> CandidateRecord:
        row = report(batch, self.function, self.holder, self.principal, self.given)
        return row.as_record(batch.book.losses(self.function))


@dataclass(frozen=True, slots=True)
class Withdrawing:
    """Forget a candidate that does not want to lead any more."""

    function: str
    holder: str
    principal: str

    def wants(self, wanted: Wanted) -> None:
        wanted.candidates.add(self.function)

    def run(self, batch: Batch) -> bool:
        known = batch.book.candidate(self.function, self.holder)
        if known is None or known.principal != self.principal:
            return False
        batch.book.withdraw(known)
        return True
