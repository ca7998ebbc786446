"""Rows of a ledger that has been in use for two months, as a gateway would have left them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import orjson

from gateway.core.ids import EffectKey, effect_mark, new_effect_id

SPAN_MS: Final = 60 * 86_400_000
TERMS: Final = 3
ITEMS: Final = 5
UNKNOWN_EVERY: Final = 1000
REJECTED_EVERY: Final = 100
BODY: Final = orjson.dumps({"id": "note-123456", "text": "x" * 180, "created": "2026-10-01"})
HEADERS: Final = '[["Content-Type","application/json"],["Location","/notes/note-123456"]]'
REQUEST_HEAD: Final = '[["Content-Type","application/json"],["Content-Length","240"]]'

COLUMNS: Final = {
    "scope": "function unit highest_term last_term holder raised_at_ms",
    "handover": "function unit term holder previous_term previous_holder at_ms effects",
    "transition": "at_ms kind function unit term holder reason",
    "refusal": "function unit destination principal holder term reason count first_at_ms "
    "last_at_ms",
    "candidate": "function holder principal version region ready priority since_ms "
    "reported_at_ms following_term",
    "unit": "unit function status manifest manifest_digest created_term created_by created_at_ms "
    "version",
    "unit_item": "unit ordinal item data state attempt worker term expires_at_ms "
    "checkpoint_version changed_at_ms",
    "effect": "id destination function unit key scope_unit covers principal outcome attempts "
    "rejected version resolved_by created_at_ms settled_at_ms",
    "attempt": "effect_id n function scope_unit destination covers term holder principal instance "
    "method target fp_version fp_raw policy_digest created_at_ms deadline_at_ms seal_at_ms "
    "ended_at_ms outcome reason status open request_head request_body answer_seq route",
    "answer": "seq effect_id n status headers body body_sha256 body_bytes state at_ms",
}


def function_name(n: int) -> str:
    return f"function-{n:05d}"


def holder_of(n: int, term: int) -> str:
    return f"worker-{n % 7}#{term}"


def of_functions(first: int, last: int, now_ms: int) -> dict[str, list[tuple[Any, ...]]]:
    """Return what there is once for each function: three terms, a unit, and who may lead."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
    for n in range(first, last):
        name, unit = function_name(n), f"unit-{n:05d}"
        rows["scope"].append((name, "", TERMS, TERMS, holder_of(n, TERMS), now_ms - 3_600_000))
        for term in range(1, TERMS + 1):
            at_ms = now_ms - SPAN_MS // term
            before = holder_of(n, term - 1) if term > 1 else None
            rows["handover"].append(
                (name, "", term, holder_of(n, term), term - 1, before, at_ms, "[]")
            )
            rows["transition"] += [
                (at_ms, "leader-lost", name, "", term - 1, before, "expired"),
                (at_ms, "leader-elected", name, "", term, holder_of(n, term), "vacant"),
            ]
            rows["refusal"].append(
                (name, "", "crm", "worker", holder_of(n, term), term, "stale-term", 3,
                 at_ms, now_ms - 86_400_000)
            )  # fmt: skip
        rows["candidate"].append(
            (name, holder_of(n, TERMS), "worker", "1.4.0", "eu", 1, 0, now_ms - SPAN_MS, now_ms, 0)
        )
        rows["unit"].append(
            (unit, name, "open", "{}", "digest", 1, holder_of(n, 1), now_ms - SPAN_MS, 1)
        )
        rows["unit_item"] += [
            (unit, item, f"item-{item}", None, "done" if item % 2 else "pending", item % 2,
             None, 1, 0, 0, now_ms - SPAN_MS)
            for item in range(ITEMS)
        ]  # fmt: skip
    return rows


def of_effects(
    first: int, last: int, total: int, functions: int, now_ms: int
) -> dict[str, list[tuple[Any, ...]]]:
    """Return effects number `first` to `last` of `total`, oldest first, spread over all functions
    and evenly over the span. One in a thousand is unknown and open, with its request and evidence;
    one in a hundred was rejected; the others are confirmed."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
    for n in range(first, last):
        at_ms = now_ms - SPAN_MS + SPAN_MS * n // total
        owner = n * 7919 % functions
        name, unit = function_name(owner), f"unit-{owner:05d}"
        key = EffectKey("crm", name, unit, f"key-{n:08d}")
        covers = f"notes/new/{effect_mark(key)}"
        effect_id = new_effect_id(at_ms)
        unknown = n % UNKNOWN_EVERY == 0
        rejected = not unknown and n % REJECTED_EVERY == 1
        outcome = "unknown" if unknown else "rejected" if rejected else "confirmed"
        status = 502 if unknown else 422 if rejected else 201
        rows["effect"].append(
            (effect_id, "crm", name, unit, key.key, "", covers, "worker", outcome, 1,
             int(rejected), 2, None if unknown else "answer", at_ms,
             None if unknown else at_ms + 90)
        )  # fmt: skip
        rows["attempt"].append(
            (effect_id, 1, name, "", "crm", covers, TERMS, holder_of(owner, TERMS), "worker",
             "instance-of-before", "POST", "/notes", 1, hashlib.sha256(covers.encode()).digest(),
             "digest", at_ms, at_ms + 30_000, at_ms + 35_000, at_ms + 90, outcome,
             "status" if not unknown else "deadline", status, int(unknown),
             REQUEST_HEAD if unknown else None, BODY if unknown else None, n + 1, "POST /notes")
        )  # fmt: skip
        rows["answer"].append(
            (n + 1, effect_id, 1, status, HEADERS, BODY, hashlib.sha256(BODY).digest(), len(BODY),
             "evidence" if unknown else "complete", at_ms + 90)
        )  # fmt: skip
    return rows


def chunks(total: int, size: int = 20_000, first: int = 0) -> Iterator[tuple[int, int]]:
    for at in range(first, total, size):
        yield at, min(at + size, total)
