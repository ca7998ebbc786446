"""Keepers of exceptions: what is overdue escalates, alerts go out, and both are counted."""

from __future__ import annotations

from gateway.control.alerts import AlertSender
from gateway.control.keepers import Keeper
from gateway.store.ledger import Ledger
from gateway.web.case_metrics import CaseMetrics


class CaseKeepers:
    """What has to be done about exceptions while a gateway runs."""

    def __init__(self, ledger: Ledger, metrics: CaseMetrics, alerts: AlertSender) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._alerts = alerts

    def all(self) -> list[Keeper]:
        return [
            Keeper("exceptions", 1.0, self._escalate),
            Keeper("alerts", 1.0, self._alerts.turn),
        ]

    async def _escalate(self) -> None:
        """Escalate what is overdue. Nothing is written while there is nothing to do."""
        reader = await self._ledger.reader()
        now_ms = self._ledger.clock.now_ms()
        census = await reader.case_census(now_ms)
        if census.to_escalate and self._ledger.is_keeper:
            await self._ledger.escalate()
            census = await reader.case_census(now_ms)
        self._metrics.counted(census.by_reason)
        self._metrics.overdue.set(census.overdue)
        self._metrics.alerts_waiting.set(census.alerts_waiting)
        oldest_ms = census.oldest_at_ms
        self._metrics.oldest_age_s.set(0 if oldest_ms is None else (now_ms - oldest_ms) / 1000)
