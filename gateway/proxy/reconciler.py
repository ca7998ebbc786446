"""The reconciler: settles unknown effects by what their route's guard allows.

What to do next is decided by one pure function (`gateway.core.reconcile`); here it is done. One
step at a time for an effect, each written down before it is taken, so that a crash between any two
leaves nothing but a step to take again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from gateway.core import reconcile
from gateway.core.classify import Reply, Silence
from gateway.core.dress import dress
from gateway.core.effect import Outcome
from gateway.core.errors import GatewayError, Malformed
from gateway.core.policy import Destination, Function, Route
from gateway.core.probe import Failed, Finding, Found, Missing, read_probe, render_look
from gateway.core.reconcile import next_step
from gateway.core.template import RequestValues
from gateway.outbound.exchange import Outgoing
from gateway.outbound.login import login_header, without_login
from gateway.proxy import keep
from gateway.proxy.house import House
from gateway.proxy.resend import Again, NotSent, resend
from gateway.proxy.unsettled import (
    Leader,
    Shelf,
    case_of,
    evidence_of,
    find_route,
    latest_unknown,
    leader_of,
    route_mark,
    values_of,
)
from gateway.store.case_records import KeptRequest, OpenedProbe, Opening, UnknownEffect
from gateway.store.probes import ClosingProbe, Concluding
from gateway.store.queries import Reader
from gateway.web.reconcile_metrics import ReconcileMetrics

AT_ONCE: Final = 16
STEPS_MAX: Final = 6
LOOK_MAX_BYTES: Final = 4 * 1024 * 1024
SLOT_WAIT_S: Final = 5.0
LOOK_AGAIN_S: Final = 1.0
WAIT_MS: Final = 2_000
NOBODY: Final = "operators"
DEADLINE_MS: Final = 4 * 3_600_000

_DETAIL: Final[Mapping[str, str]] = {
    "no-guard": "the route gives the gateway no way to find out",
    "several-matches": "the destination has it more than once",
    "other-content": "the destination's answer proves neither",
    "superseded": "another write to the same thing came after it, so its mark proves nothing",
    "still-missing": "it is not there, and the route does not send it again by itself",
    "never-retry": "an answer forbade to send it again",
    "key-misused": "the destination knows its native key from another request",
    "key-not-supported": "the destination has not said that it knows native keys",
    "window-unknown": "how long the destination keeps native keys is not published",
    "window-over": "its native key would by now make a second effect",
    "condition-lost": "somebody wrote under the version that it was sent under",
    "condition-not-exact": "its condition is not exact, and repeating it may do harm",
    "probes-failed": "the destination did not answer the question, too often",
    "resend-rejected": "sent again it was rejected, which proves nothing about the first time",
    "resends-exhausted": "it was sent again too often without an answer",
    "no-leader": "nobody leads under whose term it could be sent again",
    "policy-gone": "the policy that it was sent under cannot be read any more",
    "request-gone": "the request is not on record any more",
}
"""Why the gateway does not settle it, in words."""


@dataclass(frozen=True, slots=True)
class Matter:
    """One unknown effect, and the policy that it is settled by."""

    effect: UnknownEffect
    destination: Destination
    route: Route
    function: Function | None
    request: KeptRequest
    leader: Leader | None


class Reconciler:
    """Looks at unknown effects again and again until each is settled or in a person's hands."""

    def __init__(self, house: House, shelf: Shelf, metrics: ReconcileMetrics) -> None:
        self._house = house
        self._shelf = shelf
        self._metrics = metrics

    async def turn(self) -> None:
        """Take up what is due, several effects at a time: at once what has just become
        unknown, for that it happened can be found out at any time."""
        house = self._house
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(house.unsettled.wait(), LOOK_AGAIN_S)
        house.unsettled.clear()
        if house.state.draining or house.state.ledger_error is not None:
            return
        reader = await house.ledger.reader()
        ids = await reader.due(house.ledger.clock.now_ms(), 4 * AT_ONCE)
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(effect_id: str) -> None:
            async with gate:
                await self._settle(effect_id, reader)

        async with asyncio.TaskGroup() as group:
            for effect_id in ids:
                group.create_task(one(effect_id))

    async def _settle(self, effect_id: str, reader: Reader) -> None:
        """Take steps until there is one to wait for. One effect's trouble is not another's."""
        try:
            for _ in range(STEPS_MAX):
                if not await self._step(effect_id, reader):
                    return
        except GatewayError as error:
            self._house.log.warning("reconcile-failed", effect_id=effect_id, error=str(error))
            await self._house.ledger.put_off(effect_id, WAIT_MS, str(error)[:200])

    async def _step(self, effect_id: str, reader: Reader) -> bool:
        """Take one step; return whether another may follow at once."""
        effect = await reader.unknown_effect(effect_id)
        if effect is None:
            self._count("settled-meanwhile")
            return False
        matter = await self._matter(effect, reader)
        if matter is None:
            await self._open(effect, None, "policy-gone")
            return False
        now_ms = self._house.ledger.clock.now_ms()
        known = self._house.keys_known.get((effect.destination, route_mark(matter.route)))
        step = next_step(case_of(effect, matter.route, now_ms, matter.leader, known))
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
                await self._open(effect, matter.function, reason.value)
                return False

    async def _matter(self, effect: UnknownEffect, reader: Reader) -> Matter | None:
        destination = await self._shelf.find(effect.destination, effect.policy_digest, reader)
        route = find_route(destination, effect.route) if destination else None
        request = await reader.kept_request(effect.id, latest_unknown(effect))
        if destination is None or route is None or request is None:
            return None
        function = self._house.state.policies.functions.get(effect.scope.function)
        now_ms = self._house.ledger.clock.now_ms()
        leader = await leader_of(effect, function, reader, now_ms)
        return Matter(effect, destination, route, function, request, leader)

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
            status, finding = await self._ask(matter)
        await self._close(matter, opened, status, finding)
        return True

    async def _ask(self, matter: Matter) -> tuple[int | None, Finding]:
        house, look = self._house, matter.route.look
        if look is None:
            return None, Failed("the route has no look")
        values = values_of(matter.effect, matter.request, matter.route)
        try:
            first_ms = matter.effect.attempts[0].created_at_ms
            asked = render_look(look, values, first_sent_ms=first_ms, probe=secrets.token_hex(8))
            condition = self._condition(matter, values)
        except Malformed as error:
            return None, Failed(str(error))
        login = login_header(matter.destination.login)
        now_s = house.clock.boot_s()
        limits = matter.route.limits
        got = await house.outbound.send_once(
            matter.destination,
            Outgoing(
                method=asked.method,
                target=asked.target,
                headers=[*asked.headers, login] if login else asked.headers,
                deadline_s=now_s + limits.timeout_ms / 1000,
                body=asked.body,
                send_by_s=now_s + limits.connect_ms / 1000 + 1,
            ),
        )
        if isinstance(got, Silence):
            return None, Failed(got.reason)
        body = b"" if got.is_stream else await got.read(LOOK_MAX_BYTES)
        if not got.complete:
            got.abort()
            return got.status, Failed("the answer broke off, or is too long")
        reply = Reply(got.status, got.facts_headers, keep.json_of(got, body))
        values = replace(values, first_sent_s=first_ms // 1000)
        finding = read_probe(
            look, reply, values, slow_down=matter.destination.slow_down,
            version=matter.route.version, condition=condition,
        )  # fmt: skip
        return got.status, finding

    def _condition(self, matter: Matter, values: RequestValues) -> str:
        if matter.route.version is None:
            return ""
        request = matter.request
        made = dress(
            matter.route,
            method=request.method,
            target=request.target,
            headers=list(values.headers.items()),
            body=request.body,
            values=values,
        )
        return made.condition

    async def _close(
        self, matter: Matter, opened: OpenedProbe, status: int | None, finding: Finding
    ) -> None:
        evidence: dict[str, Any] = {"why": getattr(finding, "why", None)}
        resource = None
        if isinstance(finding, Found):
            evidence = dict(finding.evidence)
            resource = orjson.dumps(dict(finding.take)).decode() if finding.take else None
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
        taken = await self._house.ledger.conclude(
            Concluding(
                effect_id=effect.id,
                version=effect.version,
                term=step.probes[0].term,
                probes=tuple(probe.n for probe in step.probes),
                started_at_ms=step.probes[0].started_at_ms,
            )
        )
        if not taken:
            return True  # something changed: decide again
        self._count("no-effect")
        self._said("reconciled", matter, outcome="no-effect", by="probe")
        if step.resend and matter.leader is not None and matter.function is not None:
            await self._send(matter, matter.request, as_it_was=False)
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

    async def _send(self, matter: Matter, request: KeptRequest, *, as_it_was: bool) -> bool:
        effect, leader, function = matter.effect, matter.leader, matter.function
        if leader is None or function is None:
            await self._house.ledger.put_off(effect.id, WAIT_MS, "nobody leads")
            return False
        again = Again(
            effect, request, matter.destination, matter.route, function, leader, as_it_was
        )
        came = await resend(self._house, again)
        if isinstance(came, NotSent):
            self._count("not-resent")
            if came.for_good:
                await self._open(effect, function, came.why)
            else:
                await self._house.ledger.put_off(effect.id, WAIT_MS, came.why)
            return False
        self._count(f"resent-{came.value}")
        self._said("resent", matter, outcome=came.value, term=leader.term)
        return True

    # -- handing over to a person

    async def _open(self, effect: UnknownEffect, function: Function | None, reason: str) -> None:
        owner = function.exceptions_owner if function else ""
        deadline_ms = function.exceptions_deadline_ms if function else 0
        path = effect.target.partition("?")[0]  # no query: it goes to logs and receivers of alerts
        detail = _DETAIL.get(reason, f"it could not be settled: {reason}")
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
