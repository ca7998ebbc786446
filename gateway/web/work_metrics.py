"""What the gateway counts of units of work, for Prometheus. Labels as in lease_metrics.py: never
a unit or an item."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from gateway.core.work import ItemState, UnitShown
from gateway.web.metrics import OTHER


class WorkMetrics:
    """The metrics of units, in the registry of all the others. `functions` tells which functions
    the policies declare now."""

    def __init__(
        self, registry: CollectorRegistry, functions: Callable[[], Collection[str]]
    ) -> None:
        self._registry = registry
        self._functions = functions
        self._duplicates = self._counter(
            "duplicate_units_blocked", "Units asked for that were there already"
        )
        self._units_resumed = self._counter(
            "units_resumed", "Units that a new term has gone on with"
        )
        self._items_resumed = self._counter(
            "items_resumed", "Items handed out again that an older term had handed out"
        )
        self._units: Final = Gauge(
            "fencegate_units", "Units of work, by state", ["state"], registry=registry
        )
        self._items: Final = Gauge(
            "fencegate_unit_items", "Items of open units, by state", ["state"], registry=registry
        )

    def duplicate_blocked(self, function: str) -> None:
        self._duplicates.labels(self._known(function)).inc()

    def resumed(self, function: str, unit: bool, items: int) -> None:
        """Count what a claim took over from an older term."""
        if unit:
            self._units_resumed.labels(self._known(function)).inc()
        if items:
            self._items_resumed.labels(self._known(function)).inc(items)

    def counted(self, units: Mapping[UnitShown, int], items: Mapping[ItemState, int]) -> None:
        """Take note of how many there are."""
        for shown in UnitShown:
            self._units.labels(shown.value).set(units.get(shown, 0))
        for state in ItemState:
            self._items.labels(state.value).set(items.get(state, 0))

    def _known(self, function: str) -> str:
        return function if function in self._functions() else OTHER

    def _counter(self, name: str, says: str) -> Counter:
        return Counter(f"fencegate_{name}", says, ("function",), registry=self._registry)
