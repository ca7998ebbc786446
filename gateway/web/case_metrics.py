"""What the gateway counts of exceptions and alerts, for Prometheus.

The reasons are a closed set; any other is counted as `other`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from gateway.core.reconcile import Unsolved
from gateway.web.metrics import OTHER

REASONS: Final = frozenset(
    {
        *Unsolved,
        "attempts-exhausted",
        "policy-gone",
        "policy-withdrawn",
        "request-gone",
        "request-elsewhere",
    }
)


class CaseMetrics:
    """The metrics of exceptions and alerts, in the registry of all the others."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._open: Final = Gauge(
            "fencegate_exceptions_open", "Exceptions that nobody has settled, by reason",
            ["reason"], registry=registry,
        )  # fmt: skip
        self.oldest_age_s = _gauge(
            registry, "exceptions_oldest_age_seconds", "Age of the oldest open exception"
        )
        self.overdue = _gauge(
            registry, "exceptions_overdue", "Open exceptions whose deadline has passed"
        )
        self.alerts_waiting = _gauge(registry, "alerts_waiting", "Alerts not delivered yet")
        self.alerts_delivered = _counter(registry, "alerts_delivered", "Alerts delivered")
        self.alerts_failed = _counter(
            registry, "alerts_failed", "Tries to deliver an alert that failed"
        )
        self.counted({})

    def counted(self, by_reason: Mapping[str, int]) -> None:
        """Take note of how many there are."""
        counts = dict.fromkeys((*sorted(REASONS), OTHER), 0)
        for reason, count in by_reason.items():
            counts[reason if reason in REASONS else OTHER] += count
        for reason, count in counts.items():
            self._open.labels(reason).set(count)


def _gauge(registry: CollectorRegistry, name: str, says: str) -> Gauge:
    return Gauge(f"fencegate_{name}", says, registry=registry)


def _counter(registry: CollectorRegistry, name: str, says: str) -> Counter:
    return Counter(f"fencegate_{name}", says, registry=registry)
