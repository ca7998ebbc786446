"""Histograms that every request adds to: counted here in plain lists, and put into the form of
Prometheus when they are scraped.

The library's own take a lock and walk their buckets for each value: two of them cost each request
about as much as its log line. They are for the event loop's thread alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class Timing:
    """How often which time was seen."""

    __slots__ = ("_bounds", "_counts", "_sum_s")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds: Final = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        # A bound counts into its own bucket: `le` means less than or equal.
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum_s += seconds

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        names = [*map(str, self._bounds), "+Inf"]
        family.add_metric(
            labels, list(zip(names, accumulate(self._counts), strict=True)), self._sum_s
        )


class Timings(Collector):
    """A family of timings under one name, told apart by the values of its labels."""

    def __init__(self, name: str, says: str, bounds: Sequence[float], *labels: str) -> None:
        self._name = name
        self._says = says
        self._bounds = bounds
        self._labels = labels
        self._children: dict[tuple[str, ...], Timing] = {}

    def child(self, *values: str) -> Timing:
        """Return the timing for these values of the labels; to be kept by who adds often."""
        found = self._children.get(values)
        if found is None:
            found = self._children[values] = Timing(self._bounds)
        return found

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._says, labels=self._labels)
        for values, timing in self._children.items():
            timing.add_to(family, values)
        yield family
