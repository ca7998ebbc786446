"""Following and leading: from a worker's start to its end.

    async with Elector(url, function="daily-report", worker="w1") as elector:
        async for leadership in elector:      # a follower until it leads
            async with leadership:            # cancelled when it is lost
                with leadership.item("lead-1"):
                    await leadership.effect("POST", "crm", "/contacts", json={...})

The loop goes on as a follower after a loss, and after the body has ended; `break` ends it.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

from gateway.client.calls import Gateway
from gateway.client.context import checked_name
from gateway.client.control import CALL_S, CandidateReport, Leases, LeaseTold
from gateway.client.errors import (
    FencegateError,
    LeaseHeld,
    Malformed,
    NotEligible,
    NotPreferred,
    NotReached,
    Refused,
    is_retryable,
)
from gateway.client.following import wait_turn
from gateway.client.leadership import RELEASE_S, Callback, Kit, Leadership
from gateway.client.renewal import Renewal
from gateway.client.tasks import LOG, Tasks
from gateway.client.trust import (
    MARGIN_SHARE,
    Backoff,
    Clock,
    SystemClock,
    jittered,
    trusted_until_s,
)

MOST_PAUSE_S: Final = 5.0
REPORT_S: Final = 5.0
ASK_AGAIN_S: Final = 0.1
URL_VARIABLE: Final = "FENCEGATE_URL"
TOKEN_VARIABLE: Final = "FENCEGATE_TOKEN"


class Elector:
    """One worker's candidacy for one scope. Each elector is an incarnation of its own.

    `url` and `token` default to FENCEGATE_URL and FENCEGATE_TOKEN. `supersede` takes over at
    once from an earlier incarnation of the same worker. `margin_s` (default: 15 % of the lease)
    is given up at the end of each lease; `renew_every_s` defaults to a quarter of it.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        function: str,
        worker: str,
        token: str | None = None,
        unit: str | None = None,
        candidate: CandidateReport | None = None,
        supersede: bool = False,
        incarnation: str | None = None,
        renew_every_s: float | None = None,
        margin_s: float | None = None,
        effect_s: float = 90.0,
        on_start: Callback | None = None,
        on_lost: Callback | None = None,
        on_uncertain: Callback | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        gateway = gateway_of(url, token, tls)
        self.holder = holder_of(worker, incarnation)
        self.candidate = candidate or CandidateReport()
        self.refusal: Refused | None = None  # why it does not lead, as last told
        self._supersede = supersede
        self._renew_every_s = renew_every_s
        self._margin_s = margin_s
        self._kit = Kit(
            leases=Leases(
                gateway,
                checked_name("a function", function),
                checked_name("a unit", unit) if unit else "",
                self.holder,
            ),
            clock=clock or SystemClock(),
            chance=chance or random.Random(secrets.randbits(64)),
            tasks=Tasks(),
            on_start=on_start,
            on_lost=on_lost,
            on_uncertain=on_uncertain,
            effect_s=effect_s,
        )
        self._leadership: Leadership | None = None
        self._led_term = 0
        self._highest_term = 0
        self._maybe_granted = False
        self._reporting: asyncio.Task[Any] | None = None

    @property
    def leadership(self) -> Leadership | None:
        """The leadership in force, if there is one."""
        now = self._leadership
        return now if now is not None and now.lost is None else None

    @property
    def state(self) -> str:
        leadership = self.leadership
        return "follower" if leadership is None else leadership.state

    async def report(self, **changes: Any) -> None:
        """Report as a candidate now, with `changes`: `await elector.report(ready=False)`."""
        self.candidate = replace(self.candidate, **changes)
        await self._kit.leases.report(self.candidate)

    # -- following

    async def __aenter__(self) -> Elector:
        if self._reporting is None:
            self._reporting = self._kit.tasks.start(self._report(), f"report {self.holder}")
        return self

    def __aiter__(self) -> AsyncIterator[Leadership]:
        return self

    async def __anext__(self) -> Leadership:
        """Follow until this worker leads. Raises what no waiting mends, as Forbidden."""
        if self._reporting is None:
            raise RuntimeError("the elector is not entered; write `async with Elector(...)`")
        backoff = self._backoff()
        while True:
            try:
                await self._give_back()
                asked = await self._ask()
                if isinstance(asked, Leadership):
                    return asked
                await self._wait_turn(asked)
                backoff.reset()
            except FencegateError as error:
                if not _passes(error):
                    raise
                LOG.warning("%s cannot ask for the lease: %s", self.holder, error)
                await self._kit.clock.sleep(max(error.retry_after_s or 0.0, backoff.next_s()))

    def _backoff(self) -> Backoff:
        """Pauses while the gateway cannot be asked: after an outage, a scope whose leases are
        short is not left without leader for longer than a few of its renewals."""
        return Backoff(
            self._kit.chance, most_s=min(MOST_PAUSE_S, self._renew_every_s or MOST_PAUSE_S)
        )

    async def _give_back(self) -> None:
        """End a leadership that is over for us, so that the next one has another term: what the
        old one has left behind is refused then."""
        if self._leadership is not None:
            await self._leadership.release()
            self._leadership = None

    async def _ask(self) -> Leadership | float:
        """Ask for the lease; return the leadership, or for how long at least not to ask again."""
        asked_s = self._kit.clock.boot_s()
        self._maybe_granted = True
        try:
            lease = await self._kit.leases.acquire(
                supersede=self._supersede, candidate=self.candidate
            )
        except (LeaseHeld, NotPreferred, NotEligible) as error:
            self._maybe_granted = False
            self._refused(error)
            if isinstance(error, LeaseHeld):  # the lease itself will tell for how long
                return self._kit.chance.uniform(0, ASK_AGAIN_S)
            return max(error.retry_after_s or REPORT_S, ASK_AGAIN_S)
        except (Refused, NotReached):
            self._maybe_granted = False
            raise
        leadership = await self._believe(lease, asked_s)
        return leadership or self._kit.chance.uniform(ASK_AGAIN_S, 2 * ASK_AGAIN_S)

    async def _believe(self, lease: LeaseTold, asked_s: float) -> Leadership | None:
        """Take up a grant, if it is ours and proof. One that comes late proves nothing; it is
        renewed once, for an answer in time."""
        margin_s = self._margin_s
        if margin_s is None:
            margin_s = lease.duration_ms / 1000 * MARGIN_SHARE
        until_s = trusted_until_s(asked_s, lease.remaining_ms, margin_s)
        if self._is_ours(lease) and self._kit.clock.boot_s() >= until_s:
            asked_s = self._kit.clock.boot_s()
            lease = await self._kit.leases.renew(lease.term, CALL_S)
            until_s = trusted_until_s(asked_s, lease.remaining_ms, margin_s)
        self._highest_term = max(self._highest_term, lease.term)
        self._maybe_granted = self._is_ours(lease)
        if not self._is_ours(lease) or self._kit.clock.boot_s() >= until_s:
            LOG.warning(
                "%s does not take up term %d: the grant is late or not its own",
                self.holder,
                lease.term,
            )
            return None
        return self._lead(lease, until_s, margin_s)

    def _is_ours(self, lease: LeaseTold) -> bool:
        newest = lease.term >= self._highest_term and lease.term > self._led_term
        return lease.holder == self.holder and newest

    def _lead(self, lease: LeaseTold, until_s: float, margin_s: float) -> Leadership:
        kit = self._kit
        leadership = Leadership(kit, lease.term, until_s)
        self._leadership, self._led_term, self.refusal = leadership, lease.term, None
        self._maybe_granted = False
        renewal = Renewal(leadership, lease.duration_ms / 1000, margin_s, self._renew_every_s)
        leadership.heartbeat = kit.tasks.start(renewal.run(), f"heartbeat of {leadership.about}")
        LOG.info("%s leads %s", self.holder, leadership.about)
        kit.tasks.tell(kit.on_start, leadership)
        return leadership

    async def _wait_turn(self, at_least_s: float) -> None:
        kit = self._kit
        await wait_turn(
            kit.leases, kit.clock, kit.chance, at_least_s=at_least_s, led_term=self._led_term
        )

    def _refused(self, error: Refused) -> None:
        term = error.facts.get("term")
        if isinstance(term, int):
            self._highest_term = max(self._highest_term, term)
        if self.refusal is None or self.refusal.slug != error.slug:
            LOG.info("%s follows: %s", self.holder, error)
        self.refusal = error

    # -- candidacy

    async def _report(self) -> None:
        """Report for as long as the elector lives: who does not report loses its place."""
        kit = self._kit
        backoff = self._backoff()
        failed = False
        while True:
            try:
                fresh_for_s = await kit.leases.report(self.candidate)
                pause_s = jittered(fresh_for_s / 3 if fresh_for_s > 0 else REPORT_S, kit.chance)
                backoff.reset()
                failed = False
            except FencegateError as error:
                if not failed:
                    LOG.warning("%s cannot report as a candidate: %s", self.holder, error)
                failed = True
                pause_s = backoff.next_s() if _passes(error) else jittered(REPORT_S, kit.chance)
            await kit.clock.sleep(pause_s)

    # -- the end

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        reporting, self._reporting = self._reporting, None
        if reporting is not None:
            reporting.cancel()
        try:
            await self._leave()
        finally:
            await self._kit.tasks.drain(RELEASE_S)

    async def _leave(self) -> None:
        """Release what is held and withdraw, as far as the gateway can be told."""
        leases = self._kit.leases
        if self._leadership is not None:
            await self._leadership.finish("the worker stops")
            self._leadership = None
        try:
            if self._maybe_granted:
                lease = await leases.look(None, 0)
                if lease.holder == self.holder:
                    await leases.release(lease.term, RELEASE_S)
            await leases.withdraw(RELEASE_S)
        except FencegateError as error:
            LOG.warning("%s could not take its leave of the gateway: %s", self.holder, error)


def _passes(error: FencegateError) -> bool:
    """Say whether waiting may mend it."""
    return is_retryable(error) or (error.status or 0) >= 500


def gateway_of(url: str | None, token: str | None, tls: ssl.SSLContext | None) -> Gateway:
    where = url or os.environ.get(URL_VARIABLE)
    if not where:
        raise ValueError(f"no gateway is given; pass its URL, or set {URL_VARIABLE}")
    return Gateway(where, token or os.environ.get(TOKEN_VARIABLE) or None, tls=tls)


def holder_of(worker: str, incarnation: str | None) -> str:
    if "#" in worker:
        raise Malformed(
            message=f"the worker's name is {worker!r}; # stands between name and incarnation, and "
            "the elector puts it there"
        )
    return checked_name("a holder", f"{worker}#{incarnation or secrets.token_hex(6)}")
