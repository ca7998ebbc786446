"""The reconciler: settles unknown effects by what their route's guard allows.

What to do next is decided by one pure function (`gateway.core.reconcile`); here it is done. One
step at a time for an effect, each written down before it is taken, so that a crash between any two
leaves nothing but a step to take again.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import orjson

from gateway.core import reconcile
from gateway.core.effect import Outcome
from gateway.core.errors import LedgerUnavailable, Malformed, StoreError
from gateway.core.policy import Function
from gateway.core.probe import Failed, Finding, Found, Missing
from gateway.core.reconcile import next_step
from gateway.outbound.login import without_login
from gateway.proxy import keep
from gateway.proxy.asking import ask
from gateway.proxy.house import House
from gateway.proxy.resend import Again, NotSent, resend
from gateway.proxy.unsettled import (
    DETAIL,
    Matter,
    Shelf,
    case_of,
    evidence_of,
    find_route,
    latest_unknown,
    leader_of,
    route_mark,
    why_not_sent,
)
from gateway.store.case_records import KeptRequest, OpenedProbe, Opening, UnknownEffect
from gateway.store.probes import ClosingProbe, Concluding
from gateway.store.queries import Reader
from gateway.web.errors import new_incident_id
from gateway.web.reconcile_metrics import ReconcileMetrics

AT_ONCE: Final = 64
STEPS_MAX: Final = 6
SLOT_WAIT_S: Final = 5.0
LOOK_AGAIN_S: Final = 1.0
WAIT_MS: Final = 2_000
FAILED_WAIT_MS: Final = 30_000
FAILURES_MAX: Final = 5
NOBODY: Final = "operators"
DEADLINE_MS: Final = 4 * 3_600_000


class Reconciler:
    """Looks at unknown effects again and again until each is settled or in a person's hands."""

    def __init__(self, house: House, shelf: Shelf, metrics: ReconcileMetrics) -> None:
        self._house = house
        self._shelf = shelf
        self._metrics = metrics
        self._at_work: set[str] = set()
        self._failures: dict[str, int] = {}

    async def turn(self) -> None:
        """Take up what is due, for as long as the gateway runs: at once what has just become
        unknown, for that it happened can be found out at any time.

        Nothing waits for a destination that does not answer but what is asked of that one.
        """
        house = self._house
        async with asyncio.TaskGroup() as group:
            while True:
                for effect_id in await self._due():
                    self._at_work.add(effect_id)
                    group.create_task(self._settle(effect_id))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(house.unsettled.wait(), LOOK_AGAIN_S)
                house.unsettled.clear()

    async def _due(self) -> list[str]:
        house = self._house
        if house.state.draining or house.state.ledger_error is not None:
            return []
        ledger, now_ms = house.ledger, house.ledger.clock.now_ms()
        try:
            reader = await ledger.reader()
            ids = [
                each.id
                for each in await reader.due_spooled(now_ms, AT_ONCE)
                if each.instance == ledger.instance or house.spool.has(each.file)
            ]
            if ledger.is_keeper:
                others = await reader.due(now_ms, AT_ONCE, ledger.instance)
                ids += [each for each in others if each not in ids]
        except StoreError as error:  # what is under way goes on meanwhile
            house.log.warning("keeper-failed", keeper="reconciler", error=str(error))
            return []
        return [each for each in ids if each not in self._at_work][: AT_ONCE - len(self._at_work)]

    async def _settle(self, effect_id: str) -> None:
        """Take steps until there is one to wait for. One effect's trouble is not another's."""
        try:
            reader = await self._house.ledger.reader()
            for _ in range(STEPS_MAX):
                if self._house.state.draining or not await self._step(effect_id, reader):
                    break
            self._failures.pop(effect_id, None)
        except LedgerUnavailable as error:  # looked at again once there is a ledger
            self._house.log.warning("reconcile-failed", effect_id=effect_id, error=str(error))
        except Exception as error:  # unforeseen: it must neither stop the others nor go on for ever
            await self._failed(effect_id, error)
        finally:
            self._at_work.discard(effect_id)
            if len(self._at_work) == AT_ONCE - 1:
                self._house.unsettled.set()  # there is room again

    async def _failed(self, effect_id: str, error: Exception) -> None:
        """Try again later; after some failures in a row a person has to look."""
        house = self._house
        times = self._failures[effect_id] = self._failures.get(effect_id, 0) + 1
        house.log.error(
            "reconcile-failed", incident=new_incident_id(), effect_id=effect_id, times=times,
            exc_info=error,
        )  # fmt: skip
        try:
            await house.ledger.put_off(effect_id, FAILED_WAIT_MS, "gateway-failure")
            effect = await (await house.ledger.reader()).unknown_effect(effect_id)
            if effect is not None and times >= FAILURES_MAX:
                function = house.state.policies.functions.get(effect.scope.function)
                await self._open(effect, function, "gateway-failure")
                del self._failures[effect_id]
        except Exception as again:  # as above; the effect is due as it was
            house.log.error("reconcile-failed", effect_id=effect_id, exc_info=again)

    async def _step(self, effect_id: str, reader: Reader) -> bool:
        """Take one step; return whether another may follow at once."""
        read_s = self._house.clock.boot_s()
        effect = await reader.unknown_effect(effect_id)
        if effect is None:
            self._count("settled-meanwhile")
            return False
        matter = await self._matter(effect, reader, read_s)
        if matter is None:
            function = self._house.state.policies.functions.get(effect.scope.function)
            await self._open(effect, function, "policy-gone")
            return False
        now_ms = self._house.ledger.clock.now_ms()
        known = self._house.keys_known.get((effect.destination, route_mark(matter.route)))
        unsure_ms = await reader.downtime_unknown_at_ms()
        step = next_step(case_of(effect, matter.route, now_ms, matter.leader, known, unsure_ms))
        match step:
            case reconcile.Probe(not_before_ms) if not_before_ms <= now_ms:
                return await self._probe(matter)
            case reconcile.Probe(at_ms) | reconcile.WaitUntil(at_ms):
                await self._house.ledger.put_off(effect_id, max(at_ms - now_ms, 1), "waiting")
                return False
            case reconcile.Resend(same_as):
                return await self._resend(matter, reader, same_as)
            case reconcile.Settle():
                return await self._conclude(matter, step)
            case reconcile.OpenException(reason):
                if any(one.reason == reconcile.LOST for one in effect.attempts):
                    reason = reconcile.Unsolved.LEDGER_RESTORED
                await self._open(effect, matter.function, reason.value)
                return False

    async def _matter(self, effect: UnknownEffect, reader: Reader, read_s: float) -> Matter | None:
        destination = await self._shelf.find(effect.destination, effect.policy_digest, reader)
        route = find_route(destination, effect.route) if destination else None
        request = await reader.kept_request(effect.id, latest_unknown(effect))
        if destination is None or route is None or request is None:
            return None
        function = self._house.state.policies.functions.get(effect.scope.function)
        now_ms = self._house.ledger.clock.now_ms()
        leader = await leader_of(effect, function, reader, now_ms)
        return Matter(effect, destination, route, function, request, leader, read_s)

    # -- probing

    async def _probe(self, matter: Matter) -> bool:
        """Ask the destination once; what it says is written down whatever it says."""
        house, effect = self._house, matter.effect
        slot = await house.slots(matter.destination).take(SLOT_WAIT_S)
        if slot is None:
            await house.ledger.put_off(effect.id, WAIT_MS, "busy")
            return False
        with slot:
            opened = await house.ledger.open_probe(effect.id, effect.version)
            if opened is None:
                await house.ledger.put_off(effect.id, WAIT_MS, "changed meanwhile")
                return False
            try:
                status, finding = await ask(self._house, matter)
            except Exception as error:  # whatever went wrong, the probe is over
                self._house.log.error(
                    "probe-failed", incident=new_incident_id(), effect_id=effect.id, exc_info=error
                )
                status, finding = None, Failed(f"gateway-failure: {type(error).__name__}")
        await self._close(matter, opened, status, finding)
        return True

    async def _close(
        self, matter: Matter, opened: OpenedProbe, status: int | None, finding: Finding
    ) -> None:
        evidence: dict[str, Any] = {"why": getattr(finding, "why", None)}
        resource = None
        if isinstance(finding, Found):
            evidence = dict(finding.evidence)
            took = keep.taken(finding.take, matter.destination.login)
            resource = orjson.dumps(took).decode() if took else None
        text = without_login(orjson.dumps(evidence), matter.destination.login).decode()
        moved = finding.moved if isinstance(finding, Missing) else None
        outcome = await self._house.ledger.close_probe(
            ClosingProbe(
                effect_id=matter.effect.id,
                n=opened.n,
                verdict=finding.verdict,
                status=status,
                evidence=text,
                moved=moved,
                resource=resource,
            )
        )
        self._count(f"probe-{finding.verdict.value}")
        if outcome is Outcome.CONFIRMED:
            self._said("reconciled", matter, outcome="confirmed", by="probe")

    # -- settling and sending again

    async def _conclude(self, matter: Matter, step: reconcile.Settle) -> bool:
        effect = matter.effect
        if step.outcome is not Outcome.NO_EFFECT or not step.probes:
            # The ledger says so already; it is not unknown any more by the next look.
            await self._house.ledger.put_off(effect.id, WAIT_MS, f"settled: {step.outcome.value}")
            return False
        concluding = Concluding(
            effect_id=effect.id,
            version=effect.version,
            term=step.probes[0].term,
            probes=tuple(probe.n for probe in step.probes),
            started_at_ms=step.probes[0].started_at_ms,
        )
        if step.resend:
            return await self._send(matter, matter.request, after=concluding)
        if not await self._house.ledger.conclude(concluding):
            return True  # something changed: decide again
        self._concluded(matter)
        return False

    async def _resend(self, matter: Matter, reader: Reader, same_as: int | None) -> bool:
        request = matter.request
        if same_as is not None:
            kept = await reader.kept_request(matter.effect.id, same_as)
            if kept is None:
                await self._open(matter.effect, matter.function, "request-gone")
                return False
            request = kept
        return await self._send(matter, request, as_it_was=same_as is not None)

    async def _send(
        self,
        matter: Matter,
        request: KeptRequest,
        *,
        as_it_was: bool = False,
        after: Concluding | None = None,
    ) -> bool:
        effect, leader, function = matter.effect, matter.leader, matter.function
        if leader is None or function is None:
            await self._house.ledger.put_off(effect.id, WAIT_MS, "nobody leads")
            return False
        against = why_not_sent(matter, self._house.state.policies)
        if against is None and request.file and not self._house.spool.has(request.file):
            against = "request-elsewhere"
        if against is not None:
            await self._open(effect, function, against)
            return False
        again = Again(
            effect=effect, request=request, destination=matter.destination, route=matter.route,
            function=function, leader=leader, decided_s=matter.read_s, as_it_was=as_it_was,
            after=after,
        )  # fmt: skip
        # In a task of its own: an intent is followed by its send, and by its record, whatever
        # becomes of this loop.
        sending = self._house.tasks.start(resend(self._house, again), "resend")
        try:
            came = await asyncio.shield(sending)
        except Malformed:
            await self._open(effect, function, "cannot-be-sent")
            return False
        if isinstance(came, NotSent):
            return await self._not_sent(matter, function, came)
        if after is not None:
            self._concluded(matter)
        self._count(f"resent-{came.value}")
        self._said("resent", matter, outcome=came.value, term=leader.term)
        return True

    async def _not_sent(self, matter: Matter, function: Function, came: NotSent) -> bool:
        self._count("not-resent")
        if came.concluded:  # the key is free: whoever still wants it sends it again
            self._concluded(matter)
            return False
        if came.for_good:
            await self._open(matter.effect, function, came.why)
        else:
            await self._house.ledger.put_off(matter.effect.id, WAIT_MS, came.why)
        return False

    def _concluded(self, matter: Matter) -> None:
        self._count("no-effect")
        self._said("reconciled", matter, outcome="no-effect", by="probe")

    # -- handing over to a person

    async def _open(self, effect: UnknownEffect, function: Function | None, reason: str) -> None:
        owner = function.exceptions_owner if function else ""
        deadline_ms = function.exceptions_deadline_ms if function else 0
        path = effect.target.partition("?")[0]  # no query: it goes to logs and receivers of alerts
        detail = DETAIL.get(reason, f"it could not be settled: {reason}")
        case = await self._house.ledger.open_case(
            Opening(
                effect_id=effect.id,
                scope=effect.scope,
                unit=effect.unit,
                item=effect.item,
                destination=effect.destination,
                term=effect.attempts[-1].term,
                reason=reason,
                detail=f"Nobody knows whether {effect.method} {path[:200]} took effect "
                f"at {effect.destination}: {detail}.",
                owner=owner or NOBODY,
                deadline_ms=deadline_ms or DEADLINE_MS,
                evidence=evidence_of(effect),
            )
        )
        self._count("exception")
        self._house.log.error(
            "exception-opened",
            exception_id=case.id,
            effect_id=effect.id,
            function=effect.scope.function,
            reason=reason,
            responsible=case.owner,
            next_action="look at the destination, then confirm, not-applied or abandon",
        )

    def _said(self, event: str, matter: Matter, **facts: object) -> None:
        effect = matter.effect
        age_s = (self._house.ledger.clock.now_ms() - effect.attempts[0].created_at_ms) / 1000
        self._metrics.settled(age_s)
        self._house.log.info(
            event, effect_id=effect.id, function=effect.scope.function, age_s=round(age_s, 3),
            **facts,
        )  # fmt: skip

    def _count(self, result: str) -> None:
        self._metrics.step(result)
