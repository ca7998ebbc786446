"""The words of a handover: the five questions about a change of term, answered."""

from __future__ import annotations

from typing import Any

from gateway.wire.control import Wire


class LeaderOut(Wire):
    """A leader of the scope. `ended` is how its leadership came to an end, if it did."""

    term: int
    holder: str | None
    ended: str | None


class LeftEffectOut(Wire):
    """An effect that was unfinished at the handover; `outcome` is what it is by now."""

    id: str
    destination: str
    unit: str | None
    item: str | None
    key: str | None
    outcome: str | None
    resolved_by: str | None
    exception_id: str | None


class ItemOut(Wire):
    """An item that was out, or that may be resumed from its checkpoint."""

    unit: str
    item: str
    state: str
    attempt: int
    worker: str | None
    term: int
    expires_at: str | None
    checkpoint: Any
    checkpoint_version: int


class DoingOut(Wire):
    """What the old leader was doing. `commands` counts the effects of its units by outcome."""

    units: list[dict[str, Any]]
    items_out: list[ItemOut]
    commands: dict[str, int]
    uncertain: list[LeftEffectOut]
    uncertain_count: int


class TookEffectOut(Wire):
    """What took effect already, counted over the units in `doing`: zeros if there are none."""

    effects_confirmed: int
    items: int
    items_done: int


class AbandonOut(Wire):
    """What must be abandoned: commands under old terms, and units whose time is over."""

    stale_commands_refused: int
    units_past_their_period: list[str]


class ExceptionRefOut(Wire):
    """An exception that is open, and who has to settle it."""

    id: str
    effect_id: str | None
    reason: str
    owner: str
    deadline_at: str
    item: str | None


class SentenceOut(Wire):
    """The handover in one sentence."""

    en: str
    pt_br: str


class HandoverOut(Wire):
    """A change of term: who led before, what it left, and what is to be done about it."""

    function: str
    unit: str | None
    at: str
    now: LeaderOut
    before: LeaderOut
    doing: DoingOut
    took_effect: TookEffectOut
    resumable: list[ItemOut]
    to_reconcile: int
    abandon: AbandonOut
    exceptions: list[ExceptionRefOut]
    sentence: SentenceOut
