"""The eight figures of a scenario, all read from what is on record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from gateway.demo.promises import intended
from gateway.demo.record import Record, Row, at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a scenario came to.

    `terms` are those that the CRM accepted writes of, in the order of their first; `resumed`
    names the checkpoints from which a successor went on; `uncertain` counts effects that are
    unknown and in nobody's hands.
    """

    units: int
    effects: int
    intended: int
    terms: list[int]
    without_leader_s: float
    resumed: list[str]
    transitions: list[str]
    exceptions: int
    uncertain: int
    settled_by: dict[str, int]
    duplicates: int

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "can_be_reconciled": not self.uncertain}


def figures_of(record: Record, unled_since_ms: Sequence[int]) -> Figures:
    return Figures(
        units=len(record.units),
        effects=len(record.applied),
        intended=len(intended(record)),
        terms=list(dict.fromkeys(one.term for one in record.applied)),
        without_leader_s=without_leader_s(record, unled_since_ms),
        resumed=resumed(record),
        transitions=[_passage(record, one) for one in record.acquired],
        exceptions=len(record.exceptions),
        uncertain=len(record.open_effects),
        settled_by=dict(record.resolved_by),
        duplicates=record.duplicates,
    )


def without_leader_s(record: Record, unled_since_ms: Sequence[int]) -> float:
    """Add up the time between leaders: from the moment at which the old one was stopped, or
    else its lease ended, to the next grant."""
    total_ms = 0
    for before, after in pairwise(record.acquired):
        since_ms, until_ms = at_ms(before["at"]), at_ms(after["at"])
        stopped = [at for at in unled_since_ms if since_ms <= at <= until_ms]
        lost = record.lost(before["term"])
        ended_ms = (lost or {}).get("detail", {}).get("ended_at_ms", until_ms)
        total_ms += until_ms - min([*stopped, ended_ms])
    return total_ms / 1000


def resumed(record: Record) -> list[str]:
    """Name where successors went on: at checkpoints of items, or at the unit's manifest."""
    from_checkpoint = [
        f"{one['item']}@{one['result']['resumed_from']}"
        for one in record.items
        if (one["result"] or {}).get("resumed_from")
    ]
    if from_checkpoint:
        return from_checkpoint
    created = {unit["created_term"] for unit in record.units}
    worked = {one["term"] for one in record.items}
    return ["manifest" if worked - created else "none"]


def _passage(record: Record, acquired: Row) -> str:
    lost = record.lost(acquired["term"])
    return f"{acquired['term']} {lost['reason']}" if lost else str(acquired["term"])
