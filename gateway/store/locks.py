"""Which locks a batch needs where several processes write at once. All of it follows from Wanted.

Two kinds, for two ends. *Places in the queue* are PostgreSQL's advisory locks: they are fair, so
that a grant is not passed over by a stream of admissions that share (row locks let sharers pass
a waiting writer), and they hold what has no row yet: a new key, a new scope, a thing. *Row locks*
on the scope, the lease and the effects are the fence itself, and hold back whoever does not know
of the queue.

Both are taken in one sorted order, the queue first, each as strong as it will be needed: never
raised from shared to exclusive. The clock is read after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import orjson

from gateway.core.ids import Scope
from gateway.store.wanted import Wanted

HOUSE: Final = ("house",)
"""Shared by every batch; a change of policies takes it alone."""

JOURNAL: Final = ("journal",)
"""Taken last: numbers in the journal and among alerts are given in the order of commits, so that
who reads behind a number misses nothing."""


def place(name: tuple[str, ...], salt: bytes = b"") -> int:
    """Return the number of a place in the queue. Two names that meet in one only wait for each
    other without need."""
    digest = blake2b(orjson.dumps(name), digest_size=8, key=salt).digest()
    return int.from_bytes(digest, "big", signed=True)


@dataclass(frozen=True, slots=True)
class Locks:
    """What one transaction takes. `places` are sorted, with whether each is taken alone."""

    places: list[tuple[int, bool]]
    shared: list[Scope]
    exclusive: list[Scope]
    leases: list[Scope]


def locks_for(wanted: Wanted, highest: Mapping[Scope, int], salt: bytes = b"") -> Locks:
    """Return the locks of a batch. `highest` are the terms last seen: one that is above them may
    raise the scope's, and has to be alone with it from the beginning. What was seen may be out
    of date, but only too low: terms never fall."""
    raised = {scope for scope, term in wanted.asserted.items() if term > highest.get(scope, 0)}
    exclusive = wanted.grants | raised
    shared = wanted.scopes - exclusive
    alone: set[tuple[str, ...]] = {("scope", *scope) for scope in exclusive}
    alone |= {("key", *key) for key in wanted.keys}
    alone |= {("thing", *thing) for thing in wanted.things}
    alone |= {("unit", unit) for unit in wanted.units}
    functions = wanted.candidates | {scope.function for scope in wanted.grants}
    alone |= {("candidates", function) for function in functions}
    if wanted.exceptions:
        alone.add(("exceptions",))
    together: set[tuple[str, ...]] = {("scope", *scope) for scope in shared}
    together |= {("unit", unit) for unit in wanted.units_read - wanted.units}
    (alone if wanted.alone else together).add(HOUSE)
    places: dict[int, bool] = {place(name, salt): False for name in together}
    places.update((place(name, salt), True) for name in alone)
    return Locks(
        places=sorted(places.items()),
        shared=sorted(shared),
        exclusive=sorted(exclusive),
        leases=sorted(wanted.renewals | wanted.grants),
    )


def columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Return rows as arrays, one for each column."""
    turned = [list(column) for column in zip(*rows, strict=True)]
    return turned or [[] for _ in range(width)]
