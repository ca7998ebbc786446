"""The ledger as the house uses it, wherever it lives."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from gateway.clock import Clock
from gateway.core.effect import Outcome
from gateway.core.errors import StoreError
from gateway.core.ids import Scope
from gateway.core.lease import Ask
from gateway.store import upkeep
from gateway.store.bell import Bell
from gateway.store.candidates import Reporting, Withdrawing
from gateway.store.case_records import Act, CaseRecord, NotActed, OpenedProbe, Opening
from gateway.store.cases import Acting, Escalating, OpeningCase
from gateway.store.clock import Timekeeper
from gateway.store.database import Database
from gateway.store.hearing import Hearing
from gateway.store.homes import FileHome, Home
from gateway.store.lapses import LOOK_MS, Lapsed, lapse, next_look_ms
from gateway.store.lease_records import (
    CandidateRecord,
    CandidateReport,
    FunctionTerms,
    LeaseAnswer,
)
from gateway.store.leases import (
    Acquiring,
    HandingOff,
    LeaseVerb,
    Releasing,
    Renewing,
    SteppingDown,
)
from gateway.store.operations import Admission
from gateway.store.probes import ClosingProbe, Concluding, OpeningProbe, PuttingOff, Resending
from gateway.store.queries import Reader
from gateway.store.records import Proposal, Resolution, Ruling, Settled, Settlement, Unresolved
from gateway.store.risks import Risk
from gateway.store.settling import Settling, StreamEnd
from gateway.store.upkeep import Forgotten, Identity, Kept
from gateway.store.wanted import Wanted
from gateway.store.watch import Restored, Watch
from gateway.store.work import WorkVerb
from gateway.store.work_records import WorkAnswer
from gateway.store.writer import Observer, Writer

_KEPT_FILES: Final = "SELECT request_file FROM attempt WHERE request_file IS NOT NULL"


class Ledger:
    """Durable record of terms and effects. Every coroutine returns after its commit.

    Raises LedgerUnavailable where nothing was recorded (disk full, read-only, gone).
    """

    def __init__(
        self,
        home: Home,
        writer: Writer,
        clock: Timekeeper,
        instance: str,
        bell: Bell,
        watch: Watch | None = None,
        version: str = "",
    ) -> None:
        self.clock = clock
        self.instance = instance
        self._home = home
        self._writer = writer
        self._watch = watch or Watch()
        self._version = version
        self.bell = bell
        self._due_at_ms: int | None = 0
        self._vacant: frozenset[Scope] = frozenset()
        self._hearing: Hearing | None = None
        self._keeps_until_ms = 0
        self._reader: Reader | None = None
        self._reader_opening = asyncio.Lock()

    @classmethod
    async def open(
        cls, path: Path, clock: Clock, *, version: str = "", observer: Observer | None = None
    ) -> Ledger:
        """Open (or make) the ledger at `path`: a file that this process has to itself."""
        return await cls.open_at(FileHome(path), clock, version=version, observer=observer)

    @classmethod
    async def open_at(
        cls,
        home: Home,
        clock: Clock,
        *,
        version: str = "",
        observer: Observer | None = None,
        witness: Path | None = None,
    ) -> Ledger:
        """Open (or make) the ledger that lives there, bring its schema up to date, and turn what
        an earlier run left in flight into unknown effects.

        One that is older than its `witness` is opened too, and takes no writes until it is
        recovered. Raises StoreError for a damaged witness.
        """
        store_clock = await asyncio.to_thread(home.prepare, clock)
        if home.newer and observer is not None:
            observer.ledger_is_newer(home.newer)
        watch = Watch(witness)
        try:
            watch.begin()
        except BaseException:
            home.release()
            raise
        instance = secrets.token_hex(8)
        bell = Bell()
        writer = Writer(
            home.connect, store_clock, instance, observer, before_commit=home.check, bell=bell,
            watch=watch,
        )  # fmt: skip
        here = partial(upkeep.start_instance, instance=instance, version=version)
        start = partial(_start, instance=instance, jump_ms=store_clock.jump_ms)
        try:
            await writer.run(here, always=True)
            with contextlib.suppress(Restored):  # what is open in it is for the recovery to settle
                await writer.run(start)
        except BaseException:
            await writer.close()
            home.release()
            watch.release()
            raise
        ledger = cls(home, writer, store_clock, instance, bell, watch, version)
        try:
            ledger._hearing = home.hear(instance, ledger._heard)
            if ledger._hearing is not None:
                await ledger._hearing.began.wait()
            await ledger.beat()
        except BaseException:
            await ledger.close()
            raise
        return ledger

    def _heard(self, scopes: Collection[Scope] | None) -> None:
        """Another gateway has written something, or it is not known whether one has."""
        if scopes is None:
            self.bell.ring_all()
        else:
            self.bell.ring(scopes)
        self._due_by(self.clock.now_ms())

    @property
    def older_because(self) -> str | None:
        """Why the ledger is known to be older than it was; None if it is not."""
        return self._watch.refusal

    async def close(self) -> None:
        if self._hearing is not None:
            await self._hearing.close()
        self._keeps_until_ms = 0
        with contextlib.suppress(StoreError):
            await self._writer.look(partial(upkeep.beat, instance=self.instance, stopped=True))
        if self._reader is not None:
            await self._reader.close()
        await self._writer.close()
        self._home.release()
        self._watch.release()

    # -- the data plane

    async def admit(self, proposal: Proposal) -> Ruling:
        """Decide `proposal` and record the decision. An admitted one must now be sent."""
        ruling: Ruling = await self._writer.submit(Admission(proposal))
        return ruling

    async def settle(self, settlement: Settlement) -> Settled:
        """Record what came of an attempt, whoever leads by now."""
        settled: Settled = await self._writer.submit(Settling(settlement))
        return settled

    async def end_stream(self, end: StreamEnd) -> None:
        await self._writer.submit(end)

    # -- leadership

    async def acquire(
        self,
        scope: Scope,
        ask: Ask,
        *,
        supersede: bool,
        report: CandidateReport | None,
        terms: FunctionTerms,
    ) -> LeaseAnswer:
        """Ask for leadership of `scope`; what a candidate reports of itself comes along."""
        return await self._verb(Acquiring(scope, ask, supersede, report, terms))

    async def renew(self, scope: Scope, ask: Ask, terms: FunctionTerms) -> LeaseAnswer:
        return await self._verb(Renewing(scope, ask, terms))

    async def release(self, scope: Scope, ask: Ask, terms: FunctionTerms) -> LeaseAnswer:
        return await self._verb(Releasing(scope, ask, terms))

    async def step_down(
        self, scope: Scope, ask: Ask, drain_ms: int, terms: FunctionTerms
    ) -> LeaseAnswer:
        return await self._verb(SteppingDown(scope, ask, drain_ms, terms))

    async def hand_off(self, scope: Scope, ask: Ask, to: str, terms: FunctionTerms) -> LeaseAnswer:
        return await self._verb(HandingOff(scope, ask, to, terms))

    async def report(
        self, function: str, holder: str, principal: str, report: CandidateReport
    ) -> CandidateRecord:
        """Note a candidate's report. If the holder's name is another principal's, nothing
        changes and that one's record is returned."""
        record: CandidateRecord = await self._writer.submit(
            Reporting(function, holder, principal, report)
        )
        self._due_by(self.clock.now_ms() + LOOK_MS)
        return record

    async def withdraw(self, function: str, holder: str, principal: str) -> bool:
        gone: bool = await self._writer.submit(Withdrawing(function, holder, principal))
        return gone

    async def lapse(self, terms: Mapping[str, FunctionTerms]) -> list[Lapsed]:
        """Record what time has done to leases, and which scopes nobody can lead."""
        turn = partial(lapse, instance=self.instance, terms=terms, known_vacant=self._vacant)
        was_due_at_ms, self._due_at_ms = self._due_at_ms, None
        try:
            found, due_at_ms, self._vacant = await self._writer.run(turn)
        except BaseException:
            self._due_by(was_due_at_ms)  # the next turn does what this one could not
            raise
        self._due_by(due_at_ms)
        self.bell.ring([one.record.scope for one in found])
        return found

    def due_at_ms(self) -> int | None:
        """Return when `lapse` may have something to do, in the store's time; None is never."""
        return self._due_at_ms

    def _due_by(self, at_ms: int | None) -> None:
        if at_ms is not None:
            self._due_at_ms = at_ms if self._due_at_ms is None else min(self._due_at_ms, at_ms)

    async def _verb(self, operation: LeaseVerb) -> LeaseAnswer:
        answer: LeaseAnswer = await self._writer.submit(operation)
        self._due_by(next_look_ms(answer.record, operation.terms))
        return answer

    # -- units of work

    async def work(self, verb: WorkVerb) -> WorkAnswer:
        """Write to a unit of work, if the fence lets its speaker."""
        answer: WorkAnswer = await self._writer.submit(verb)
        return answer

    # -- reconciliation and exceptions

    async def open_probe(self, effect_id: str, version: int) -> OpenedProbe | None:
        """Write down that the destination is asked about an effect; None if it may not be."""
        opened: OpenedProbe | None = await self._writer.submit(OpeningProbe(effect_id, version))
        return opened

    async def close_probe(self, closing: ClosingProbe) -> Outcome | None:
        """Write down what a probe found; return the effect's outcome after it."""
        outcome: Outcome | None = await self._writer.submit(closing)
        return outcome

    async def conclude(self, concluding: Concluding) -> bool:
        """Settle an effect as not having happened, if all that this rests on still stands."""
        taken: bool = await self._writer.submit(concluding)
        return taken

    async def resend(self, resending: Resending) -> Ruling | None:
        """Admit an effect's next attempt in the gateway's name; None if it must not be sent."""
        ruling: Ruling | None = await self._writer.submit(resending)
        return ruling

    async def put_off(self, effect_id: str, due_in_ms: int, note: str) -> None:
        await self._writer.submit(PuttingOff(effect_id, due_in_ms, note))

    async def open_case(self, opening: Opening) -> CaseRecord:
        """Open an exception; the one that is open already for its effect, if there is one."""
        case: CaseRecord = await self._writer.submit(OpeningCase(opening))
        return case

    async def act(self, act: Act, effect_id: str | None) -> NotActed | None:
        """Take a person's act on an exception, or say why it is not taken."""
        refusal: NotActed | None = await self._writer.submit(Acting(act, effect_id))
        return refusal

    async def escalate(self) -> list[CaseRecord]:
        """Write down which exceptions are newly overdue."""
        overdue: list[CaseRecord] = await self._writer.submit(Escalating())
        return overdue

    async def alert_sent(self, seq: int, error: str | None, again_in_ms: int) -> None:
        """Note how sending an alert went: delivered, or to be sent again."""
        turn = partial(upkeep.alert_sent, seq=seq, error=error, again_in_ms=again_in_ms)
        await self._writer.run(turn, forgets=False)

    # -- the control plane

    async def resolve(self, resolution: Resolution) -> Unresolved | None:
        refusal = await self._writer.run(
            partial(upkeep.resolve, instance=self.instance, given=resolution)
        )
        self.bell.ring_all()
        return refusal

    async def adopt(
        self,
        identities: list[Identity],
        digests: Mapping[str, str],
        *,
        texts: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> list[str]:
        """Record the policies in force; return why they cannot be, if they cannot."""
        return await self._writer.run(
            partial(
                upkeep.adopt, identities=identities, digests=digests, texts=texts or {}, force=force
            ),
            always=True,
        )

    async def strand(self) -> int:
        count = await self._writer.run(partial(upkeep.strand, instance=self.instance))
        if count:
            self.bell.ring_all()
        return count

    async def beat(self) -> None:
        kept = self.is_keeper
        turn = partial(upkeep.beat, instance=self.instance, version=self._version)
        self._keeps_until_ms = await self._writer.look(turn)
        if self.is_keeper and not kept:
            self._due_by(self.clock.now_ms())  # the last keeper may have left something

    @property
    def is_keeper(self) -> bool:
        """Whether this gateway does now what is to be done once for all gateways on the ledger.

        Only to spare work: whatever it does is decided again in the transaction that does it.
        """
        return self.clock.now_ms() < self._keeps_until_ms

    async def forget(self, kept: Kept) -> Forgotten:
        return await self._writer.run(partial(upkeep.forget, kept=kept))

    async def kept_files(self) -> set[str]:
        """Return the spooled requests that effects still need."""
        found = await (await self.reader()).source.rows(_KEPT_FILES, ())  # long, beside the writer
        return {name for (name,) in found}

    async def risks(self) -> list[Risk]:
        """Return how what is committed here may be lost."""
        return await self._home.risks((await self.reader()).source)

    async def reader(self) -> Reader:
        async with self._reader_opening:
            if self._reader is None:
                self._reader = Reader(await self._home.source())
            return self._reader


def _start(db: Database, now_ms: int, instance: str, jump_ms: int) -> int:
    if jump_ms:
        db.lock(Wanted(alone=True))
        upkeep.hold_seals(db, now_ms, jump_ms)
    return upkeep.strand(db, now_ms, instance)
