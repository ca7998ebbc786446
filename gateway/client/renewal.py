"""The heartbeat of a leadership: renews it, and watches over its proof.

It looks at the clock in short steps rather than sleeping until the next renewal. So a deadline
is noticed whatever a call is waiting for, and so is a machine or a process that was suspended:
the clock moved further than was slept.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from gateway.client.errors import FencegateError, GatewayUnreachable, NotInCommand
from gateway.client.leadership import Leadership
from gateway.client.trust import RENEW_SHARE, jittered, trusted_until_s

STEP_S: Final = 1.0
OVERSLEPT_S: Final = 1.0
CALL_S: Final = 5.0


class Renewal:
    """Keeps one leadership renewed until it is lost."""

    def __init__(
        self,
        leadership: Leadership,
        duration_s: float,
        margin_s: float,
        renew_every_s: float | None,
    ) -> None:
        self._leadership = leadership
        self._kit = leadership.kit
        self._margin_s = margin_s
        self._every_s = renew_every_s or duration_s * RENEW_SHARE
        self._fixed = renew_every_s is not None
        first_s = min(self._every_s, leadership.remaining_s / 3)
        self._due_s = self._kit.clock.boot_s() + jittered(first_s, self._kit.chance)
        self._renewing: asyncio.Task[Any] | None = None

    async def run(self) -> None:
        """Renew until the leadership is lost. Whatever ends this ends the leadership."""
        leadership = self._leadership
        try:
            while leadership.lost is None:
                await self._step()
        finally:
            leadership.lose("stopped", "nothing renews it any more")
            if self._renewing is not None:
                self._renewing.cancel()

    async def _step(self) -> None:
        leadership, clock = self._leadership, self._kit.clock
        began_s = clock.boot_s()
        left_s = leadership.until_s - began_s
        if left_s <= 0:
            leadership.lose("margin", "its proof ran out before a renewal was answered")
            return
        if self._renewing is not None and self._renewing.done():
            self._renewing = None
        if began_s >= self._due_s and self._renewing is None:
            self._renewing = self._kit.tasks.start(self._renew(), f"renewal of {leadership.about}")
        pause_s = min(left_s, STEP_S, self._every_s / 4)
        if self._renewing is None:
            pause_s = min(pause_s, self._due_s - began_s)
        await clock.sleep(pause_s)
        overslept_s = clock.boot_s() - began_s - pause_s
        if overslept_s > OVERSLEPT_S:
            self._woke_up(overslept_s)

    def _woke_up(self, overslept_s: float) -> None:
        """Doubt a proof that has outlived a pause, and have it renewed at once."""
        leadership = self._leadership
        why = f"the process stood still for {overslept_s:.1f} s"
        if self._kit.clock.boot_s() >= leadership.until_s:
            leadership.lose("suspended", f"{why}, and its proof ran out meanwhile")
        else:
            self._due_s = self._kit.clock.boot_s()
            leadership.doubt(GatewayUnreachable(message=why))

    async def _renew(self) -> None:
        leadership, clock = self._leadership, self._kit.clock
        asked_s = clock.boot_s()
        left_s = max(leadership.until_s - asked_s, 0.01)
        try:
            lease = await self._kit.leases.renew(
                leadership.term, min(left_s, max(self._every_s, 0.05), CALL_S)
            )
            if (lease.holder, lease.term) != (leadership.holder, leadership.term):
                raise GatewayUnreachable(
                    message=f"a renewal was answered with the lease of {lease.holder} under term "
                    f"{lease.term}"
                )
        except NotInCommand as error:
            leadership.refuted(error)
            return
        except FencegateError as error:
            # a lost answer costs nothing: the same renewal again is the same renewal
            self._due_s = clock.boot_s() + self._retry_pause_s()
            leadership.doubt(error)
            return
        if not self._fixed:
            self._every_s = lease.duration_ms / 1000 * RENEW_SHARE
        until_s = trusted_until_s(asked_s, lease.remaining_ms, self._margin_s)
        if clock.boot_s() >= until_s:
            leadership.lose("late-answer", "a renewal was answered after its own deadline")
            return
        self._due_s = asked_s + jittered(self._every_s, self._kit.chance)
        leadership.proven(until_s)

    def _retry_pause_s(self) -> float:
        left_s = self._leadership.until_s - self._kit.clock.boot_s()
        pause_s = min(self._every_s / 4, left_s / 4)
        return max(0.02, pause_s * self._kit.chance.uniform(0.5, 1.0))
