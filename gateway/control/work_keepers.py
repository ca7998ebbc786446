"""Keepers of units of work: how many there are, and how they stand."""

from __future__ import annotations

from gateway.control.keepers import Keeper
from gateway.store.ledger import Ledger
from gateway.web.work_metrics import WorkMetrics


class WorkKeepers:
    """What has to be done about units while a gateway runs."""

    def __init__(self, ledger: Ledger, metrics: WorkMetrics) -> None:
        self._ledger = ledger
        self._metrics = metrics

    def all(self) -> list[Keeper]:
        return [Keeper("units", 5.0, self._count)]

    async def _count(self) -> None:
        reader = await self._ledger.reader()
        census = await reader.census()
        self._metrics.counted(census.units, census.items)
