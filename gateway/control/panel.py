"""What the control plane works with; built in app.py and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from structlog.typing import FilteringBoundLogger

from gateway.clock import Clock
from gateway.core.policy import PolicySet
from gateway.store.ledger import Ledger
from gateway.web.auth import Authenticator
from gateway.web.metrics import Metrics


@dataclass(slots=True)
class Readiness:
    """Whether the gateway should get traffic, and everything that is to be said about it."""

    reasons: list[str] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return not self.reasons


@dataclass(slots=True)
class Panel:
    """The parts of the control plane. `readiness` and `policies` look at what is now."""

    ledger: Ledger
    authenticator: Authenticator
    clock: Clock
    metrics: Metrics
    log: FilteringBoundLogger
    policies: Callable[[], PolicySet]
    readiness: Callable[[], Readiness]
    version: str
