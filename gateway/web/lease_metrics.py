"""What the gateway counts of leadership, for Prometheus.

Label values come from closed sets, as in metrics.py: functions that a policy declares, kinds of
transitions, reasons. Never a unit or a holder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.core.lease import LeaseRefusal
from gateway.web.metrics import OTHER

KINDS: Final = frozenset(
    {
        *("candidate", "follower", "leader-acquired", "leader-renewing", "leader-uncertain"),
        *("leader-lost", "no-eligible-candidate", "handover-reconciling"),
        *("effect-stranded", "effect-resolved", "late-answer"),
        *("exception-opened", "exception-decided", "exception-overdue", "exception-closed"),
        *("unit-open", "unit-processing", "unit-uncertain", "unit-completed", "unit-abandoned"),
    }
)
"""What transitions are counted under their own names."""

_REASONS: Final = frozenset(LeaseRefusal)
_TERM_S: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 43200.0, 86400.0, 604800.0)
_GAP_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 300.0, 1800.0)


class LeaseMetrics:
    """The metrics of leadership, in the registry of all the others."""

    def __init__(self, registry: CollectorRegistry, functions: Iterable[str] = ()) -> None:
        self._registry = registry
        self._functions = frozenset(functions)
        self._acquisitions = self._counter("lease_acquisitions", "Terms granted", "function")
        self._renewals = self._counter("lease_renewals", "Leases renewed", "function")
        self._renewal_failures = self._counter(
            "lease_renewal_failures", "Renewals refused or not recorded", "function"
        )
        self._refusals = self._counter(
            "lease_refusals", "Requests about leases turned away, by reason", "reason"
        )
        self._transitions = self._counter("transitions", "Transitions journalled", "kind")
        self._term_s = self._histogram(
            "term_duration_seconds", "From a grant to the end of its lease", _TERM_S
        )
        self._without_leader_s = self._histogram(
            "without_leader_seconds",
            "From the moment that nobody may start new work until the next grant",
            _GAP_S,
        )
        self._new_leader_s = self._histogram(
            "new_leader_seconds", "From the end of a lease until the next grant", _GAP_S
        )
        self.scopes_without_leader = self._gauge(
            "scopes_without_leader", "Scopes that nobody leads, and that are not done with"
        )
        self.scopes_without_candidate = self._gauge(
            "scopes_without_eligible_candidate", "Scopes that nobody leads or could lead"
        )
        self._versions = self._gauge(
            "candidate_versions", "Distinct versions among the candidates that report", "function"
        )

    def know(self, functions: Iterable[str]) -> None:
        """Take note of the functions that policies declare, and forget gauges of others."""
        known = frozenset(functions)
        if known != self._functions:
            self._functions = known
            self._versions.clear()

    def acquired(self, function: str, new_leader_s: float | None, gap_s: float | None) -> None:
        """Count a grant. The times are None for the first one of a scope."""
        label = self._known(function)
        self._acquisitions.labels(label).inc()
        if new_leader_s is not None:
            self._new_leader_s.labels(label).observe(new_leader_s)
        if gap_s is not None:
            self._without_leader_s.labels(label).observe(gap_s)

    def ended(self, function: str, lasted_s: float) -> None:
        self._term_s.labels(self._known(function)).observe(lasted_s)

    def renewal(self, function: str, *, done: bool) -> None:
        counter = self._renewals if done else self._renewal_failures
        counter.labels(self._known(function)).inc()

    def turned_away(self, reason: str) -> None:
        self._refusals.labels(reason if reason in _REASONS else OTHER).inc()

    def journalled(self, kind: str) -> None:
        self._transitions.labels(kind if kind in KINDS else OTHER).inc()

    def versions(self, function: str, distinct: int) -> None:
        self._versions.labels(self._known(function)).set(distinct)

    def _known(self, function: str) -> str:
        return function if function in self._functions else OTHER

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(f"fencegate_{name}", says, labels, registry=self._registry)

    def _gauge(self, name: str, says: str, *labels: str) -> Gauge:
        return Gauge(f"fencegate_{name}", says, labels, registry=self._registry)

    def _histogram(self, name: str, says: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"fencegate_{name}", says, ("function",), buckets=buckets, registry=self._registry
        )
