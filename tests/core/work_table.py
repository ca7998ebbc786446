"""What the rules of a unit must answer: every state of an item, every asker.

The answers are rules of their own, in words; `mistakes` holds a module to them, so that the
tests of the rules and the tests of this table (which break them on purpose) read the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from itertools import product
from types import ModuleType
from typing import Any

NOW_MS = 100_000
TERM = 7
DONE, OPEN = ("done", "failed", "abandoned"), ("pending", "claimed", "uncertain")
STATES = (*OPEN, *DONE)
WORKERS = ("ana#1", "bo#1", "leader#7")

MANIFESTS: tuple[dict[str, Any], ...] = (
    {},
    {"items": []},
    {"items": [{"id": "a"}, {"id": "b", "data": {"z": 1.5, "a": [None, True, "ç\n"]}}]},
    {"sources": ["crm", {"b": 2, "a": 1}], "criteria_version": "3", "items": [{"id": "é"}]},
)


def _items(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for state, worker, term, left_ms in product(
        STATES, WORKERS, (TERM - 1, TERM, TERM + 1), (-1, 0, 1)
    ):
        yield (
            f"{state}, of {worker} under {term}, {left_ms} ms left",
            module.Item(
                "a", module.ItemState(state), attempt=2, worker=worker, term=term,
                expires_at_ms=NOW_MS + left_ms, checkpoint_version=3,
            ),
        )  # fmt: skip


def _claims(module: ModuleType) -> Iterator[tuple[str, object, object]]:
    for about, item in _items(module):
        lives = item.state == "claimed" and item.term == TERM and item.expires_at_ms > NOW_MS
        yield (
            f"live claim of ana: {about}",
            module.claim_is_live(item, "ana#1", TERM, NOW_MS),
            lives and item.worker == "ana#1",
        )
        free = item.state == "pending" or (
            item.state == "claimed" and (item.term < TERM or item.expires_at_ms <= NOW_MS)
        )
        yield f"may be claimed: {about}", module.may_be_claimed(item, TERM, NOW_MS), free


def _reports(module: ModuleType) -> Iterator[tuple[str, object, object]]:
    for (about, item), state, attempt, leads in product(
        _items(module), ("done", "failed", "uncertain"), (1, 2, 3), (False, True)
    ):
        own = item.worker == "ana#1" and item.term == TERM
        may = attempt == 2 and (
            (item.state == "uncertain" and (own or leads))
            or (item.state == "claimed" and own)
            or (item.state == state and own)
        )
        said = module.judge_report(
            item, module.ItemState(state), "ana#1", TERM, attempt, leads=leads
        )
        expected = None if may else "not-claimed"
        yield f"{state} of attempt {attempt}, leads {leads}: {about}", said, expected
    done = module.ItemState.DONE
    nobody = module.judge_report(None, done, "ana#1", TERM, 1, leads=True)
    yield "report on no item", nobody, "item-unknown"


def _checkpoints(module: ModuleType) -> Iterator[tuple[str, object, object]]:
    for (about, item), version in product(_items(module), (2, 3, 4)):
        lives = module.claim_is_live(item, "ana#1", TERM, NOW_MS)
        expected = "not-claimed" if not lives else None if version == 3 else "version-conflict"
        said = module.judge_checkpoint(item, "ana#1", TERM, version, NOW_MS)
        yield f"checkpoint on {version}: {about}", said, expected
    nobody = module.judge_checkpoint(None, "ana#1", TERM, 0, NOW_MS)
    yield "checkpoint of no item", nobody, "item-unknown"


def _tallies(module: ModuleType) -> Iterator[tuple[dict[str, int], int, int, Any]]:
    for *counts, unknown, in_flight in product((0, 1), repeat=len(STATES) + 2):
        found = {state: 2 * count for state, count in zip(STATES, counts, strict=True) if count}
        items = {module.ItemState(state): count for state, count in found.items()}
        tally = module.Tally(items=items, unknown=unknown, in_flight=in_flight)
        yield found, unknown, in_flight, tally


def _endings(module: ModuleType) -> Iterator[tuple[str, object, object]]:
    for found, unknown, in_flight, tally in _tallies(module):
        about = f"{found}, {unknown} unknown, {in_flight} in flight"
        total = sum(found.values())
        expected = [f"2 of {total} items are {state}" for state in OPEN if state in found]
        expected += ["1 effects are in flight"] * in_flight
        expected += ["1 effects are unknown and nobody has answered for them"] * unknown
        for given in (None, "a" * 64):
            yield f"end: {about}", module.judge_completion(tally, "a" * 64, given), expected
        other = module.judge_completion(tally, "a" * 64, "b" * 64)
        changed = "the manifest's digest is aaaaaaaaaaaa…, and bbbbbbbbbbbb… was named"
        yield f"end by another manifest: {about}", other, [changed, *expected]
        left = sum(found.get(state, 0) for state in OPEN)
        yield f"unfinished: {about}", (tally.unfinished, tally.total), (left, total)
        shown = "unit-open"
        if total > found.get("pending", 0):
            shown = "unit-processing"
        if unknown or "uncertain" in found:
            shown = "unit-uncertain"
        yield f"shown open: {about}", module.shown_as(module.UnitStatus.OPEN, tally), shown
        for status in ("completed", "abandoned"):
            said = module.shown_as(module.UnitStatus(status), tally)
            yield f"shown {status}: {about}", said, f"unit-{status}"


def _digests(module: ModuleType) -> Iterator[tuple[str, object, object]]:
    for manifest in MANIFESTS:
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        expected = sha256(text.encode()).hexdigest()
        yield f"digest of {text}", module.manifest_digest(manifest), expected
        turned = dict(reversed(manifest.items()))
        yield f"digest of {text}, turned", module.manifest_digest(turned), expected


def mistakes(module: ModuleType) -> list[str]:
    """Return what `module` answers wrongly."""
    parts = (_claims, _reports, _checkpoints, _endings, _digests)
    return [
        f"{about}: {said!r}, not {expected!r}"
        for part in parts
        for about, said, expected in part(module)
        if said != expected
    ]
