"""A write that the destination rejects again and again: the next try is a person's to allow."""

from __future__ import annotations

from gateway.core.effect import PriorEffect
from gateway.core.errors import LedgerUnavailable
from gateway.proxy.call import Call
from gateway.proxy.house import House
from gateway.proxy.reconciler import DEADLINE_MS
from gateway.store.alerts import NOBODY
from gateway.store.case_records import Opening
from gateway.store.cases import EXHAUSTED


async def open_exhausted(house: House, call: Call, prior: PriorEffect | None) -> None:
    """Open an exception about the effect, unless one is open. A ledger that cannot take it now
    is asked again at the next refusal: the refusal itself stands either way."""
    attempt = call.attempt
    if attempt is None or prior is None:
        return
    function = call.function
    owner = function.exceptions_owner if function else ""
    deadline_ms = function.exceptions_deadline_ms if function else 0
    opening = Opening(
        effect_id=prior.effect_id,
        scope=attempt.scope,
        unit=attempt.key.unit,
        item=call.fence.item,
        destination=call.destination.name,
        term=attempt.term,
        reason=EXHAUSTED,
        detail=f"{call.destination.name} has rejected {call.method} {call.target.path[:200]} "
        f"{prior.rejected} times.",
        owner=owner or NOBODY,
        deadline_ms=deadline_ms or DEADLINE_MS,
        evidence={
            "request": {
                "method": call.method,
                "target": call.target.text,
                "fingerprint": attempt.fingerprint.raw.hex(),
            },
            "attempts": prior.attempts,
            "rejected": prior.rejected,
        },
    )
    try:
        await house.ledger.open_case(opening)
    except LedgerUnavailable as error:
        house.log.error("ledger-unavailable", error=str(error), at="exception")
