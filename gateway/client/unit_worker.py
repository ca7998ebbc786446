"""A worker that is not the leader: it claims items of a unit and acts by its claims.

    async with UnitWorker(url, function="report", unit="report:2026-10-02", worker="w1") as worker:
        while items := await worker.claim(limit=10, ttl_s=60):
            for item in items:
                await item.effect("POST", "crm", "/contacts", json=item.data)
                await item.done()

It needs `callers: leader-or-claimant` in the function's policy. Its term is the leader's: told by
the leader, or read from the gateway. A claim is trusted from the moment that it was asked for,
and under another term it counts no more.
"""

from __future__ import annotations

import random
import secrets
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final
from urllib.parse import quote

from gateway.client.calls import Gateway
from gateway.client.context import Fence, StepCounter, checked_name
from gateway.client.control import CALL_S, Leases
from gateway.client.elector import gateway_of, holder_of
from gateway.client.errors import ClaimLost, FencegateError, LeadershipLost, Malformed, StaleTerm
from gateway.client.leadership import Kit
from gateway.client.trust import MARGIN_SHARE, Clock, SystemClock, trusted_until_s
from gateway.client.unit import CLAIM_S, ClaimedItem, Result, report_all
from gateway.client.unit_calls import ClaimTold, ItemTold, Speaker, UnitCalls, UnitTold

EFFECT_S: Final = 90.0


class Claim:
    """The proof of one claim, as a leadership is of a term."""

    def __init__(self, kit: Kit, about: str, until_s: float) -> None:
        self.kit = kit
        self.about = about
        self.until_s = until_s
        self._lost: str | None = None

    @property
    def url(self) -> str:
        return self.kit.leases.gateway.url

    @property
    def token(self) -> str | None:
        return self.kit.leases.gateway.token

    @property
    def remaining_s(self) -> float:
        """For how long the claim is proof yet."""
        return 0.0 if self._lost else max(0.0, self.until_s - self.kit.clock.boot_s())

    def check(self) -> None:
        """Raise ClaimLost without current proof. Cheap, and safe from any thread."""
        if self._lost is None and self.kit.clock.boot_s() < self.until_s:
            return
        why = self._lost or "its time is over; claim again for more"
        raise ClaimLost(message=f"the claim on {self.about} is lost: {why}. Nothing was sent")

    def refuted(self, error: FencegateError) -> None:
        self._lost = str(error)

    @asynccontextmanager
    async def commit(self) -> AsyncIterator[None]:
        self.check()
        yield


class UnitWorker:
    """Works on items of one unit. Each is an incarnation of its own."""

    def __init__(
        self,
        url: str | None = None,
        *,
        function: str,
        unit: str,
        worker: str,
        term: int | None = None,
        token: str | None = None,
        incarnation: str | None = None,
        effect_s: float = EFFECT_S,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        gateway = gateway_of(url, token, tls)
        self.function = checked_name("a function", function)
        self.unit = checked_name("a unit", unit)
        self.holder = holder_of(worker, incarnation)
        self.waiting: Sequence[str] = ()  # items that nobody gets, as last told
        self._given_term = term
        self._read_term: int | None = None
        self._kit = Kit(
            leases=Leases(gateway, self.function, "", self.holder),
            clock=clock or SystemClock(),
            chance=chance or random.Random(secrets.randbits(64)),
            effect_s=effect_s,
        )
        self._held: dict[str, ClaimedItem] = {}

    async def __aenter__(self) -> UnitWorker:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.clear()

    async def claim(self, limit: int = 1, ttl_s: float = CLAIM_S) -> list[ClaimedItem]:
        """Claim items: those that this worker holds and has not reported, for longer, then
        others up to `limit`.

        Raises LeadershipLost while nobody leads the function, and the errors of a refusal.
        """
        try:
            claim, term = await self._claim(limit, ttl_s)
        except StaleTerm:
            if self._given_term is not None:
                raise
            self._read_term = None  # another leads by now; its term is read again
            claim, term = await self._claim(limit, ttl_s)
        self.waiting = claim.waiting
        held = {told.item: self._taken_up(told, claim, term, ttl_s) for told in claim.items}
        self._held = held
        return [*held.values()]

    async def keep(self, ttl_s: float = CLAIM_S) -> None:
        """Hold on to what is held, for longer."""
        if self._held:
            await self.claim(len(self._held), ttl_s)

    async def look(self) -> UnitTold:
        """Read how the unit stands; that needs no leader."""
        return await self._calls(self._given_term or self._read_term or 1).look()

    async def report(self, results: Sequence[Result]) -> dict[str, str]:
        """Report on many items; return why, by item, for those that were not taken."""
        return await report_all(self._calls(await self._term()), results)

    async def _claim(self, limit: int, ttl_s: float) -> tuple[ClaimTold, int]:
        term = await self._term()
        return await self._calls(term).claim(None, limit, ttl_s), term

    def _taken_up(self, told: ItemTold, claim: ClaimTold, term: int, ttl_s: float) -> ClaimedItem:
        until_s = trusted_until_s(claim.asked_s, told.remaining_ms, ttl_s * MARGIN_SHARE)
        known = self._held.get(told.item)
        if known is not None and (known.attempt, known.fence.term) == (told.attempt, term):
            if isinstance(known.commander, Claim):
                known.commander.until_s = until_s
            return known  # its steps have numbers of their own
        about = f"item {told.item!r} of {self.unit!r} under term {term}"
        proof = Claim(self._kit, about, until_s)
        steps = StepCounter(self.function, self.unit)
        fence = Fence(self.function, self.unit, term, self.holder, proof, steps)
        return ClaimedItem(proof, fence, self._calls(term, proof), told)

    def _calls(self, term: int, proof: Claim | None = None) -> UnitCalls:
        speaker = Speaker(self.function, self.unit, term, self.holder)
        asking = proof or Claim(self._kit, f"unit {self.unit!r}", 0.0)
        return UnitCalls(asking, speaker, proven=False)

    async def _term(self) -> int:
        if self._given_term is not None:
            return self._given_term
        if self._read_term is None:
            self._read_term = await self._look_for_term()
        return self._read_term

    async def _look_for_term(self) -> int:
        """Read under which term the function, or the unit, is led now."""
        gateway: Gateway = self._kit.leases.gateway
        path = f"/v1/functions/{quote(self.function, safe='')}"
        _, said = await gateway.control("GET", path, timeout_s=CALL_S)
        if said["authority"] != "lease":
            raise Malformed(
                message=f"the terms of {self.function!r} come from an authority outside; give "
                "UnitWorker the term that its leader has"
            )
        unit = self.unit if said["leadership"] == "unit" else ""
        lease = await Leases(gateway, self.function, unit, self.holder).look(None, 0)
        if lease.holder is None:
            raise LeadershipLost(
                message=f"nobody leads {self.function!r}; its items wait for the next leader",
                reason="nobody-leads",
            )
        return lease.term
