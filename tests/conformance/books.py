"""A ledger under test, and the short ways to write in it and to read what it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.clock import ManualClock
from gateway.core.candidates import Eligibility
from gateway.core.effect import Fingerprint, Outcome
from gateway.core.fence import (
    Admit,
    Attempt,
    Authority,
    FunctionRules,
    OnDuplicate,
    Refuse,
    Replay,
    Wait,
)
from gateway.core.ids import EffectKey, Scope
from gateway.core.lease import Ask, Granted, Lease, LeaseRules, Turned
from gateway.store.lapses import LOOK_MS, Lapsed
from gateway.store.lease_records import (
    CandidateRecord,
    CandidateReport,
    FunctionTerms,
    LeaseAnswer,
    LeaseRecord,
    TransitionFilter,
    TransitionRecord,
)
from gateway.store.ledger import Ledger
from gateway.store.records import (
    AnswerState,
    EffectRecord,
    Proposal,
    Resolution,
    Ruling,
    Settled,
    Settlement,
    StoredAnswer,
    Unresolved,
)
from tests.conformance.shelves import FileShelf, Shelf

TIMEOUT_MS = 5_000
SETTLE_MS = 2_000
SEAL_MS = TIMEOUT_MS + SETTLE_MS

RULES = LeaseRules()
TERMS = FunctionTerms(rules=RULES, eligible=Eligibility(), owner="ops-comercial")
LEASED = FunctionRules(authority=Authority.LEASE)


class BootClock(ManualClock):
    """A clock whose machine can be started anew."""

    def __init__(self, wall_ms: int = 1_790_000_000_000) -> None:
        super().__init__(wall_ms)
        self._boots = 1

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    def reboot(self) -> None:
        self._boots += 1
        self._boot_s = 3.0


def fingerprint(body: str) -> Fingerprint:
    return Fingerprint(1, body.encode())


def proposal(
    effect_id: str,
    key: str = "k-1",
    *,
    term: int = 7,
    holder: str | None = None,
    body: str = "the request",
    covers: str = "crm /notes",
    function: str = "report",
    unit: str = "",
    scope_unit: str = "",
    destination: str = "crm",
    on_duplicate: OnDuplicate = OnDuplicate.REPLAY,
    rules: FunctionRules | None = None,
    max_attempts: int = 20,
    **more: Any,
) -> Proposal:
    """Return a proposal; `more` are fields of Proposal itself. The holder goes with the term."""
    attempt = Attempt(
        key=EffectKey(destination, function, unit, key),
        scope=Scope(function, scope_unit),
        term=term,
        holder=holder or f"leader#{term}",
        fingerprint=fingerprint(body),
        covers=covers,
        rules=rules or FunctionRules(),
        on_duplicate=on_duplicate,
        max_attempts=max_attempts,
    )
    fields: dict[str, Any] = {
        "attempt": attempt,
        "principal": "worker",
        "method": "POST",
        "target": "/notes",
        "policy_digest": "digest",
        "timeout_ms": TIMEOUT_MS,
        "settle_ms": SETTLE_MS,
        "request_head": '[["A","b"]]',
        "request_body": body.encode(),
    }
    return Proposal(effect_id=effect_id, destination=destination, covers=covers, **(fields | more))


def unfenced(effect_id: str, **more: Any) -> Proposal:
    """Return a write without a fence, as observe mode lets it through."""
    fields: dict[str, Any] = {"attempt": None, "observe": True, "observed_reason": "fence-missing"}
    return proposal(effect_id, **(fields | more))


def answer(
    body: bytes | None = b'{"id": 1}', *, status: int = 201, state: str = "complete"
) -> StoredAnswer:
    headers = (("Content-Type", "application/json"), ("X-Two", "a"), ("X-Two", "b"))
    return StoredAnswer(status, headers, body, b"digest", len(body or b""), AnswerState(state))


def settlement(effect_id: str, outcome: Outcome, n: int = 1, **more: Any) -> Settlement:
    fields: dict[str, Any] = {"reason": f"said-{outcome}"}
    return Settlement(effect_id=effect_id, n=n, outcome=outcome, **(fields | more))


def verdict(ruling: Ruling) -> str:
    """Return in one word what was decided."""
    match ruling.decision:
        case Refuse(reason):
            return reason.value
        case Wait():
            return "wait"
        case Replay():
            return "replay"
        case Admit():
            return "admit" if ruling.n is not None else "would-admit"
        case _:
            return "observed"


def came_to(answer: LeaseAnswer) -> str:
    """Return in a few words what a verb of leadership came to."""
    if isinstance(answer.answer, Turned):
        return answer.answer.reason.value
    lease = answer.answer.lease
    return f"{type(answer.answer).__name__.lower()} {lease.term} of {lease.holder}"


def by(lease: Lease) -> dict[str, Any]:
    """Return how whoever holds `lease` says so in a proposal."""
    return {
        "term": lease.term,
        "holder": lease.holder,
        "rules": LEASED,
        "principal": lease.principal,
    }


def worker_of(holder: str, term: int = 0, **more: Any) -> Ask:
    """Return the ask of a holder, whose principal goes by its worker's name."""
    fields: dict[str, Any] = {"principal": holder.partition("#")[0]}
    return Ask(holder=holder, term=term, **(fields | more))


