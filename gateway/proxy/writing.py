"""Writing an outcome down: now if the ledger takes it, else again and again until it does."""

from __future__ import annotations

import asyncio

from gateway.core.errors import LedgerUnavailable, RecordLost
from gateway.proxy.house import House
from gateway.store.records import Settled, Settlement


async def write_outcome(house: House, settlement: Settlement) -> Settled | None:
    """Record an outcome; None if the ledger cannot take it now, and is asked on and on, or if
    it came back older and has no place for it any more."""
    try:
        after = await house.ledger.settle(settlement)
    except LedgerUnavailable as error:
        house.log.error(
            "outcome-not-written", effect_id=settlement.effect_id, error=str(error),
            outcome=settlement.outcome.value,
        )  # fmt: skip
        house.state.unwritten += 1
        house.tasks.launch(_write_later(house, settlement), "settle-later")
        return None
    except RecordLost as error:
        _say_lost(house, settlement, error)
        return None
    if after.disagrees:
        house.log.error("late-answer-disagrees", effect_id=settlement.effect_id)
    return after


async def _write_later(house: House, settlement: Settlement) -> None:
    """Keep trying: a fact that is not on record is a probe, or a person, later on."""
    delay_s = 0.25
    while True:
        await asyncio.sleep(delay_s)
        try:
            await house.ledger.settle(settlement)
        except LedgerUnavailable:
            delay_s = min(delay_s * 2, 5)
            continue
        except RecordLost as error:
            house.state.unwritten -= 1
            _say_lost(house, settlement, error)
            return
        house.state.unwritten -= 1
        house.log.warning("outcome-written-late", effect_id=settlement.effect_id)
        return


def _say_lost(house: House, settlement: Settlement, error: RecordLost) -> None:
    """The log is the only place left that says what became of it."""
    house.log.error(
        "outcome-lost", effect_id=settlement.effect_id, n=settlement.n,
        outcome=settlement.outcome.value, status=settlement.status, error=str(error),
    )  # fmt: skip
