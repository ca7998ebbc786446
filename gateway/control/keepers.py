"""Keepers: the background loops of the control plane. Each turn may fail; the loop goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from structlog.typing import FilteringBoundLogger

from gateway.core.errors import GatewayError
from gateway.store.ledger import Ledger
from gateway.store.upkeep import Kept
from gateway.web.errors import new_incident_id
from gateway.web.metrics import Metrics

JITTER: Final = 0.1


@dataclass(frozen=True, slots=True)
class Keeper:
    """Something that is done again and again. `until_next` waits otherwise than by the time."""

    name: str
    every_s: float
    turn: Callable[[], Awaitable[None]]
    until_next: Callable[[], Awaitable[None]] | None = None


async def keep(keeper: Keeper, log: FilteringBoundLogger) -> None:
    """Run a keeper for ever, with jitter so that several gateways do not march in step."""
    while True:
        if keeper.until_next is not None:
            await keeper.until_next()
        else:
            await asyncio.sleep(keeper.every_s * random.uniform(1 - JITTER, 1 + JITTER))
        try:
            await keeper.turn()
        except GatewayError as error:
            log.warning("keeper-failed", keeper=keeper.name, error=str(error))
        except Exception as error:  # a keeper that dies silently keeps nothing
            log.error(
                "keeper-failed", keeper=keeper.name, incident=new_incident_id(), exc_info=error
            )


class LedgerKeepers:
    """What has to be done to the ledger while it is in use."""

    def __init__(
        self, ledger: Ledger, metrics: Metrics, log: FilteringBoundLogger, kept: Kept
    ) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._log = log
        self._kept = kept

    def all(self) -> list[Keeper]:
        return [
            Keeper("heartbeat", 2.0, self._beat),
            Keeper("stranded", 1.0, self._strand),
            Keeper("unknowns", 5.0, self._count),
            Keeper("retention", 3600.0, self._forget),
        ]

    async def _beat(self) -> None:
        await self._ledger.beat()

    async def _strand(self) -> None:
        if not self._ledger.is_keeper:
            return
        reader = await self._ledger.reader()
        unknowns = await reader.unknowns()
        if not unknowns.in_flight and not unknowns.decided:
            return
        count = await self._ledger.strand()
        if count:
            self._log.error("effects-stranded", count=count)

    async def _count(self) -> None:
        reader = await self._ledger.reader()
        unknowns = await reader.unknowns()
        self._metrics.effects_unknown.set(unknowns.count)
        age_s = 0.0
        if unknowns.oldest_at_ms is not None:
            age_s = (self._ledger.clock.now_ms() - unknowns.oldest_at_ms) / 1000
        self._metrics.oldest_unknown_age_s.set(age_s)

    async def _forget(self) -> None:
        while self._ledger.is_keeper and (done := await self._ledger.forget(self._kept)).more:
            self._log.info("retention", bodies=done.bodies, refusals=done.refusals)
