"""What goes into the ledger about units of work and comes out of it, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.core.fence import FunctionRules, Refusal
from gateway.core.ids import Scope
from gateway.core.work import ItemState, Tally, UnitShown, UnitStatus, WorkRefusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """Who writes to a unit: for which function, under which term, and by which rules.

    `leader_only` says that a claimant may not do this, though it may send effects;
    `ends_work` that nothing new begins by it, so that it is heard while the leader steps down.
    """

    scope: Scope
    unit: str
    term: int
    holder: str
    principal: str
    rules: FunctionRules
    leader_only: bool = True
    ends_work: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlan:
    """A unit as its leader lays it out. `items` are (id, JSON text or None), in order;
    `manifest` is the JSON text of the rest, and `digest` is of the whole."""

    manifest: str
    digest: str
    items: Sequence[tuple[str, str | None]]
    period_start: str | None = None
    period_end: str | None = None
    policy_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRecord:
    """A unit, for showing."""

    unit: str
    function: str
    status: UnitStatus
    shown: UnitShown
    tally: Tally
    manifest_digest: str
    created_term: int
    created_by: str
    created_at_ms: int
    closed_at_ms: int | None
    closed_reason: str | None
    version: int
    period_start: str | None = None
    period_end: str | None = None
    policy_version: str | None = None
    checkpoint: str | None = None
    result: Any = None
    manifest: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRecord:
    """An item, for showing and for its claimant."""

    item: str
    state: ItemState
    attempt: int
    worker: str | None
    term: int
    expires_at_ms: int
    checkpoint: Any
    checkpoint_version: int
    data: Any = None
    result: Any = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker says of one item. `result` is JSON text."""

    item: str
    state: ItemState
    attempt: int
    result: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkAnswer:
    """What a write to a unit came to. Where `refusal` is set, nothing was changed.

    `made` says that a unit is new, `ended` that it has just ended; `turned` are the reports that
    were not taken. `resumed_items` were claimed under an older term before, and `resumed_unit`
    says that this term goes on with what an older one began.
    """

    refusal: Refusal | WorkRefusal | None = None
    reasons: Sequence[str] = ()
    highest_term: int = 0
    now_ms: int = 0
    made: bool = False
    ended: bool = False
    items: Sequence[ItemRecord] = ()
    waiting: Sequence[str] = ()  # items that are uncertain and wait for reconciliation
    version: int = 0
    turned: Mapping[str, WorkRefusal] = field(default_factory=dict)
    tally: Tally | None = None
    resumed_items: int = 0
    resumed_unit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFilter:
    """Which units to list, newest first. `behind` is creation and key of the last one seen."""

    function: str | None = None
    status: str | None = None  # a status, or how a unit is shown
    limit: int = 50
    only_functions: frozenset[str] | None = None
    behind: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCensus:
    """How many units there are, as they are shown, and how many items the open ones have."""

    units: Mapping[UnitShown, int]
    items: Mapping[ItemState, int]
