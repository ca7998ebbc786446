"""What the gateway and the CRM have on record: the only place where figures come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from gateway.demo.agents import Crm

Row = Mapping[str, Any]
Get = Callable[[str], Awaitable[Any]]
NOTES: Final = "/notes"
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Applied:
    """One note that the CRM wrote: for which intent, and under which term it was admitted; 0 if
    it has no stamp of the gateway."""

    intent: str
    term: int
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything about one function, as it stood at one moment."""

    lease: Row
    units: Sequence[Row]
    items: Sequence[Row]
    effects: Sequence[Row]
    transitions: Sequence[Row]
    exceptions: Sequence[Row]  # those that are closed, too
    applied: Sequence[Applied]
    leaked: Sequence[str]  # headers of ours that reached the CRM
    duplicates: int

    @property
    def acquired(self) -> list[Row]:
        return [one for one in self.transitions if one["kind"] == "leader-acquired"]

    def lost(self, term: int) -> Row | None:
        """Return how a term ended, if it has."""
        found = (
            one for one in self.transitions if one["kind"] == "leader-lost" and one["term"] == term
        )
        return next(found, None)

    @property
    def open_effects(self) -> list[Row]:
        """Return the effects whose outcome is not known and that nobody has been given."""
        return [
            one
            for one in self.effects
            if one["outcome"] in (None, "unknown") and one["exception_id"] is None
        ]

    @property
    def resolved_by(self) -> Counter[str]:
        """Count by whom effects were settled whose answer did not settle them."""
        said = (one["resolved_by"] for one in self.effects)
        return Counter(who for who in said if who and who != "answer")


async def read_record(get: Get, crm: Crm, function: str) -> Record:
    """Read it all, through the gateway's API and from the CRM's own journal."""
    units = await _all(get, f"/v1/units?function={function}")
    items: list[Row] = []
    for unit in units:
        items += await _all(get, f"/v1/units/{unit['unit']}/items?limit={_PAGE}", "after")
    exceptions = await _all(get, f"/v1/exceptions?function={function}")
    exceptions += await _all(get, f"/v1/exceptions?function={function}&closed=true")
    journal = await crm.journal()
    applied = [
        applied_of(entry)
        for entry in journal.entries
        if entry["applied"] and entry["target"] == NOTES
    ]
    return Record(
        lease=await get(f"/v1/leases/{function}"),
        units=units,
        items=items,
        effects=await _all(get, f"/v1/effects?function={function}&limit={_PAGE}"),
        transitions=await _all(get, f"/v1/transitions?function={function}&limit={_PAGE}", "after"),
        exceptions=exceptions,
        applied=applied,
        leaked=_ours(journal.headers_seen()),
        duplicates=await crm.duplicates(),
    )


async def _all(get: Get, path: str, cursor: str = "cursor") -> list[Row]:
    found: list[Row] = []
    asked = path
    while True:
        page = await get(asked)
        found += page["items"]
        if page["next"] is None:
            return found
        asked = f"{path}{'&' if '?' in path else '?'}{cursor}={page['next']}"


def applied_of(entry: Row) -> Applied:
    """Read a note from the CRM's journal; its term is the stamp that the gateway put on it."""
    note = orjson.loads(entry["body"])
    return Applied(str(entry["intent"]), int(note.get("fence_term", 0)), str(entry["effect"]))


def _ours(names: set[str]) -> list[str]:
    return sorted(name for name in names if name.startswith("fence-") or name == "idempotency-key")


def at_ms(instant: str) -> int:
    return round(datetime.fromisoformat(instant).timestamp() * 1000)
