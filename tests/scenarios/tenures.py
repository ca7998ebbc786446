"""The account of an election: what the ledger says of terms, beside what workers were told.

Times of workers are seconds on one clock for all processes, those of the ledger its own
milliseconds; the two are never compared.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.scenarios.stage import Stage

Note = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tenure:
    """One term as the ledger has it. `ended_ms` is None while it lasts."""

    term: int
    holder: str
    began_ms: int
    ended_ms: int | None = None
    reason: str | None = None
    free_ms: int | None = None  # how long nobody led before it


@dataclass(frozen=True, slots=True)
class Admission:
    """One attempt that was let through."""

    term: int
    holder: str
    at_ms: int


@dataclass
class Tenures:
    """What the ledger says of one scope."""

    grants: list[Tenure]  # in the order in which they were recorded
    handovers: dict[int, str]  # term to holder
    admissions: list[Admission]
    last_term: int
    broken: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def must_hold_together(self) -> None:
        """Terms only grow, tenures are disjoint, and every admission lies within its own."""
        terms = [grant.term for grant in self.grants]
        if terms != list(range(1, len(terms) + 1)) or self.last_term != len(terms):
            self.broken["not growing"].append(f"{terms}, last term {self.last_term}")
        if self.handovers != {grant.term: grant.holder for grant in self.grants}:
            self.broken["handovers"].append(f"{self.handovers}")
        for before, after in zip(self.grants, self.grants[1:], strict=False):
            if before.ended_ms is None or before.ended_ms > after.began_ms:
                self.broken["overlapping"].append(f"{before} and {after}")
        by_term = {grant.term: grant for grant in self.grants}
        for one in self.admissions:
            tenure = by_term.get(one.term)
            if tenure is None or tenure.holder != one.holder:
                self.broken["not the holder"].append(f"{one} in {tenure}")
            elif not tenure.began_ms <= one.at_ms <= (tenure.ended_ms or one.at_ms):
                self.broken["outside of its tenure"].append(f"{one} in {tenure}")

    def must_agree_with(self, told: Iterable[Note], sent: Iterable[Note]) -> None:
        """What workers were told stands in the ledger, came in order, and was enough for them.

        `told` are grants as workers heard of them, `sent` the commands that they started.
        """
        told = sorted(told, key=lambda note: note["asked_s"])
        for note in told:
            if self.handovers.get(note["term"]) != note["holder"]:
                self.broken["told, not recorded"].append(str(note))
        heard = sorted(told, key=lambda note: note["at_s"])
        known, highest = 0, 0
        for note in told:
            while known < len(heard) and heard[known]["at_s"] < note["asked_s"]:
                highest = max(highest, heard[known]["term"])
                known += 1
            if note["term"] < highest:
                self.broken["terms that fell"].append(f"{note} after {highest} was told")
        self._must_not_believe_too_long(heard, sent)

    def _must_not_believe_too_long(self, heard: Sequence[Note], sent: Iterable[Note]) -> None:
        """No worker's own check passed after somebody had heard of a newer term."""
        first_heard_s: dict[int, float] = {}
        for note in heard:
            first_heard_s.setdefault(note["term"], note["at_s"])
        newer_s: dict[int, float] = {}
        soonest_s = float("inf")
        for term in range(self.last_term, 0, -1):
            newer_s[term] = soonest_s
            soonest_s = min(soonest_s, first_heard_s.get(term, soonest_s))
        for note in sent:
            if note["effect"] != "not sent" and note["began_s"] > newer_s[note["term"]]:
                self.broken["believed too long"].append(str(note))

    def must_agree_with_the_crm(self, entries: Iterable[Note]) -> None:
        """One holder's requests only came under each term."""
        for entry in entries:
            said = {name.lower(): text for name, text in entry["headers"]}
            if "x-sent-by" not in said:
                continue
            if self.handovers.get(int(said["x-sent-under"])) != said["x-sent-by"]:
                self.broken["not the holder, at the CRM"].append(str(said))

    def without_leader_ms(self) -> list[int]:
        """Return how long the scope was free before each grant but the first."""
        return [grant.free_ms or 0 for grant in self.grants[1:]]


def read_tenures(stage: Stage, function: str) -> Tenures:
    """Read them from the ledger's file."""
    grants: dict[int, Tenure] = {}
    for kind, term, holder, at_ms, reason, detail in stage.ask_ledger(
        "SELECT kind, term, holder, at_ms, reason, detail FROM transition "
        "WHERE function = ? AND kind IN ('leader-acquired', 'leader-lost') ORDER BY id",
        function,
    ):
        said = json.loads(detail or "{}")
        if kind == "leader-acquired":
            assert term not in grants, f"term {term} was granted twice"
            grants[term] = Tenure(term, holder, at_ms, free_ms=said["free_ms"])
        else:
            was = grants[term]
            assert was.ended_ms is None, f"term {term} ended twice"
            grants[term] = Tenure(
                term, was.holder, was.began_ms, said["ended_at_ms"], reason, was.free_ms
            )
    ((last_term,),) = stage.ask_ledger(
        "SELECT last_term FROM scope WHERE function = ?", function
    ) or [(0,)]
    return Tenures(
        grants=list(grants.values()),
        handovers=dict(
            stage.ask_ledger("SELECT term, holder FROM handover WHERE function = ?", function)
        ),
        admissions=[
            Admission(*row)
            for row in stage.ask_ledger(
                "SELECT term, holder, created_at_ms FROM attempt WHERE function = ? "
                "ORDER BY created_at_ms",
                function,
            )
        ],
        last_term=last_term,
    )


def spread(times_s: Sequence[float]) -> str:
    """Return median and maximum, for people."""
    if not times_s:
        return "none"
    return f"p50 {statistics.median(times_s):.2f} s, max {max(times_s):.2f} s"
