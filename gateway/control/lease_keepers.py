"""Keepers of leadership: time ends leases, and what is journalled is told and counted.

Counting follows the journal and not the verbs: whoever meets an expired lease first (a keeper, a
verb, another process) journals it once, and it is counted once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from structlog.typing import FilteringBoundLogger

from gateway.control.following import with_unled
from gateway.control.keepers import Keeper
from gateway.control.lease_views import live_lease, terms_of
from gateway.control.transitions import latest_id
from gateway.core.candidates import is_fresh, rank
from gateway.core.fence import Authority
from gateway.core.ids import Scope
from gateway.core.lease import Ended
from gateway.core.policy import Function, PolicySet
from gateway.store.lease_records import LeaseRecord, TransitionFilter, TransitionRecord
from gateway.store.ledger import Ledger
from gateway.web.lease_metrics import LeaseMetrics

LOOK_S: Final = 0.25
"""A lease that is granted while the keeper sleeps is met this late at most."""
_SOONEST_S: Final = 0.02
_PAGE: Final = 500


class LeaseKeepers:
    """What has to be done about leadership while a gateway runs."""

    def __init__(
        self,
        ledger: Ledger,
        policies: Callable[[], PolicySet],
        metrics: LeaseMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._ledger = ledger
        self._policies = policies
        self._metrics = metrics
        self._log = log
        self._again = False
        self._began = False
        self._told_to: int | None = None
        self._draining_since_ms: dict[Scope, int] = {}
        self._deserted: set[Scope] = set()

    def all(self) -> list[Keeper]:
        return [
            Keeper("leases", LOOK_S, self._lapse, self._until_due),
            Keeper("journal", 1.0, self._tell, self._until_rung),
            Keeper("candidates", 5.0, self._count),
        ]

    def _leased(self) -> Mapping[str, Function]:
        functions = self._policies().functions
        return {n: f for n, f in functions.items() if f.rules.authority is Authority.LEASE}

    # -- time

    async def _until_due(self) -> None:
        due_ms = self._ledger.due_at_ms()
        left_s = LOOK_S
        if due_ms is not None:
            left_s = (due_ms - self._ledger.clock.now_ms()) / 1000
        await asyncio.sleep(min(max(left_s, _SOONEST_S), LOOK_S))

    async def _lapse(self) -> None:
        due_ms = self._ledger.due_at_ms()
        due = due_ms is not None and due_ms <= self._ledger.clock.now_ms()
        leased = self._leased()
        if not leased or not (due or self._again) or not self._ledger.is_keeper:
            return
        self._again = True  # until it is recorded, whatever goes wrong
        await self._ledger.lapse({name: terms_of(each) for name, each in leased.items()})
        self._again = False

    # -- the journal

    async def _until_rung(self) -> None:
        """Wait until something is journalled; what rang before is met by the next look."""
        if not self._began:
            self._began = True  # told is what is journalled from the start on, so look at once
            return
        with self._ledger.bell.listen() as rung:
            try:
                async with asyncio.timeout(1.0):
                    await rung.wait()
            except TimeoutError:
                pass

    async def _tell(self) -> None:
        if not self._ledger.is_keeper:
            # Told and counted once, by whoever keeps. What is journalled between a keeper's death
            # and its successor is not; alerts are, for those are kept until they are delivered.
            self._told_to = None
            return
        reader = await self._ledger.reader()
        if self._told_to is None:
            self._deserted.clear()
            self._told_to = await latest_id(reader)
            now_ms = self._ledger.clock.now_ms()
            for record in await reader.leases(self._leased(), now_ms):
                self._recall(record)
            return
        while True:
            found = await reader.transitions(TransitionFilter(after=self._told_to, limit=_PAGE))
            for transition in found:
                self._told_to = transition.id
                self._told(transition)
            if len(found) < _PAGE:
                return

    def _recall(self, record: LeaseRecord) -> None:
        """Take up a scope as an earlier run left it."""
        lease = record.lease
        if lease is None or live_lease(record) is not None:
            return
        if not record.scope.unit or lease.ended in (None, Ended.EXPIRED):
            self._deserted.add(record.scope)

    def _told(self, transition: TransitionRecord) -> None:
        self._metrics.journalled(transition.kind)
        function = self._leased().get(transition.function)
        if function is None:
            return
        self._metrics.know(self._policies().functions)
        scope = Scope(transition.function, transition.unit)
        match transition.kind:
            case "leader-acquired":
                self._led(scope, transition)
            case "leader-lost":
                self._lost(scope, transition)
            case "leader-renewing" if transition.reason == "stepping-down":
                self._draining_since_ms.setdefault(scope, transition.at_ms)
            case _:
                pass
        tell(self._log, transition, function)

    def _led(self, scope: Scope, transition: TransitionRecord) -> None:
        self._deserted.discard(scope)
        free_ms = (transition.detail or {}).get("free_ms")
        draining_since_ms = self._draining_since_ms.pop(scope, None)
        gap_ms = free_ms
        if free_ms is not None and draining_since_ms is not None:
            gap_ms = max(free_ms, transition.at_ms - draining_since_ms)
        self._metrics.acquired(scope.function, _seconds(free_ms), _seconds(gap_ms))

    def _lost(self, scope: Scope, transition: TransitionRecord) -> None:
        # A unit's scope that was given back is done with, not deserted.
        if not scope.unit or transition.reason == Ended.EXPIRED:
            self._deserted.add(scope)
        else:
            self._draining_since_ms.pop(scope, None)
        facts = transition.detail or {}
        if "ended_at_ms" in facts and "acquired_at_ms" in facts:
            lasted_ms = facts["ended_at_ms"] - facts["acquired_at_ms"]
            self._metrics.ended(scope.function, lasted_ms / 1000)

    # -- gauges

    async def _count(self) -> None:
        leased = self._leased()
        self._metrics.know(self._policies().functions)
        reader = await self._ledger.reader()
        now_ms = self._ledger.clock.now_ms()
        whole = [function for function in leased.values() if not function.per_unit]
        records = await reader.leases([function.name for function in whole], now_ms)
        free = {
            record.scope
            for record in with_unled(records, whole, now_ms)
            if live_lease(record) is None
        }
        free |= {scope for scope in self._deserted if scope.unit and scope.function in leased}
        without = 0
        for name, function in leased.items():
            terms = terms_of(function)
            fresh_for_ms = terms.rules.fresh_for_ms
            candidates = [one.candidate for one in await reader.candidates(name, now_ms)]
            fresh = [one for one in candidates if is_fresh(one, now_ms, fresh_for_ms)]
            self._metrics.versions(name, len({one.version for one in fresh}))
            if not rank(fresh, terms.eligible, now_ms, fresh_for_ms):
                without += sum(scope.function == name for scope in free)
        self._metrics.scopes_without_leader.set(len(free))
        self._metrics.scopes_without_candidate.set(without)


def _seconds(value_ms: int | None) -> float | None:
    return None if value_ms is None else value_ms / 1000


def tell(log: FilteringBoundLogger, transition: TransitionRecord, function: Function) -> None:
    """Log what has happened: a sentence with its consequence, what to do, and who does it."""
    scope = transition.function + (f", unit {transition.unit}" if transition.unit else "")
    term, holder = transition.term, transition.holder
    uncertain = transition.uncertain or 0
    level, msg, text = "debug", transition.kind, ""
    match transition.kind:
        case "leader-acquired":
            level, text = "info", f"{holder} leads {scope} under term {term}."
        case "leader-lost" if transition.reason == Ended.EXPIRED:
            level, msg = "warning", "lease-expired"
            text = (
                f"{holder} did not renew in time and leads {scope} no longer: nothing new is "
                f"admitted under term {term}, and {uncertain} of its effects are unfinished."
            )
        case "leader-lost":
            level, msg = "info", "lease-ended"
            text = f"{holder} leads {scope} no longer ({transition.reason}), term {term}."
        case "leader-uncertain":
            level = "warning"
            text = (
                f"{holder} leads {scope} under term {term} and is late to renew: it stops "
                "commanding now if it keeps to its margin."
            )
        case "no-eligible-candidate":
            level = "error"
            text = f"Nobody leads {scope}, and nobody who reports may: its work stands still."
        case "handover-reconciling":
            level = "warning"
            text = (
                f"{holder} leads {scope} under term {term} and finds {uncertain} unfinished "
                "effects of earlier terms: they are not repeated until they are settled."
            )
        case _:
            pass
    facts = {
        "function": transition.function,
        "unit": transition.unit or None,
        "term": term,
        "holder": holder,
        "reason": transition.reason,
        "text": text or None,
        "next_action": transition.next_action,
        "responsible": transition.responsible or function.exceptions_owner or None,
        "reasons": (transition.detail or {}).get("reasons"),
        "transition": transition.id,
    }
    told = {name: fact for name, fact in facts.items() if fact is not None}
    getattr(log, level)(msg, **told)
