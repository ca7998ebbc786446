"""The words of exceptions and alerts: what `/v1/exceptions` and a webhook take and get."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field

from gateway.core.ids import MAX_REASON
from gateway.core.measures import parse_duration_ms
from gateway.wire.control import Wire

ActionWord = Literal["probe-again", "confirm", "not-applied", "abandon", "assign", "extend"]
MAX_DEADLINE_MS: Final = 366 * 86_400_000


def _deadline(text: str) -> str:
    if not 0 < parse_duration_ms(text) <= MAX_DEADLINE_MS:
        raise ValueError(f"{text!r} is not between 1ms and 366d")
    return text


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it is shown on terminals as it is; leave control characters out")
    return text


class ActIn(Wire):
    """A person's act on an exception. `version` is the one that was looked at; `owner` is for
    assign, `deadline` (from now, such as 4h) for extend."""

    model_config = ConfigDict(extra="forbid", strict=True, str_strip_whitespace=True)

    reason: str = Field(min_length=1, max_length=MAX_REASON)
    version: int
    owner: (
        Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)] | None
    ) = None
    deadline: Annotated[str, AfterValidator(_deadline)] | None = None


class CaseProbeOut(Wire):
    """One question that the destination was asked about the effect. `verdict` is null while it
    is under way."""

    n: int
    term: int
    started_at: str
    ended_at: str | None
    verdict: str | None
    status: int | None
    evidence: Any


class CaseAnswerOut(Wire):
    """How the destination's answer to an attempt begins, as text."""

    n: int
    status: int
    at: str
    body_bytes: int | None
    excerpt: str | None


class EvidenceOut(Wire):
    """What is known. `opened_on` is what was known when the exception was opened; the request is
    named in it by its digest. The others are as they stand now."""

    opened_on: dict[str, Any]
    probes: list[CaseProbeOut]
    answers: list[CaseAnswerOut]


class ExceptionOut(Wire):
    """A matter that a person must settle. `seal_at`: before then nobody can know that it did not
    happen. `evidence` and `seal_at` are null in lists."""

    id: str
    state: Literal["open", "closed"]
    function: str
    unit: str | None
    item: str | None
    destination: str
    term: int | None
    effect_id: str | None
    reason: str
    detail: str
    owner: str
    deadline_at: str
    overdue: bool
    opened_at: str
    age_s: float
    seal_at: str | None
    acknowledged_by: str | None
    escalated_at: str | None
    closed_at: str | None
    closed_by: str | None
    decision: str | None
    allowed_actions: list[ActionWord]
    evidence: EvidenceOut | None
    version: int


class ExceptionPage(Wire):
    """Exceptions, the oldest first. `next` is the cursor of the page behind, or null."""

    items: list[ExceptionOut]
    next: str | None


class AlertOut(Wire):
    """An alert as the webhook gets it; the same text at each try. `about` holds ids and names,
    `links` paths of the gateway that tell more."""

    id: str
    kind: str
    made_at: str
    says: str
    consequence: str
    responsible: str
    next_action: str
    about: dict[str, Any]
    links: dict[str, str]
