"""What goes into the ledger about reconciliation and exceptions, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gateway.core.effect import Outcome
from gateway.core.ids import Scope
from gateway.core.probe import Verdict
from gateway.store.records import SentAs


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """One question to a destination. Instants are the store's."""

    n: int
    term: int
    started_at_ms: int
    ended_at_ms: int | None
    verdict: Verdict | None
    moved: bool | None
    status: int | None
    evidence: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedProbe:
    """A probe that may now be asked. None in its place means that it may not."""

    n: int
    term: int
    started_at_ms: int


@dataclass(frozen=True, slots=True)
class SpooledEffect:
    """An unknown effect whose request lies in a file, on the disk of the gateway that took it."""

    id: str
    file: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownAttempt:
    """An attempt of an unknown effect, as the reconciler sees it."""

    n: int
    term: int
    outcome: Outcome | None
    created_at_ms: int
    deadline_at_ms: int
    seal_at_ms: int
    ended_at_ms: int | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEffect:
    """An unknown effect with all that settling it takes.

    `method` and `target` are as they came in. `highest_term` and `holder` are the scope's;
    `probes` are those since a person asked to look again, if one did.
    """

    id: str
    version: int
    scope: Scope
    destination: str
    unit: str
    key: str | None
    item: str | None
    covers: str
    superseded: bool
    attempts: Sequence[UnknownAttempt]
    probes: Sequence[ProbeRecord]
    failures: int
    due_at_ms: int
    route: str | None
    policy_digest: str
    method: str
    target: str
    fp_version: int
    fp_raw: bytes
    fp_canonical: bytes | None
    highest_term: int
    holder: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRequest:
    """A request as it came in, and as it was sent where that is something else.

    A body is kept in the ledger, or in the spool under `file`.
    """

    term: int
    method: str
    target: str
    head: str | None
    body: bytes | None
    file: str | None
    sent: SentAs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A matter for a person. `detail` is a sentence; `evidence` what is known."""

    effect_id: str | None
    scope: Scope
    unit: str
    item: str | None
    destination: str
    term: int | None
    reason: str
    detail: str
    owner: str
    deadline_ms: int
    evidence: Mapping[str, Any] = field(default_factory=dict)


class Action(StrEnum):
    """What a person may do about an exception."""

    PROBE_AGAIN = "probe-again"
    CONFIRM = "confirm"
    NOT_APPLIED = "not-applied"
    ABANDON = "abandon"
    ASSIGN = "assign"
    EXTEND = "extend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A person's act on an exception."""

    case_id: str
    action: Action
    principal: str
    reason: str
    version: int
    owner: str | None = None
    deadline_ms: int | None = None


class NotActed(StrEnum):
    """Why an act was not taken."""

    NOT_FOUND = "not-found"
    VERSION_CONFLICT = "version-conflict"
    CLOSED = "closed"
    BEFORE_SEAL = "before-seal"
    NOT_UNKNOWN = "not-unknown"
    NOT_ALLOWED = "not-allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRecord:
    """An exception, for showing."""

    id: str
    effect_id: str | None
    function: str
    unit: str
    item: str | None
    destination: str
    term: int | None
    reason: str
    detail: str
    owner: str
    deadline_at_ms: int
    opened_at_ms: int
    acknowledged_by: str | None
    escalated_at_ms: int | None
    closed_at_ms: int | None
    closed_by: str | None
    decision: str | None
    evidence: Mapping[str, Any]
    version: int

    @property
    def allowed(self) -> list[Action]:
        """Return what may be done about it now."""
        if self.closed_at_ms is not None:
            return []
        if self.effect_id is None or self.reason == "attempts-exhausted":
            return [Action.ASSIGN, Action.EXTEND]
        if self.reason == "no-guard":  # its route gives nothing to ask by
            return [action for action in Action if action is not Action.PROBE_AGAIN]
        return list(Action)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFilter:
    """Which exceptions to list, the oldest first."""

    function: str | None = None
    unit: str | None = None
    closed: bool = False
    cursor: str | None = None  # the id behind which to begin
    limit: int = 100
    only_functions: frozenset[str] | None = None
    only_destinations: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCensus:
    """How open exceptions and alerts stand. `oldest_at_ms` is None where there is no exception;
    `to_escalate` counts those that a turn of `escalate` would change."""

    by_reason: Mapping[str, int]
    oldest_at_ms: int | None
    overdue: int
    to_escalate: int
    alerts_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The beginning of what a destination answered to an attempt."""

    n: int
    status: int
    body: bytes | None
    body_bytes: int | None
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecord:
    """A sentence on its way to people."""

    seq: int
    id: str
    kind: str
    body: Mapping[str, Any]
    made_at_ms: int
    tries: int
