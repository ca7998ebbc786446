"""Units of work on a ledger under test: short ways to write to them as a leader and as workers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.core.fence import Callers, FunctionRules
from gateway.core.ids import Scope
from gateway.core.work import ItemState, manifest_digest
from gateway.store.records import Proposal
from gateway.store.work import (
    Abandoning,
    Checkpointing,
    Claiming,
    Completing,
    Creating,
    Reporting,
    WorkVerb,
)
from gateway.store.work_records import ItemRecord, Report, Speech, UnitPlan, UnitRecord, WorkAnswer
from tests.conformance.books import Books, proposal

TTL_MS = 60_000
OPEN_TO_CLAIMANTS = FunctionRules(callers=Callers.LEADER_OR_CLAIMANT, registered_units=True)


def plan(items: Iterable[str], **more: Any) -> UnitPlan:
    """Return a plan whose items carry their own name as data."""
    laid_out = [(item, json.dumps({"name": item})) for item in items]
    manifest = {"criteria_version": "3", "items": [{"id": item} for item, _ in laid_out]}
    return UnitPlan(
        manifest=json.dumps({"criteria_version": "3"}),
        digest=manifest_digest(manifest),
        items=laid_out,
        **more,
    )


def outcome(answer: WorkAnswer) -> str:
    """Return in one word what a write to a unit came to."""
    return "taken" if answer.refusal is None else answer.refusal.value


@dataclass
class Site:
    """One unit, the term that it is worked on under, and the rules of its function."""

    books: Books
    term: int = 7
    unit: str = "october"
    function: str = "report"
    rules: FunctionRules = OPEN_TO_CLAIMANTS
    per_unit: bool = False
    principal: str = "worker"

    @property
    def leader(self) -> str:
        return f"leader#{self.term}"

    def under(self, term: int) -> Site:
        """The same unit, as it is worked on under another term."""
        return replace(self, term=term)

    def speech(self, holder: str = "", **more: Any) -> Speech:
        fields: dict[str, Any] = {
            "scope": Scope(self.function, self.unit if self.per_unit else ""),
            "unit": self.unit,
            "term": self.term,
            "holder": holder or self.leader,
            "principal": self.principal,
            "rules": self.rules,
        }
        return Speech(**(fields | more))

    async def work(self, verb: WorkVerb) -> WorkAnswer:
        return await self.books.ledger.work(verb)

    # -- verbs, to be put into a batch

    def creating(self, items: Iterable[str] = "abc", **more: Any) -> Creating:
        return Creating(self.speech(**more), plan(items))

    def claiming(self, worker: str = "", limit: int = 10, ttl_ms: int = TTL_MS) -> Claiming:
        speech = self.speech(worker, leader_only=False)
        return Claiming(speech, worker or speech.holder, limit, ttl_ms)

    def reporting(
        self, worker: str, *reports: tuple[str, str, int], result: Any = None
    ) -> Reporting:
        """Each report is item, state and attempt."""
        text = None if result is None else json.dumps(result)
        return Reporting(
            self.speech(worker, leader_only=False, ends_work=True),
            [Report(item=i, state=ItemState(s), attempt=n, result=text) for i, s, n in reports],
        )

    def checkpointing(self, worker: str, item: str, version: int, data: Any) -> Checkpointing:
        speech = self.speech(worker, leader_only=False, ends_work=True)
        return Checkpointing(speech, item, version, json.dumps(data))

    def completing(self, digest: str | None = None, result: Any = None) -> Completing:
        text = None if result is None else json.dumps(result)
        return Completing(self.speech(), digest, text)

    # -- and done

    async def create(self, items: Iterable[str] = "abc", **more: Any) -> WorkAnswer:
        return await self.work(self.creating(items, **more))

    async def claim(self, worker: str = "", limit: int = 10, ttl_ms: int = TTL_MS) -> list[str]:
        answer = await self.work(self.claiming(worker, limit, ttl_ms))
        assert answer.refusal is None, answer
        return [item.item for item in answer.items]

    async def report(self, worker: str, *reports: tuple[str, str, int], **more: Any) -> WorkAnswer:
        return await self.work(self.reporting(worker, *reports, **more))

    async def checkpoint(self, worker: str, item: str, version: int, data: Any) -> WorkAnswer:
        return await self.work(self.checkpointing(worker, item, version, data))

    async def complete(self, digest: str | None = None, result: Any = None) -> WorkAnswer:
        return await self.work(self.completing(digest, result))

    async def abandon(self, reason: str = "closed", **more: Any) -> WorkAnswer:
        operator = more.pop("operator", False)
        speech = self.speech(**({"term": 0, "holder": " "} if operator else {}), **more)
        return await self.work(Abandoning(speech, reason, operator=operator))

    # -- effects of the unit

    def effect(self, key: str, item: str | None = None, holder: str = "", **more: Any) -> Proposal:
        """Return a write for an item of the unit; `covers` is the item's own thing."""
        asked = proposal(
            self.books.next_id(),
            key,
            term=self.term,
            holder=holder or self.leader,
            unit=self.unit,
            scope_unit=self.unit if self.per_unit else "",
            function=self.function,
            rules=self.rules,
            item=item,
            **({"covers": f"crm /{item}", "principal": self.principal} | more),
        )
        assert asked.attempt is not None
        asked.attempt.item = item
        return asked

    # -- what there is

    async def shown(self) -> UnitRecord:
        found = await (await self.books.ledger.reader()).unit(self.unit)
        assert found is not None
        return found

    async def items(self, **wanted: Any) -> list[ItemRecord]:
        reader = await self.books.ledger.reader()
        return [item for _, item in await reader.items(self.unit, **wanted)]

    async def states(self) -> dict[str, str]:
        return {item.item: item.state.value for item in await self.items()}

    async def kinds(self) -> Sequence[str]:
        found = await self.books.transitions()
        return [one.kind for one in found if one.unit == self.unit]
