"""A follower's patience: waits by long poll until it is this worker's turn to ask."""

from __future__ import annotations

import random
from typing import Final

from gateway.client.control import Leases, LeaseTold
from gateway.client.trust import Clock, jittered

POLL_S: Final = 25.0
EARLY_S: Final = 0.5
SPREAD_S: Final = 0.1


async def wait_turn(
    leases: Leases, clock: Clock, chance: random.Random, *, at_least_s: float, led_term: int
) -> None:
    """Wait until the lease may be asked for with a chance to get it.

    That is when it was granted to us without asking (a hand-off), or when nobody holds it and
    the time that the gateway told us to leave to better candidates is over. `led_term` is the
    last term that we led under ourselves: it is not led under again.
    """
    at_least_until_s = clock.boot_s() + at_least_s
    seen = await leases.look(None, 0)
    while True:
        if seen.holder == leases.holder and seen.term > led_term:
            return
        free = seen.holder is None
        wait_s = (seen.attempt_in_ms or 0) / 1000 if free else _until_expiry_s(seen, chance)
        until_s = max(at_least_until_s, clock.boot_s() + wait_s)
        after = await _poll(leases, clock, chance, seen, until_s)
        if free and after.version == seen.version:
            return
        seen = after


def _until_expiry_s(seen: LeaseTold, chance: random.Random) -> float:
    return seen.remaining_ms / 1000 + chance.uniform(0, SPREAD_S)


async def _poll(
    leases: Leases, clock: Clock, chance: random.Random, seen: LeaseTold, until_s: float
) -> LeaseTold:
    """Return the lease once it has changed, or as it is at `until_s`."""
    now = seen
    while now.version == seen.version and (left_s := until_s - clock.boot_s()) > 0:
        asked_s = clock.boot_s()
        wait_s = min(left_s, jittered(POLL_S, chance))
        now = await leases.look(seen.version, wait_s)
        if now.holder != seen.holder:
            break
        early_s = wait_s - (clock.boot_s() - asked_s)
        if now.version == seen.version and early_s > 0:
            # a gateway that shuts down answers before its time; asking again at once is no help
            await clock.sleep(min(early_s, jittered(EARLY_S, chance)))
    return now