class Watcher:
    """Notes how the writer fared."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.up: list[tuple[bool, str | None]] = []
        self.newer: tuple[int, ...] = ()

    def batch_done(self, operations: int, transaction_s: float, waited_s: float) -> None:
        self.batches.append(operations)

    def ledger_is(self, up: bool, error: str | None) -> None:
        self.up.append((up, error))

    def ledger_is_newer(self, migrations: Sequence[int]) -> None:
        self.newer = tuple(migrations)


@dataclass
class Books:
    """An open ledger with the clock that it goes by."""

    shelf: Shelf
    clock: BootClock
    ledger: Ledger
    watcher: Watcher = field(default_factory=Watcher)
    born: int = 0

    @classmethod
    async def open(cls, path: Path, clock: BootClock | None = None) -> Books:
        return await cls.open_at(FileShelf(path), clock)

    @classmethod
    async def open_at(cls, shelf: Shelf, clock: BootClock | None = None) -> Books:
        clock = clock or BootClock()
        watcher = Watcher()
        ledger = await Ledger.open_at(shelf.home(), clock, observer=watcher)
        return cls(shelf, clock, ledger, watcher)

    @property
    def path(self) -> Path:
        assert isinstance(self.shelf, FileShelf)
        return self.shelf.path

    async def close(self) -> None:
        await self.ledger.close()
        self.shelf.close()

    async def reopen(self, *, reboot: bool = False, step_wall_s: float = 0) -> None:
        """Close the ledger and open it as the next run of the gateway does."""
        await self.ledger.close()
        self.clock.step_wall(seconds=step_wall_s)
        if reboot:
            self.clock.reboot()
        self.ledger = await Ledger.open_at(self.shelf.home(), self.clock, observer=self.watcher)

    def next_id(self) -> str:
        self.born += 1
        return f"e-{self.born:03}"

    async def admit(self, key: str = "k-1", **changes: Any) -> Ruling:
        return await self.ledger.admit(proposal(self.next_id(), key, **changes))

    async def admitted(self, key: str = "k-1", **changes: Any) -> str:
        """Admit a write that must be admitted; return its effect's id."""
        ruling = await self.admit(key, **changes)
        assert ruling.n is not None, verdict(ruling)
        return ruling.effect_id

    async def ask(self, key: str = "k-1", **changes: Any) -> str:
        return verdict(await self.admit(key, **changes))

    async def settle(self, effect_id: str, outcome: Outcome, n: int = 1, **more: Any) -> Settled:
        return await self.ledger.settle(settlement(effect_id, outcome, n, **more))

    async def settled(self, outcome: Outcome, key: str = "k-1", **changes: Any) -> str:
        """Admit a write and settle it; return its effect's id."""
        ruling = await self.admit(key, **changes)
        assert ruling.n is not None, verdict(ruling)
        kept = answer() if outcome is Outcome.CONFIRMED else None
        await self.settle(ruling.effect_id, outcome, ruling.n, answer=kept)
        return ruling.effect_id

    async def resolve(
        self, effect_id: str, outcome: Outcome, version: int | None = None
    ) -> Unresolved | None:
        return await self.ledger.resolve(
            Resolution(effect_id, outcome, "looked it up", "operator", version)
        )

    async def together(self, *work: Any) -> list[Any]:
        """Run coroutines of the ledger in one batch. The first to be queued goes alone, so a
        heartbeat goes ahead of them."""
        results = await asyncio.gather(self.ledger.beat(), *work, return_exceptions=True)
        return results[1:]

    async def effect(self, effect_id: str) -> EffectRecord:
        found = await (await self.ledger.reader()).effect(effect_id)
        assert found is not None
        return found

    def rows(self, text: str, *parameters: Any) -> list[Sequence[Any]]:
        """Read what is committed, beside the writer."""
        return self.shelf.rows(text, parameters)

    def handovers(self) -> list[tuple[int, int, list[str]]]:
        """Return each handover: its term, the one before, and the effects it lists."""
        found = self.rows("SELECT term, previous_term, effects FROM handover ORDER BY term")
        return [(term, previous, json.loads(effects)) for term, previous, effects in found]

    def scope(self, function: str = "report", unit: str = "") -> tuple[int, str] | None:
        found = self.rows(
            "SELECT highest_term, holder FROM scope WHERE function = ? AND unit = ?", function, unit
        )
        return found[0] if found else None

    # -- leadership

    async def acquire(
        self,
        holder: str,
        *,
        unit: str = "",
        supersede: bool = False,
        report: CandidateReport | None = None,
        terms: FunctionTerms = TERMS,
        **more: Any,
    ) -> LeaseAnswer:
        return await self.ledger.acquire(
            Scope("report", unit),
            worker_of(holder, **more),
            supersede=supersede,
            report=report,
            terms=terms,
        )

    async def leads(self, holder: str, **more: Any) -> Lease:
        """Acquire a lease that must be granted; return it."""
        answer = await self.acquire(holder, **more)
        assert isinstance(answer.answer, Granted), came_to(answer)
        return answer.answer.lease

    async def renew(self, holder: str, term: int, unit: str = "", **more: Any) -> LeaseAnswer:
        return await self.ledger.renew(
            Scope("report", unit), worker_of(holder, term, **more), TERMS
        )

    async def release(self, holder: str, term: int, unit: str = "", **more: Any) -> LeaseAnswer:
        return await self.ledger.release(
            Scope("report", unit), worker_of(holder, term, **more), TERMS
        )

    async def step_down(
        self, holder: str, term: int, drain_ms: int = 10_000, unit: str = "", **more: Any
    ) -> LeaseAnswer:
        ask = worker_of(holder, term, **more)
        return await self.ledger.step_down(Scope("report", unit), ask, drain_ms, TERMS)

    async def hand_off(
        self, holder: str, term: int, to: str, unit: str = "", **more: Any
    ) -> LeaseAnswer:
        ask = worker_of(holder, term, **more)
        return await self.ledger.hand_off(Scope("report", unit), ask, to, TERMS)

    async def report(self, holder: str, principal: str = "", **more: Any) -> CandidateRecord:
        name = principal or holder.partition("#")[0]
        return await self.ledger.report("report", holder, name, CandidateReport(**more))

    async def lapse(self, terms: FunctionTerms = TERMS) -> list[Lapsed]:
        return await self.ledger.lapse({"report": terms})

    def looks_at(self, at_ms: int | None) -> bool:
        """Whether the keeper looks again at this instant. Where another gateway may have granted
        something, it looks once a second in any case."""
        due_at_ms = self.ledger.due_at_ms()
        if isinstance(self.shelf, FileShelf):
            return due_at_ms == at_ms
        bound_ms = self.ledger.clock.now_ms() + LOOK_MS
        return due_at_ms == (bound_ms if at_ms is None else min(at_ms, bound_ms))

    async def lease(self, unit: str = "") -> LeaseRecord:
        """Return a scope's leadership as it is on disk."""
        reader = await self.ledger.reader()
        return await reader.lease(Scope("report", unit), self.ledger.clock.now_ms())

    async def transitions(self, kind: str | None = None) -> list[TransitionRecord]:
        found = await (await self.ledger.reader()).transitions(TransitionFilter(limit=1000))
        return [one for one in found if kind in (None, one.kind)]
