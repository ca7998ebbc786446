"""What must hold of a unit of work after every step, whatever happened in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.core.work import FINAL, ItemState, manifest_digest
from gateway.store.work import Checkpointing, Claiming, Reporting
from gateway.store.work_records import WorkAnswer
from tests.simulation.destination import hold

OPEN = ("pending", "claimed", "uncertain")
NEXT = {
    "pending": {"pending", "claimed", "done", "failed", "uncertain", "abandoned"},
    "claimed": {"claimed", "done", "failed", "uncertain", "abandoned"},
    "uncertain": {"uncertain", "done", "failed", "abandoned"},
}
"""Where an item may be after one batch, in which it may have gone several steps."""


@dataclass(frozen=True)
class ItemSeen:
    state: str
    attempt: int
    worker: str | None
    term: int
    expires_at_ms: int
    checkpoint_version: int


@dataclass(frozen=True)
class UnitSeen:
    """A unit and its items as they are on disk. `open_effects` are not settled, or unknown, and
    `waiting` are the items that they are about."""

    status: str
    digest: str
    laid_down: tuple[tuple[int, str, str | None], ...]
    items: Mapping[str, ItemSeen]
    open_effects: frozenset[str]
    waiting: frozenset[str]
    highest_term: int
    journal: tuple[str, ...]


def look(path: Path, unit: str) -> UnitSeen:
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        status, digest = db.execute(
            "SELECT status, manifest_digest FROM unit WHERE unit = ?", (unit,)
        ).fetchone()
        rows = db.execute(
            "SELECT ordinal, item, data, state, attempt, worker, term, expires_at_ms, "
            "checkpoint_version FROM unit_item WHERE unit = ? ORDER BY ordinal",
            (unit,),
        ).fetchall()
        effects = db.execute(
            "SELECT id, item FROM effect "
            "WHERE unit = ? AND (outcome IS NULL OR outcome = 'unknown')",
            (unit,),
        ).fetchall()
        (highest,) = db.execute("SELECT coalesce(max(highest_term), 0) FROM scope").fetchone()
        journal = db.execute(
            "SELECT kind FROM transition WHERE unit = ? AND kind LIKE 'unit-%' ORDER BY id", (unit,)
        ).fetchall()
    finally:
        db.close()
    return UnitSeen(
        status=status,
        digest=digest,
        laid_down=tuple((row[0], row[1], row[2]) for row in rows),
        items={row[1]: ItemSeen(*row[3:]) for row in rows},
        open_effects=frozenset(effect for effect, _ in effects),
        waiting=frozenset(item for _, item in effects if item is not None),
        highest_term=highest,
        journal=tuple(kind for (kind,) in journal),
    )


def check_step(before: UnitSeen, after: UnitSeen) -> None:
    """Check what no step may do."""
    hold("I13 manifest", after.laid_down == before.laid_down, "items were changed or lost")
    hold("I13 manifest", after.digest == before.digest, "the digest was changed")
    if before.status != "open":
        hold("I13 closed", after.status == before.status, f"{before.status} became {after.status}")
        hold("I13 closed", after.items == before.items, f"items of a {before.status} unit changed")
    for name, was in before.items.items():
        now = after.items[name]
        may = NEXT.get(was.state, {was.state})
        hold("items", now.state in may, f"{name} went from {was.state} to {now.state}")
        hold("items", now.attempt >= was.attempt, f"{name}: attempt {was.attempt}, {now.attempt}")
        hold("items", now.term <= after.highest_term, f"{name} is under {now.term}")
        hold("items", now.term >= was.term, f"{name} went from term {was.term} to {now.term}")
    ends = [kind for kind in after.journal if kind in ("unit-completed", "unit-abandoned")]
    hold("I13 once", len(ends) == (after.status != "open"), f"it ended as {ends}")
    if before.status == "open" and after.status == "completed":
        check_completed(after)


def check_completed(unit: UnitSeen) -> None:
    """Complete means: the manifest is the recorded one, every item final, and nothing is open."""
    left = {name: item.state for name, item in unit.items.items() if item.state in OPEN}
    hold("I13 final", not left, f"it was completed with {left}")
    final = sum(item.state in FINAL for item in unit.items.values())
    hold("I13 counts", final == len(unit.laid_down), f"{final} of {len(unit.laid_down)} are final")
    hold("I13 effects", not unit.open_effects, f"it was completed with {unit.open_effects}")
    manifest = {"criteria_version": "3", "items": [{"id": item} for _, item, _ in unit.laid_down]}
    hold("I13 manifest", manifest_digest(manifest) == unit.digest, "the digest is of another one")


def check_checkpoints(
    before: UnitSeen, after: UnitSeen, taken: Iterable[tuple[str, WorkAnswer, int]]
) -> None:
    """Check that versions stepped by one, each by a write under the term that was current.

    `taken` are item, answer and term of each checkpoint that the batch took.
    """
    for name, was in before.items.items():
        now = after.items[name]
        mine = [(answer, term) for item, answer, term in taken if item == name]
        new = {answer.version for answer, _ in mine if answer.version > was.checkpoint_version}
        stepped = set(range(was.checkpoint_version + 1, now.checkpoint_version + 1))
        hold("I12 by one", new == stepped, f"{name}: {new} were taken, {stepped} stand there")
        for answer, term in mine:
            current = answer.highest_term
            hold("I12 term", term == current, f"{name}: by term {term}, {current} is current")


def check_claim(before: UnitSeen, verb: Claiming, answer: WorkAnswer) -> None:
    """Check that nothing was taken away from anybody, and nothing given that has to wait."""
    hold("claims", len(answer.items) <= verb.limit, f"{len(answer.items)} for {verb.limit}")
    for got in answer.items:
        was = before.items[got.item]
        mine = (was.worker, was.term) == (verb.worker, verb.speech.term)
        live = was.state == "claimed" and answer.now_ms < was.expires_at_ms
        taken = live and was.term == verb.speech.term and not mine
        hold("claims", not taken, f"{got.item} was taken away from {was.worker}")
        hold("claims", was.state in ("pending", "claimed"), f"{got.item} was {was.state}")
        waits = got.item in before.waiting and not (mine and live)
        hold("claims wait", not waits, f"{got.item} was given out again, and it waits")


def check_claimant(
    before: UnitSeen, verb: Checkpointing | Reporting, answer: WorkAnswer, leader: str
) -> None:
    """Check that what was written of an item was written by its claim."""
    speech = verb.speech
    if isinstance(verb, Checkpointing):
        was = before.items[verb.item]
        live = was.state == "claimed" and answer.now_ms < was.expires_at_ms
        new = answer.version > was.checkpoint_version
        mine = live and (was.worker, was.term) == (speech.holder, speech.term)
        hold("I12 claim", mine or not new, f"{speech.holder} wrote on {verb.item}, {was}")
        return
    for report in verb.reports:
        was = before.items[report.item]
        mine = (was.worker, was.term) == (speech.holder, speech.term)
        settles = was.state == "uncertain" and speech.holder == leader
        turned = report.item in answer.turned
        hold("reports", mine or settles or turned, f"{speech.holder} on {report.item}, {was}")


def check_sender(
    before: UnitSeen, item: str | None, holder: str, term: int, now_ms: int, leader: str
) -> None:
    """Check that an effect that was admitted is the leader's, or that of a live claim."""
    hold("I4 unit", before.status == "open", f"an effect was admitted to a {before.status} unit")
    hold("I4 term", term >= before.highest_term, f"admitted under {term}")
    if holder == leader:
        return
    seen = before.items.get(item or "")
    live = (
        seen is not None
        and seen.state == ItemState.CLAIMED
        and (seen.worker, seen.term) == (holder, term)
        and now_ms < seen.expires_at_ms
    )
    hold("I4 claim", live, f"{holder} sent for {item}, of which it has {seen}")
