"""The words of units of work: what `/v1/units` takes and gives."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from gateway.core.ids import MAX_REASON, NAME_FORM
from gateway.wire.control import Wire

MAX_ITEMS: Final = 100_000
MAX_REPORTS: Final = 10_000
MAX_CLAIM: Final = 1_000
MAX_TTL_S: Final = 86_400.0
PLAN_MAX_BYTES: Final = 32 * 1024 * 1024
REPORT_MAX_BYTES: Final = 16 * 1024 * 1024

UnitWord = Literal[
    "unit-open", "unit-processing", "unit-uncertain", "unit-completed", "unit-abandoned"
]
ItemWord = Literal["pending", "claimed", "done", "failed", "uncertain", "abandoned"]

_NAME: Final = f"^{NAME_FORM}$"
_SAID: Final = r"^[ -~]{0,100}$"
"""Shown on terminals and in logs as it came."""
_ITEM_SCHEMA: Final = {
    "type": "object",
    "properties": {"id": {"type": "string", "pattern": _NAME}, "data": {}},
    "required": ["id"],
    "additionalProperties": False,
}


class _Given(Wire):
    """What a caller sends. Types count: "7" is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ManifestIn(_Given):
    """What a unit will do: out of which sources, by which criteria, and item by item."""

    sources: Any = None
    criteria_version: Annotated[str, Field(pattern=_SAID)] | None = None
    # Each item is looked at one by one later: here it would hold up everything else.
    items: Annotated[list[Any], WithJsonSchema({"type": "array", "items": _ITEM_SCHEMA})] = Field(
        max_length=MAX_ITEMS
    )


class PlanIn(_Given):
    """Create a unit. One that is there already stands as it is."""

    function: str
    period_start: Annotated[str, Field(pattern=_SAID)] | None = None
    period_end: Annotated[str, Field(pattern=_SAID)] | None = None
    policy_version: Annotated[str, Field(pattern=_SAID)] | None = None
    manifest: ManifestIn


class ClaimIn(_Given):
    """Take items. `worker` is the holder who will work on them; only a leader names another."""

    worker: str | None = None
    limit: int = Field(default=1, ge=1, le=MAX_CLAIM)
    ttl_s: float = Field(gt=0, le=MAX_TTL_S)


class ResultIn(_Given):
    """What became of one item. `attempt` is that of the claim."""

    item: Annotated[str, Field(pattern=_NAME)]
    state: Literal["done", "failed", "uncertain"]
    attempt: int = Field(ge=1)
    result: Any = None
    reason: Annotated[str, Field(max_length=2000)] | None = None


class ReportIn(_Given):
    """What became of items."""

    results: list[ResultIn] = Field(min_length=1, max_length=MAX_REPORTS)


class CompleteIn(_Given):
    """End a unit. `manifest_digest` is the one that the work was done by."""

    manifest_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    result: Any = None


class AbandonIn(_Given):
    """Give a unit up."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON, pattern=r"\S")]


class ManifestOut(Wire):
    """A manifest as recorded; its items have a path of their own."""

    digest: str
    sources: Any
    criteria_version: str | None
    items: int


class ItemCountsOut(Wire):
    """How many items there are, by state."""

    total: int
    pending: int
    claimed: int
    done: int
    failed: int
    uncertain: int
    abandoned: int


class UnitOut(Wire):
    """A unit of work. `unknown_effects` are those that nobody has answered for; `checkpoint` is
    the latest of its items', `item@version`; `manifest` is null in lists."""

    unit: str
    function: str
    state: UnitWord
    period_start: str | None
    period_end: str | None
    policy_version: str | None
    manifest_digest: str
    manifest: ManifestOut | None
    items: ItemCountsOut
    unknown_effects: int
    effects_in_flight: int
    checkpoint: str | None
    result: Any
    created_term: int
    created_by: str
    created_at: str
    closed_at: str | None
    closed_reason: str | None
    version: int


class UnitPage(Wire):
    """Units, newest first."""

    items: list[UnitOut]
    next: str | None


class ItemOut(Wire):
    """One piece of a unit. `attempt` counts its claims; `remaining_ms` is how much longer the
    claim lives, 0 if there is none."""

    item: str
    state: ItemWord
    attempt: int
    worker: str | None
    term: int | None
    expires_at: str | None
    remaining_ms: int
    checkpoint: Any
    checkpoint_version: int
    data: Any
    result: Any
    reason: str | None


class ItemPage(Wire):
    """Items in the manifest's order. `next` is the `after` of the page behind, or null."""

    items: list[ItemOut]
    next: str | None


class ClaimOut(Wire):
    """The items that the worker holds now. `waiting` are not handed out before it is known what
    became of their effects."""

    items: list[ItemOut]
    waiting: list[str]


class CheckpointOut(Wire):
    """A checkpoint as recorded; its version is also the ETag."""

    item: str
    checkpoint_version: int


class VerdictOut(Wire):
    """Whether a report was taken; if not, `reason` is the problem's slug."""

    item: str
    taken: bool
    reason: str | None


class ReportOut(Wire):
    """The verdict on each report, in the order in which they came."""

    results: list[VerdictOut]
    taken: int
    turned_away: int
