"""What the reconciler counts: steps by their result, and how long an effect stayed unknown."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from gateway.web.metrics import OTHER

RESULTS: Final = frozenset(
    {f"probe-{verdict}" for verdict in ("found", "missing", "many", "other", "error")}
    | {f"resent-{outcome}" for outcome in ("confirmed", "rejected", "no-effect", "unknown")}
    | {"no-effect", "exception", "not-resent", "settled-meanwhile"}
)
_SECONDS: Final = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400)


class ReconcileMetrics:
    """Registered beside the others."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps = Counter(
            "fencegate_reconcile_steps",
            "Steps of the reconciler, by what came of them",
            ["result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "fencegate_reconciliation_seconds",
            "From an effect's first attempt until the reconciler had settled it",
            buckets=_SECONDS,
            registry=registry,
        )

    def step(self, result: str) -> None:
        self._steps.labels(result if result in RESULTS else OTHER).inc()

    def settled(self, age_s: float) -> None:
        self._seconds.observe(age_s)
