"""What a history of reconciliation has at hand: the ledger, the destination, and the steps of the
reconciler taken by hand, so that other things may happen between any two of them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from gateway.core import reconcile
from gateway.core.effect import Outcome
from gateway.core.probe import Failed, Finding, Missing
from gateway.core.reconcile import next_step
from gateway.proxy.unsettled import Leader, case_of
from gateway.store.case_records import OpenedProbe, Opening, UnknownEffect
from gateway.store.probes import ClosingProbe, Concluding, Resending
from gateway.store.records import Proposal, Ruling
from tests.conformance.books import SEAL_MS, TIMEOUT_MS, Books, proposal
from tests.simulation.destination import Fate, hold
from tests.simulation.reconcile_destination import (
    LAG_MS,
    ROUTES,
    SHARED,
    Destination,
    Sent,
)
from tests.simulation.reconcile_watch import ReconcileWatch
from tests.simulation.watch import check_raises

T = TypeVar("T")
IN_MEMORY = Path("/dev/shm")
"""What is asked here is what stands in the file, not whether a disk keeps it."""
CONFLICT = "not applied, and answered with 4xx while an earlier attempt travels"
ROUNDS_MAX = 80
SEND_BUDGET_MS = 1_000
"""How old what is known may be when a resend is admitted; a paused reconciler decides again."""


@dataclass
class Decided:
    """A step that has been decided, and what was known then."""

    effect: UnknownEffect
    step: reconcile.Step
    leader: Leader | None
    now_ms: int


@dataclass
class Asked:
    """A probe that is on its way."""

    effect: UnknownEffect
    opened: OpenedProbe
    finding: Finding


class ReconcileStage(RuleBasedStateMachine):
    """The state of one history, and how each thing goes; the rules are in reconcile_machine."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        place = str(IN_MEMORY) if IN_MEMORY.is_dir() else None
        self.folder = tempfile.TemporaryDirectory(dir=place)
        self.books: Books = self.do(Books.open(Path(self.folder.name) / "ledger.db"))
        self.destination = Destination()
        self.watch = ReconcileWatch(self.books.path, self.destination)
        self.true_ms = 0
        self.terms = [1]
        self.leaderless = False
        self.kinds = ["create"]
        self.wanted: dict[str, Sent] = {}  # the first attempt of each effect
        self.giving_up: list[tuple[int, Sent]] = []
        self.slow: list[tuple[Sent, Outcome]] = []
        self.decided: list[Decided] = []
        self.asked: list[Asked] = []
        self.blinded = False

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @property
    def now_ms(self) -> int:
        return self.books.ledger.clock.now_ms()

    # -- how it goes

    def send(self, kind: str, number: int, fate: Fate, place: int) -> Sent | None:
        """Ask for admission of a write, and send if there is one."""
        thing = f"{kind}-{'ab'[number % 2]}" if kind in SHARED else f"{kind}-{number}"
        before = self.watch.look()
        term = self.terms[-1]
        ruling = self.do(self.books.ledger.admit(self.proposal(kind, number, thing, term)))
        after = self.watch.read()
        raised = {term: before.unfinished(term)} if before.highest_term < term else {}
        check_raises(before, after, raised)
        if ruling.n is None:
            return None
        condition = self.destination.record(thing).version
        sent = self.as_sent(ruling, kind, f"{kind}-{number}", thing, term, condition)
        self.wanted[sent.effect_id] = sent
        self.meet(sent, fate, place)
        self.watch.look()
        return sent

    def proposal(self, kind: str, number: int, thing: str, term: int) -> Proposal:
        key = f"{kind}-{number}"
        return proposal(
            self.books.next_id(), key, term=term, covers=thing, body=key, route=kind,
        )  # fmt: skip

    def as_sent(
        self, ruling: Ruling, kind: str, key: str, thing: str, term: int, condition: int
    ) -> Sent:
        assert ruling.n is not None
        seal_at_ms = self.true_ms + SEAL_MS
        return Sent(ruling.effect_id, ruling.n, kind, key, thing, term, seal_at_ms, condition)

    def meet(self, sent: Sent, fate: Fate, place: int) -> None:
        """Let the request meet its fate."""
        give_up_ms = self.true_ms if place % 2 else self.true_ms + TIMEOUT_MS
        if sent.n > 1 and place % 5 == 0:
            self.settle(sent, Outcome.REJECTED)  # for it is busy with the first one
            return
        if self.destination.busy(sent):
            self.settle(sent, Outcome.UNKNOWN)
            return
        match fate:
            case Fate.REJECTED:
                self.settle(sent, Outcome.REJECTED)
                return
            case Fate.TURNED_AWAY:
                self.settle(sent, Outcome.NO_EFFECT)
                return
            case Fate.LATE:
                arrives = self.true_ms + 1 + place % SEAL_MS
                self.destination.on_the_wire.append((min(arrives, sent.seal_at_ms), sent))
            case Fate.ANSWERED | Fate.ANSWER_LOST | Fate.FAILED | Fate.SLOW:
                said = self.destination.take(sent, self.true_ms, place % LAG_MS if place else 0)
                if fate is Fate.ANSWERED:
                    self.settle(sent, said)
                    return
                if fate is Fate.FAILED:
                    give_up_ms = self.true_ms
                if fate is Fate.SLOW:
                    self.slow.append((sent, said))
        self.giving_up.append((give_up_ms, sent))

    def settle(self, sent: Sent, outcome: Outcome) -> None:
        by_key = ROUTES[sent.kind].native_key is not None and outcome is Outcome.CONFIRMED
        self.do(self.books.settle(sent.effect_id, outcome, sent.n, for_all=by_key))

    # -- the reconciler

    def unknown(self) -> list[str]:
        cases = self.watch.open_cases()
        return [
            effect_id
            for effect_id, (outcome, _) in self.watch.read().effects.items()
            if outcome is Outcome.UNKNOWN and effect_id not in cases
        ]

    def decide(self, effect_id: str) -> Decided | None:
        effect = self.do(self.watch.unknown(effect_id))
        if effect is None:
            return None
        leader = None
        if not self.leaderless and effect.holder is not None:
            leader = Leader(effect.highest_term, effect.holder)
        now_ms = self.now_ms
        step = next_step(case_of(effect, ROUTES[effect.route or ""], now_ms, leader))
        return Decided(effect, step, leader, now_ms)

    def take(self, one: Decided, fate: Fate, place: int) -> bool:
        """Take a step that was decided; return whether another may follow at once."""
        effect = one.effect
        ledger = self.books.ledger
        again = False
        match one.step:
            case reconcile.Probe(not_before_ms) if not_before_ms <= one.now_ms:
                opened = self.do(ledger.open_probe(effect.id, effect.version))
                if opened is not None:
                    self.asked.append(Asked(effect, opened, self.find(effect)))
                    again = True
            case reconcile.Probe(at_ms) | reconcile.WaitUntil(at_ms):
                self.do(ledger.put_off(effect.id, max(at_ms - one.now_ms, 1), "waiting"))
            case reconcile.Resend():
                again = self.resend(one, None, fate, place)
            case reconcile.Settle() as settle if settle.outcome is Outcome.NO_EFFECT:
                concluding = Concluding(
                    effect.id, effect.version, settle.probes[0].term,
                    tuple(probe.n for probe in settle.probes), settle.probes[0].started_at_ms,
                )  # fmt: skip
                if settle.resend:
                    again = self.resend(one, concluding, fate, place)
                else:
                    self.do(ledger.conclude(concluding))
            case reconcile.OpenException(reason):
                self.do(ledger.open_case(opening(effect, reason.value)))
        self.watch.look()
        return again

    def resend(self, one: Decided, after: Concluding | None, fate: Fate, place: int) -> bool:
        effect, leader, first = one.effect, one.leader, self.wanted[one.effect.id]
        assert leader is not None
        if self.now_ms > one.now_ms + SEND_BUDGET_MS:
            return False
        asked = self.proposal(first.kind, int(first.key.split("-")[-1]), first.thing, leader.term)
        assert asked.attempt is not None
        asked.attempt.resend, asked.attempt.holder = True, leader.holder
        highest = self.watch.read().highest_term
        ruling = self.do(
            self.books.ledger.resend(Resending(asked, effect.id, effect.version, after))
        )
        if ruling is None or ruling.n is None:
            return False
        hold("I4", leader.term == highest, f"{effect.id} is sent again under {leader.term}")
        self.may_be_sent(one, ruling)
        sent = self.as_sent(
            ruling, first.kind, first.key, first.thing, leader.term, first.condition
        )  # fmt: skip
        self.meet(sent, fate, place)
        return True

    def may_be_sent(self, one: Decided, ruling: Ruling) -> None:
        """Nothing is sent again that somebody has written over."""
        later = self.watch.written_since(one.effect.id)
        hold("superseded", not later, f"{one.effect.id}/{ruling.n} is sent again over {later}")

    def find(self, effect: UnknownEffect) -> Finding:
        first = self.wanted[effect.id]
        return self.destination.find(
            effect.id, first.kind, first.thing, first.condition, self.true_ms
        )

    def answer(self, one: Asked, finding: Finding | None) -> None:
        finding = Failed("no answer") if finding is None else finding
        closing = ClosingProbe(
            effect_id=one.effect.id,
            n=one.opened.n,
            verdict=finding.verdict,
            status=None,
            evidence="{}",
            moved=finding.moved if isinstance(finding, Missing) else None,
        )
        self.do(self.books.ledger.close_probe(closing))
        self.watch.look()

    def answer_all(self) -> None:
        while self.asked:
            one = self.asked.pop()
            self.answer(one, self.find(one.effect))

    def work_off(self, effect_id: str) -> None:
        for _ in range(6):
            one = self.decide(effect_id)
            if one is None or not self.take(one, Fate.ANSWERED, 1):
                return
            self.answer_all()


def opening(effect: UnknownEffect, reason: str) -> Opening:
    return Opening(
        effect_id=effect.id, scope=effect.scope, unit=effect.unit, item=effect.item,
        destination=effect.destination, term=effect.attempts[-1].term, reason=reason,
        detail="Nobody knows.", owner="ops", deadline_ms=1,
    )  # fmt: skip
