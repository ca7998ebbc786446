"""The control plane's words: what `/v1` takes and gives, as models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.core.ids import MAX_REASON

OutcomeWord = Literal["confirmed", "rejected", "no-effect", "unknown"]


def instant(at_ms: int) -> str:
    """Return Unix milliseconds as RFC 3339 in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


class Wire(BaseModel):
    """Strict: a word that is not known is an error, not a wish that goes unheard."""

    model_config = ConfigDict(extra="forbid")


class AttemptOut(Wire):
    """One attempt of an effect. `status` is the destination's."""

    n: int
    term: int
    holder: str
    method: str
    target: str
    created_at: str
    deadline_at: str
    seal_at: str
    ended_at: str | None
    outcome: OutcomeWord | None
    reason: str | None
    status: int | None


class ResolutionOut(Wire):
    """Who decided what became of an unknown effect, when, and on what grounds."""

    at: str
    principal: str
    reason: str


class EffectOut(Wire):
    """One change to the outside world. `outcome` is null while it is in flight; `observed`
    says why it would have been refused, where it was only watched. `exception_id` is that of the
    open exception about it."""

    id: str
    destination: str
    function: str
    unit: str | None
    item: str | None
    key: str | None
    covers: str
    state: Literal["in-flight", "settled", "exception"]
    exception_id: str | None
    outcome: OutcomeWord | None
    resolved_by: Literal["answer", "probe", "operator", "native-replay"] | None
    principal: str
    version: int
    observed: str | None
    attempts: list[AttemptOut]
    resource: dict[str, Any] | None
    created_at: str
    settled_at: str | None
    resolution: ResolutionOut | None  # an operator's word; only where one effect is shown


class EffectPage(Wire):
    """Effects, newest first. `next` is the cursor of the page behind, or null."""

    items: list[EffectOut]
    next: str | None


class ResolveIn(Wire):
    """An operator's word on an unknown effect. `version` is the one that was looked at."""

    model_config = ConfigDict(extra="forbid", strict=True, str_strip_whitespace=True)

    as_: Literal["confirmed", "no-effect"] = Field(alias="as")
    reason: str = Field(min_length=1, max_length=MAX_REASON)
    version: int | None = None


class RouteOut(Wire):
    """One route as loaded, with the guarantee that its guard gives."""

    name: str
    match: str
    does: Literal["read", "write", "refuse"]
    because: str | None
    key: str
    covers: str
    guard: str
    guarantee: str
    on_duplicate: str


class DestinationOut(Wire):
    """A destination's policy as loaded. The login is named, never shown."""

    name: str
    base_url: str
    boundary: Literal["enforced", "partial"]
    mode: Literal["enforce", "observe"]
    checked: str | None
    digest: str
    login: str | None
    limits: dict[str, int]
    functions: list[str] | None
    connections: Literal["reuse", "fresh"]
    setup: list[str]
    routes: list[RouteOut]


class DestinationPage(Wire):
    """All destinations, by name."""

    items: list[DestinationOut]
    next: str | None


class ProblemOut(BaseModel):
    """A problem (RFC 9457); further members are facts of the case."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    effect: Literal["none", "confirmed", "unknown"]
    safe_to_retry_same_key: bool
