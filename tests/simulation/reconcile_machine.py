"""Unknown effects among leaders, crashes and destinations of every kind.

A state machine over the real decision (`next_step`) and the real SQLite ledger. What the
reconciler decides is done at once or only after other things have happened; questions are
answered late or never; writes arrive late, twice and out of order. Time is the test's own.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

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
from tests.simulation.machine import start, stop
from tests.simulation.reconcile_destination import (
    BLIND_MS,
    LAG_MS,
    ROUTES,
    SHARED,
    TELLING,
    WINDOW_MS,
    Destination,
    Sent,
)
from tests.simulation.reconcile_watch import ReconcileWatch
from tests.simulation.watch import check_raises

T = TypeVar("T")
IN_MEMORY = Path("/dev/shm")
"""What is asked here is what stands in the file, not whether a disk keeps it."""
CONFLICT = "not applied, and answered with 4xx while an earlier attempt travels"
ROUNDS_MAX = 400

kinds = st.sampled_from(sorted(ROUTES))
numbers = st.integers(1, 3)
fates = st.sampled_from(
    [Fate.ANSWER_LOST, Fate.LATE, Fate.LATE, Fate.VANISHED, Fate.FAILED, Fate.SLOW, Fate.ANSWERED]
    + [Fate.REJECTED, Fate.TURNED_AWAY]
)
pauses = st.sampled_from([10, 500, 1_000, LAG_MS, TIMEOUT_MS, SEAL_MS, SEAL_MS + LAG_MS, WINDOW_MS])
places = st.integers(0, 10 * SEAL_MS)


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


class Reconciling(RuleBasedStateMachine):
    """Rules are what may happen; `look` after each of them checks what must hold."""

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

    # -- what leaders do

    @initialize(kinds=st.lists(kinds, min_size=1, max_size=2), deaf=st.integers(0, 7))
    def few_kinds_at_a_time(self, kinds: list[str], deaf: int) -> None:
        """A history about everything is a history about nothing."""
        self.kinds = kinds
        self.destination.deaf = frozenset(kinds[:1] if deaf == 0 else ())

    @rule(number=numbers, fate=fates, place=places)
    def the_leader_sends(self, number: int, fate: Fate, place: int) -> None:
        self.send(self.kinds[place % len(self.kinds)], number, fate, place // 2)

    @rule(fate=fates, place=places)
    def the_leader_sends_something_new(self, fate: Fate, place: int) -> None:
        number = len(self.wanted) + 10
        self.send(self.kinds[place % len(self.kinds)], number, fate, place // 2)

    @rule(thing=numbers, fates=st.tuples(fates, fates), place=places)
    def the_leader_sends_one_after_the_other(
        self, thing: int, fates: tuple[Fate, Fate], place: int
    ) -> None:
        for n, fate in enumerate(fates):
            number = (len(self.wanted) + 10) * 2 + thing % 2
            self.send(self.kinds[0], number, fate, place >> n)

    @rule(number=numbers, place=places)
    def a_new_leader_takes_over_and_writes(self, number: int, place: int) -> None:
        """The first thing it does is to write where its predecessor wrote."""
        self.terms.append(self.terms[-1] + 1)
        self.send(self.kinds[place % len(self.kinds)], number, Fate.ANSWERED, place)

    @rule()
    def leadership_comes_or_goes(self) -> None:
        self.leaderless = not self.leaderless

    @rule(thing=st.sampled_from(["version-a", "condition-a"]))
    def somebody_else_changes_a_record(self, thing: str) -> None:
        self.destination.record(thing).version += 1

    # -- what happens to what was sent

    @rule(ms=pauses)
    def time_passes(self, ms: int) -> None:
        """Let time pass, and in its order: arrivals at the destination, and giving up."""
        end = self.true_ms + ms
        while True:
            moments = [at for at, _ in self.destination.on_the_wire + self.giving_up]
            at = min([moment for moment in moments if moment <= end], default=end)
            self.books.clock.advance(ms=at - self.true_ms)
            self.true_ms = at
            self.destination.arrive(at)
            silent = [sent for moment, sent in self.giving_up if moment <= at]
            self.giving_up = [one for one in self.giving_up if one[0] > at]
            for sent in silent:
                self.settle(sent, Outcome.UNKNOWN)
            if at == end:
                break
        self.watch.look()

    @precondition(lambda self: self.slow)
    @rule(place=places)
    def a_slow_answer_comes(self, place: int) -> None:
        self.settle(*self.slow.pop(place % len(self.slow)))
        self.watch.look()

    @precondition(lambda self: not self.blinded)
    @rule(ms=st.integers(500, BLIND_MS))
    def the_index_is_blind_for_a_moment(self, ms: int) -> None:
        self.blinded = True
        self.destination.blind_until_ms = self.true_ms + ms

    @rule()
    def the_keeper_strands(self) -> None:
        self.do(self.books.ledger.strand())
        self.watch.look()

    @rule(down_ms=st.sampled_from([0, 300, 2_000]))
    def the_gateway_crashes(self, down_ms: int) -> None:
        """What the process knew is gone: its questions, its plans, its waiting."""
        self.giving_up, self.slow, self.decided, self.asked = [], [], [], []
        self.do(stop(self.books))
        self.time_passes(max(down_ms, 1))
        self.do(start(self.books))
        self.watch.look()

    # -- what the reconciler does

    @rule(place=places)
    def the_reconciler_decides(self, place: int) -> None:
        unknown = self.unknown()
        if unknown:
            one = self.decide(unknown[place % len(unknown)])
            if one is not None:
                self.decided.append(one)

    @precondition(lambda self: self.decided)
    @rule(place=places, fate=fates)
    def it_does_what_it_decided_before(self, place: int, fate: Fate) -> None:
        self.take(self.decided.pop(place % len(self.decided)), fate, place)

    @rule(place=places, fate=fates, steps=st.integers(1, 4))
    def it_works_on_one_effect(self, place: int, fate: Fate, steps: int) -> None:
        unknown = self.unknown()
        for _ in range(steps if unknown else 0):
            one = self.decide(unknown[place % len(unknown)])
            if one is None or not self.take(one, fate, place):
                break
            self.answer_all()

    @rule(place=places, fate=fates, steps=st.integers(2, 6))
    def it_sees_one_effect_through(self, place: int, fate: Fate, steps: int) -> None:
        """Each step at its time, with as little else as there may be."""
        unknown = self.unknown()
        for _ in range(steps if unknown else 0):
            one = self.decide(unknown[place % len(unknown)])
            if one is None:
                break
            due_ms = getattr(one.step, "not_before_ms", getattr(one.step, "at_ms", 0))
            if due_ms > one.now_ms:
                self.time_passes(min(due_ms - one.now_ms, WINDOW_MS))
            else:
                self.take(one, fate, place)
                self.answer_all()

    @precondition(lambda self: self.asked)
    @rule(place=places, how=st.sampled_from(["now", "then", "failed", "never"]))
    def a_question_is_answered(self, place: int, how: str) -> None:
        """Answered by what is there now or was there when it was asked, badly, or not at all."""
        one = self.asked.pop(place % len(self.asked))
        if how == "never":
            return  # and not even that could be written down
        self.answer(one, {"now": self.find(one.effect), "then": one.finding}.get(how))

    @rule(kind=st.sampled_from(sorted(TELLING)), ms=st.sampled_from([1_000, SEAL_MS - 1]))
    def what_is_there_is_found_before_the_seal(self, kind: str, ms: int) -> None:
        """Liveness: nobody waits for a seal to learn that it happened."""
        if kind in self.destination.deaf or self.true_ms < self.destination.blind_until_ms:
            return
        sent = self.send(kind, len(self.wanted) + 10, Fate.ANSWER_LOST, 0)
        if sent is None:
            return
        self.settle(sent, Outcome.UNKNOWN)
        self.work_off(sent.effect_id)
        outcome = self.watch.look().effects[sent.effect_id][0]
        hold("found at once", outcome is Outcome.CONFIRMED, f"{sent} is {outcome}")

    # -- how it goes

    def send(self, kind: str, number: int, fate: Fate, place: int) -> Sent | None:
        """Ask for admission of a write, and send if there is one."""
        thing = f"{kind}-{'ab'[number % 2]}" if kind in SHARED else f"{kind}-{number}"
        if self.overlaps(thing):
            return None
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

    def overlaps(self, thing: str) -> bool:
        """Whether the same leader still has a write to that record on its way. Nothing keeps two
        of one term apart, and a worker that wants order sends them one after the other."""
        return bool(
            self.watch.ask(
                "SELECT 1 FROM attempt WHERE open = 1 AND covers = ? AND term = ? "
                "AND seal_at_ms > ?",
                thing, self.terms[-1], self.now_ms,
            )
        )  # fmt: skip

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
        asked = self.proposal(first.kind, int(first.key.split("-")[-1]), first.thing, leader.term)
        assert asked.attempt is not None
        asked.attempt.resend, asked.attempt.holder = True, leader.holder
        highest = self.watch.read().highest_term
        ruling = self.do(self.books.ledger.resend(Resending(asked, effect.id, after)))
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

    # -- the end: faults stop

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.everything_ends()
        finally:
            self.watch.close()
            self.do(stop(self.books))
            self.runner.close()
            self.folder.cleanup()

    def everything_ends(self) -> None:
        """When faults stop, every unknown effect ends: it is settled, or a person has it."""
        left = set(self.unknown())
        self.asked, self.decided = [], []  # what was asked is never written down
        for _ in range(ROUNDS_MAX):
            self.time_passes(SEAL_MS)
            self.do(self.books.ledger.strand())
            unknown = self.unknown()
            in_flight = [one for one, _ in self.watch.read().effects.values() if one is None]
            if not unknown and not in_flight:
                break
            for effect_id in unknown:
                self.work_off(effect_id)
            self.time_passes(30 * SEAL_MS if len(unknown) else SEAL_MS)
        cases = self.watch.open_cases()
        for effect_id, (outcome, _) in self.watch.look().effects.items():
            hold("I17", outcome is not None, f"{effect_id} is in flight for ever")
            ended = outcome is not Outcome.UNKNOWN or effect_id in cases
            hold("I17", ended, f"{effect_id} is unknown for ever, and nobody is told")
            if outcome is not Outcome.UNKNOWN or effect_id not in left:
                continue
            kind, reason = self.wanted[effect_id].kind, cases[effect_id]
            telling = kind in TELLING - self.destination.deaf and not self.leaderless
            given = reason in ("resend-rejected", "resends-exhausted")
            hold("settled", not telling or given, f"{effect_id} ({kind}) is {reason}")


def opening(effect: UnknownEffect, reason: str) -> Opening:
    return Opening(
        effect_id=effect.id, scope=effect.scope, unit=effect.unit, item=effect.item,
        destination=effect.destination, term=effect.attempts[-1].term, reason=reason,
        detail="Nobody knows.", owner="ops", deadline_ms=1,
    )  # fmt: skip
