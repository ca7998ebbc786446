"""What goes into the ledger about leadership and comes out of it, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.core.candidates import Candidate, Eligibility
from gateway.core.ids import Scope
from gateway.core.lease import Answer, Lease, LeaseRules


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTerms:
    """What the verbs have to know of a function's policy. `owner` answers for exceptions."""

    rules: LeaseRules
    eligible: Eligibility
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateReport:
    """What a candidate says of itself."""

    version: str = ""
    region: str = ""
    ready: bool = True
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A scope's leadership as it stands. `version` grows with every change but a renewal.

    `in_flight` is None where nobody counted; `transitions` are the terms granted so far.
    """

    scope: Scope
    last_term: int
    lease: Lease | None
    version: int
    transitions: int
    now_ms: int
    in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    """What a verb came to, and the scope after it."""

    answer: Answer
    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class CandidateRecord:
    """A candidate of a function, for showing."""

    function: str
    candidate: Candidate
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRecord:
    """One recorded change of state.

    `uncertain` counts the effects of earlier terms that are unfinished; `responsible` is who
    has to settle them; `checkpoint` is the last one of the unit that is affected.
    """

    id: int
    at_ms: int
    kind: str
    function: str
    unit: str
    term: int | None
    holder: str | None
    lease_version: int | None
    reason: str | None
    checkpoint: str | None
    uncertain: int | None
    next_action: str | None
    responsible: str | None
    effect_id: str | None
    principal: str | None
    detail: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionFilter:
    """Which transitions to list, oldest first, behind the id `after`."""

    function: str | None = None
    unit: str | None = None
    after: int = 0
    limit: int = 100
    only_functions: frozenset[str] | None = None  # what the asker may see; None is all
