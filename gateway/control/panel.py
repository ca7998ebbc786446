"""What the control plane works with; built in app.py and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from structlog.typing import FilteringBoundLogger

from gateway.clock import Clock
from gateway.core.candidates import Candidate
from gateway.core.ids import Scope
from gateway.core.policy import PolicySet
from gateway.store.lease_records import CandidateRecord
from gateway.store.ledger import Ledger
from gateway.web.auth import Authenticator
from gateway.web.lease_metrics import LeaseMetrics
from gateway.web.metrics import Metrics
from gateway.web.tasks import Tasks
from gateway.web.work_metrics import WorkMetrics


@dataclass(slots=True)
class Readiness:
    """Whether the gateway should get traffic, and everything that is to be said about it."""

    reasons: list[str] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, slots=True)
class Heirs:
    """Who may lead a scope next, as told to the first of many followers of one change."""

    version: int
    at_ms: int
    found: Sequence[CandidateRecord]
    ranked: Sequence[Candidate]


@dataclass(slots=True)
class Panel:
    """The parts of the control plane. `readiness` and `policies` look at what is now; `closing`
    is set once the gateway is asked to stop, and whoever waits has to end."""

    ledger: Ledger
    authenticator: Authenticator
    clock: Clock
    metrics: Metrics
    lease_metrics: LeaseMetrics
    work_metrics: WorkMetrics
    tasks: Tasks
    closing: asyncio.Event
    log: FilteringBoundLogger
    policies: Callable[[], PolicySet]
    readiness: Callable[[], Readiness]
    version: str
    heirs: dict[Scope, Heirs] = field(default_factory=dict)
