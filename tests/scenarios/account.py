"""The account of a run: what the CRM did, beside what the ledger says and callers were told."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.core.effect import Outcome
from gateway.store.records import EffectRecord

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Account:
    """Each list holds keys (or sentences) for which a promise was broken."""

    requests: int
    effects: int
    confirmed: int
    unknown: int
    duplicates: list[str]  # carried out twice
    unrecorded: list[str]  # received, and the ledger knows nothing of it
    denied: list[str]  # carried out, and the ledger says that it was not
    invented: list[str]  # confirmed, and never carried out
    unfinished: list[str]  # still in flight at the end
    overtaken: list[str]  # a higher term's write to a thing, then a lower one's

    @property
    def broken(self) -> dict[str, list[str]]:
        names = ("duplicates", "unrecorded", "denied", "invented", "unfinished", "overtaken")
        return {name: found for name in names if (found := getattr(self, name))}

    def __str__(self) -> str:
        return (
            f"{self.requests} requests at the CRM, {self.effects} effects, "
            f"{self.confirmed} confirmed, {self.unknown} unknown, {len(self.duplicates)} duplicates"
        )


def take_account(entries: Sequence[Entry], ledger: Mapping[str, EffectRecord]) -> Account:
    """Compare the CRM's journal with the ledger, key by key."""
    writes = [entry for entry in entries if entry["method"] != "GET"]
    applied = Counter(str(entry["intent"]) for entry in writes if entry["applied"])
    outcome = {key: effect.outcome for key, effect in ledger.items()}
    known = {Outcome.CONFIRMED, Outcome.UNKNOWN}
    return Account(
        requests=len(writes),
        effects=len(applied),
        confirmed=sum(one is Outcome.CONFIRMED for one in outcome.values()),
        unknown=sum(one is Outcome.UNKNOWN for one in outcome.values()),
        duplicates=[key for key, times in applied.items() if times > 1],
        unrecorded=sorted({str(entry["intent"]) for entry in writes} - ledger.keys()),
        denied=[key for key in applied if key in ledger and outcome[key] not in known],
        invented=[
            key for key, one in outcome.items() if one is Outcome.CONFIRMED and key not in applied
        ],
        unfinished=[key for key, one in outcome.items() if one is None],
        overtaken=_overtaken(writes),
    )


def _overtaken(writes: Sequence[Entry]) -> list[str]:
    """Find records whose versions were made under terms that do not only grow."""
    made: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for entry in writes:
        if entry["applied"]:
            record, _, version = str(entry["effect"]).rpartition("@")
            term = next(
                int(text) for name, text in entry["headers"] if name.lower() == "x-sent-under"
            )
            made[record].append((int(version), term))
    found = []
    for record, versions in made.items():
        terms = [term for _, term in sorted(versions)]
        if terms != sorted(terms):
            found.append(f"{record}: {terms}")
    return found
