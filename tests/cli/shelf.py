"""Ledgers for the command line to look at, filled through the ledger itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from gateway.clock import SystemClock
from gateway.core.effect import Outcome
from gateway.core.ids import new_effect_id
from gateway.store.ledger import Ledger
from tests.conformance.books import answer, proposal, settlement

OUTCOMES = (Outcome.CONFIRMED, Outcome.CONFIRMED, Outcome.REJECTED, Outcome.NO_EFFECT)
HOUR_MS = 3_600_000


class Shelf:
    """An open ledger in the machine's own time, as a gateway has it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def effect(
        self, key: str, outcome: Outcome | None, *, sealed: bool = True, **changes: Any
    ) -> str:
        """Record an effect; with outcome None its intent alone. Return its id."""
        effect_id = new_effect_id(self.ledger.clock.now_ms())
        seal_ms = 0 if sealed else HOUR_MS
        asked = proposal(effect_id, key, settle_ms=seal_ms, timeout_ms=1, **changes)
        ruling = await self.ledger.admit(asked)
        assert ruling.n is not None, ruling.decision
        if outcome is not None:
            kept = answer() if outcome is Outcome.CONFIRMED else None
            await self.ledger.settle(settlement(effect_id, outcome, answer=kept))
        return effect_id


def at_rest(path: Path, fill: Callable[[Shelf], Coroutine[Any, Any, Any]]) -> Any:
    """Make a ledger, fill it, close it; return what `fill` returned."""

    async def make() -> Any:
        ledger = await Ledger.open(path, SystemClock())
        try:
            return await fill(Shelf(ledger))
        finally:
            await ledger.close()

    return asyncio.run(make())


async def ten_thousand(shelf: Shelf) -> None:
    """10,000 effects of 5 functions, 100 units, 4 destinations and every outcome."""

    async def one(n: int) -> None:
        await shelf.effect(
            f"k-{n}",
            Outcome.UNKNOWN if n % 100 == 0 else OUTCOMES[n % 4],
            function=f"function-{n % 5}",
            unit=f"unit-{n % 100}",
            destination=f"crm-{n % 4}",
            covers=f"crm /notes/{n}",
        )

    for first in range(0, 10_000, 500):
        await asyncio.gather(*(one(n) for n in range(first, first + 500)))
