"""Looks again and again at whether the database may lose what it commits, and shows it."""

from __future__ import annotations

from typing import Final

from structlog.typing import FilteringBoundLogger

from gateway.control.keepers import Keeper
from gateway.core.errors import StoreError
from gateway.store.ledger import Ledger
from gateway.store.risks import RiskKind
from gateway.web.metrics import Metrics

LOOK_EVERY_S: Final = 5.0


class RiskKeeper:
    """`told` are the sentences about what is at risk now; each is logged once when it begins."""

    def __init__(
        self, ledger: Ledger, metrics: Metrics, log: FilteringBoundLogger, *, unsafe: bool
    ) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._log = log
        self._unsafe = unsafe
        self.told: list[str] = []

    def all(self) -> list[Keeper]:
        return [Keeper("risks", LOOK_EVERY_S, self.look)]

    async def look_first(self) -> None:
        """Look before anybody is served. A look that fails is no reason not to start."""
        if self._unsafe:
            self._log.warning(
                "ledger-unsafe",
                text="--ledger-unsafe: a database is taken that may lose what it commits; after "
                "its crash a term can be given out twice, and a write be sent twice",
            )
        try:
            await self.look()
        except StoreError as error:
            self._log.warning("keeper-failed", keeper="risks", error=str(error))

    async def look(self) -> None:
        risks = await self._ledger.risks()
        kinds = {risk.kind for risk in risks}
        self._metrics.ledger_crash_safe.set(RiskKind.CRASH not in kinds)
        self._metrics.ledger_standby_safe.set(RiskKind.STANDBY not in kinds)
        before, self.told = self.told, [risk.text for risk in risks]
        for text in self.told:
            if text not in before:
                self._log.warning("ledger-degraded", text=text)
        if before and not self.told:
            self._log.warning("ledger-sound")
