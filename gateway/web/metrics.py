"""What the gateway counts, for Prometheus.

Label values come from closed sets: destinations that a policy describes, decisions, outcomes
and problem slugs. Never a unit, a key or anything else that a caller can make up: each value
would stay in memory for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gateway.web.timings import Timing, Timings
from gateway.wire.problem import PROBLEMS

OTHER: Final = "other"
"""Stands for every value that is not in its closed set."""

DECISIONS: Final = frozenset({"forwarded", "replayed", "refused", "would-refuse"})
OUTCOMES: Final = frozenset({"confirmed", "rejected", "no-effect", "unknown", "none"})
SECOND_EFFECT_REASONS: Final = frozenset(
    {"in-flight", "outcome-unknown", "duplicate", "result-unavailable", "effect-abandoned"}
)
"""Refusals without which the same effect might have been caused twice."""

_OVERHEAD_S: Final = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
_DESTINATION_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LEDGER_S: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
_BATCH: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# Without this every series comes twice, the second time with the moment of its creation.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The gateway's metrics, in a registry of their own.

    What is counted per request goes through methods that keep their label children, so that
    one costs about a microsecond. The rest are plain gauges and counters to be set.
    """

    def __init__(self, destinations: Iterable[str] = ()) -> None:
        self.registry: Final = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._destinations = frozenset(destinations)
        self._requests_by: dict[tuple[str, str, str], Counter] = {}
        self._refusals_by: dict[str, Counter] = {}
        self._destination_s_by: dict[str, Timing] = {}
        self._requests = self._counter(
            "requests", "Requests by destination, decision and outcome", "destination", "decision",
            "outcome",
        )  # fmt: skip
        self._refusals = self._counter("refusals", "Requests refused, by reason", "reason")
        self._replays = self._counter("replays", "Recorded answers given again", "destination")
        self._unknown = self._counter(
            "unknown", "Effects sent without an answer that proves anything", "destination"
        )
        self._double_effects_prevented = self._counter(
            "double_effects_prevented", "Repetitions of a sent effect that were not sent again"
        )
        self._overhead_s = self._timings(
            "overhead_seconds", "Time in the gateway, the destination's left out", _OVERHEAD_S
        ).child()
        self._destination_s = self._timings(
            "destination_seconds", "Time until the destination answered", _DESTINATION_S,
            "destination",
        )  # fmt: skip
        self._unknown_and_gauges()
        self._ledger()
        self._policy()

    def _unknown_and_gauges(self) -> None:
        self.effects_unknown = self._gauge("effects_unknown", "Effects whose outcome is unknown")
        self.oldest_unknown_age_s = self._gauge(
            "oldest_unknown_age_seconds", "Age of the oldest effect whose outcome is unknown"
        )
        self.inflight = self._gauge("inflight", "Admitted writes under way")
        self.slot_waiting = self._gauge("slot_waiting", "Requests waiting for a destination's slot")
        self.terms_raised = self._counter("terms_raised", "Times a scope's highest term rose")
        self.draining = self._gauge("draining", "1 while the gateway is shutting down")

    def _ledger(self) -> None:
        self.ledger_batch_size = self._histogram(
            "ledger_batch_size", "Admissions and settlements in one transaction", _BATCH
        )
        self.ledger_transaction_s = self._histogram(
            "ledger_transaction_seconds", "Time of one transaction, its commit included", _LEDGER_S
        )
        self.ledger_lock_wait_s = self._histogram(
            "ledger_lock_wait_seconds",
            "Time that the first of a batch waited for the writer",
            _LEDGER_S,
        )
        self.ledger_up = self._gauge("ledger_up", "1 while the ledger can be written")
        self.ledger_restored = self._gauge(
            "ledger_restored", "1 while the ledger is older than it was and waits for a recovery"
        )
        self.ledger_crash_safe = self._gauge(
            "ledger_crash_safe", "1 while no crash of the database loses what it committed"
        )
        self.ledger_standby_safe = self._gauge(
            "ledger_standby_safe", "1 while no standby can be promoted that lacks a commit"
        )

    def _policy(self) -> None:
        self._policy_reload_failures = self._counter(
            "policy_reload_failures", "Policy reloads that failed; the last good one was kept"
        )
        self._policy_last_reload_ok = self._gauge(
            "policy_last_reload_ok", "1 if the latest policy reload was good"
        )
        self._policy_info = Gauge(
            "fencegate_policy_info", "The policy in force", ["digest"], registry=self.registry
        )

    def request_done(
        self,
        destination: str,
        decision: str,
        outcome: str | None,
        overhead_s: float,
        destination_s: float | None = None,
    ) -> None:
        """Count a request that has been answered. `destination_s` None if it was not asked."""
        labels = (destination, decision, outcome or "none")
        child = self._requests_by.get(labels)
        if child is None:
            child = self._requests_child(*labels)
        child.inc()
        self._overhead_s.observe(overhead_s)
        if destination_s is not None:
            timed = self._destination_s_by.get(destination)
            if timed is None:
                timed = self._destination_s_child(destination)
            timed.observe(destination_s)

    def refused(self, reason: str) -> None:
        """Count a refusal; `reason` is the problem's slug."""
        child = self._refusals_by.get(reason)
        if child is None:
            known = reason if reason in PROBLEMS else OTHER
            child = self._refusals_by.setdefault(known, self._refusals.labels(known))
        child.inc()
        if reason in SECOND_EFFECT_REASONS:
            self._double_effects_prevented.inc()

    def replayed(self, destination: str) -> None:
        self._replays.labels(self._known(destination)).inc()
        self._double_effects_prevented.inc()

    def became_unknown(self, destination: str) -> None:
        self._unknown.labels(self._known(destination)).inc()

    def policy_loaded(self, digest: str, destinations: Iterable[str]) -> None:
        """Take note of the policy in force and of the destinations that it describes."""
        self._destinations = frozenset(destinations)
        self._policy_last_reload_ok.set(1)
        self._policy_info.clear()
        self._policy_info.labels(digest).set(1)

    def policy_reload_failed(self) -> None:
        self._policy_reload_failures.inc()
        self._policy_last_reload_ok.set(0)

    def render(self) -> tuple[bytes, str]:
        """Return the text for a scrape and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _known(self, destination: str) -> str:
        return destination if destination in self._destinations else OTHER

    def _requests_child(self, destination: str, decision: str, outcome: str) -> Counter:
        """Keep the child under its closed labels only, never under what came from outside."""
        labels = (
            self._known(destination),
            decision if decision in DECISIONS else OTHER,
            outcome if outcome in OUTCOMES else OTHER,
        )
        return self._requests_by.setdefault(labels, self._requests.labels(*labels))

    def _destination_s_child(self, destination: str) -> Timing:
        known = self._known(destination)
        return self._destination_s_by.setdefault(known, self._destination_s.child(known))

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(f"fencegate_{name}", says, labels, registry=self.registry)

    def _gauge(self, name: str, says: str) -> Gauge:
        return Gauge(f"fencegate_{name}", says, registry=self.registry)

    def _timings(self, name: str, says: str, bounds: tuple[float, ...], *labels: str) -> Timings:
        family = Timings(f"fencegate_{name}", says, bounds, *labels)
        self.registry.register(family)
        return family

    def _histogram(
        self, name: str, says: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"fencegate_{name}", says, labels, buckets=buckets, registry=self.registry)
