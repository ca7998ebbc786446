"""Units of work: what a leader hands out, who works on which item, and when it is finished.

Pure. A unit outlives its leaders: a new one finds it, keeps what is done, and hands out again
only what is not. So nothing of it lives in a leader's memory, and every write names the term
that it is made under.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class UnitStatus(StrEnum):
    """Whether a unit still takes work."""

    OPEN = "open"
    COMPLETED = "completed"
    ABANDONED = "abandoned"


class UnitShown(StrEnum):
    """How a unit is shown and journalled."""

    OPEN = "unit-open"
    PROCESSING = "unit-processing"
    UNCERTAIN = "unit-uncertain"
    COMPLETED = "unit-completed"
    ABANDONED = "unit-abandoned"


class ItemState(StrEnum):
    """Where an item stands."""

    PENDING = "pending"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    ABANDONED = "abandoned"


FINAL: Final = frozenset({ItemState.DONE, ItemState.FAILED, ItemState.ABANDONED})
"""States that nothing follows; a unit is complete when all of its items are in one."""


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of a unit. `attempt` counts its claims; `term` is that of the latest."""

    id: str
    state: ItemState = ItemState.PENDING
    attempt: int = 0
    worker: str | None = None
    term: int = 0
    expires_at_ms: int = 0
    checkpoint_version: int = 0


class WorkRefusal(StrEnum):
    """Why a write to a unit was turned away, beyond what the fence says."""

    NOT_CLAIMED = "not-claimed"  # no claim of this worker, term and attempt
    VERSION_CONFLICT = "version-conflict"  # the checkpoint moved on
    ITEM_UNKNOWN = "item-unknown"
    UNIT_UNFINISHED = "unit-unfinished"  # items or effects are open
    UNIT_TAKEN = "unit-taken"  # the key is another function's unit


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Return the digest of a manifest: what it says, whatever the order of its members.

    SHA-256 of its JSON with sorted members and without white space. Made item by item: in one
    piece, a large manifest would hold up everything else in the process.
    """
    digest = hashlib.sha256(b"{")
    for at, name in enumerate(sorted(manifest)):
        digest.update(f"{',' if at else ''}{_canonical(name)}:".encode())
        value = manifest[name]
        if not isinstance(value, list):
            digest.update(_canonical(value).encode())
            continue
        digest.update(b"[")
        for n, part in enumerate(value):
            digest.update(f"{',' if n else ''}{_canonical(part)}".encode())
        digest.update(b"]")
    digest.update(b"}")
    return digest.hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def claim_is_live(item: Item, worker: str, term: int, now_ms: int) -> bool:
    """Whether `worker` holds `item` under `term` right now.

    A claim under an older term counts no more: the new leader hands out again.
    """
    return (
        item.state is ItemState.CLAIMED
        and item.worker == worker
        and item.term == term
        and now_ms < item.expires_at_ms
    )


def may_be_claimed(item: Item, term: int, now_ms: int) -> bool:
    """Whether anybody may take `item` under `term`.

    An uncertain item waits for reconciliation, not for another try. The store asks this of
    all items in one statement; tests hold the two together.
    """
    if item.state is ItemState.PENDING:
        return True
    if item.state is not ItemState.CLAIMED:
        return False
    return item.term < term or now_ms >= item.expires_at_ms


def judge_report(
    item: Item | None, state: ItemState, worker: str, term: int, attempt: int, *, leads: bool
) -> WorkRefusal | None:
    """Return why a report about `item` is not taken; None if it is, or was before.

    An expired claim that nobody else has taken may still be reported: what was done is done,
    and refusing to hear of it would have it done again. What a worker of any term has left
    uncertain, the leader settles: its worker may never come back, and the unit has to end.
    """
    if item is None:
        return WorkRefusal.ITEM_UNKNOWN
    if item.attempt != attempt:
        return WorkRefusal.NOT_CLAIMED
    if item.state is ItemState.UNCERTAIN and leads:
        return None
    if item.worker != worker or item.term != term:
        return WorkRefusal.NOT_CLAIMED
    if item.state in (ItemState.CLAIMED, ItemState.UNCERTAIN, state):
        return None
    return WorkRefusal.NOT_CLAIMED  # what is final does not change


def judge_checkpoint(
    item: Item | None, worker: str, term: int, expected_version: int, now_ms: int
) -> WorkRefusal | None:
    """Return why a checkpoint is not taken. Versions step by one, by a live claim only."""
    if item is None:
        return WorkRefusal.ITEM_UNKNOWN
    if not claim_is_live(item, worker, term, now_ms):
        return WorkRefusal.NOT_CLAIMED
    if item.checkpoint_version != expected_version:
        return WorkRefusal.VERSION_CONFLICT
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a unit's items and effects add up to. `unknown` effects are those without an
    exception that somebody has acknowledged."""

    items: Mapping[ItemState, int]
    unknown: int = 0
    in_flight: int = 0

    @property
    def total(self) -> int:
        return sum(self.items.values())

    @property
    def unfinished(self) -> int:
        return sum(count for state, count in self.items.items() if state not in FINAL)


def judge_completion(tally: Tally, recorded_digest: str, given_digest: str | None) -> list[str]:
    """Return what stands against completing a unit, one sentence each; none if it may end."""
    reasons = []
    if given_digest is not None and given_digest != recorded_digest:
        reasons.append(
            f"the manifest's digest is {recorded_digest[:12]}…, and {given_digest[:12]}… was named"
        )
    for state in (ItemState.PENDING, ItemState.CLAIMED, ItemState.UNCERTAIN):
        count = tally.items.get(state, 0)
        if count:
            reasons.append(f"{count} of {tally.total} items are {state.value}")
    if tally.in_flight:
        reasons.append(f"{tally.in_flight} effects are in flight")
    if tally.unknown:
        reasons.append(f"{tally.unknown} effects are unknown and nobody has answered for them")
    return reasons


def shown_as(status: UnitStatus, tally: Tally) -> UnitShown:
    """Return how a unit is shown."""
    if status is UnitStatus.COMPLETED:
        return UnitShown.COMPLETED
    if status is UnitStatus.ABANDONED:
        return UnitShown.ABANDONED
    if tally.unknown or tally.items.get(ItemState.UNCERTAIN, 0):
        return UnitShown.UNCERTAIN
    if tally.total > tally.items.get(ItemState.PENDING, 0):
        return UnitShown.PROCESSING
    return UnitShown.OPEN
