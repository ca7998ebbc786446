"""Unknown effects among leaders, crashes and destinations of every kind.

A state machine over the real decision (`next_step`) and the real SQLite ledger. What the
reconciler decides is done at once or only after other things have happened; questions are
answered late or never; writes arrive late, twice and out of order. Time is the test's own.
"""

from __future__ import annotations

import sys

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from gateway.core.effect import Outcome
from tests.conformance.books import SEAL_MS, TIMEOUT_MS
from tests.simulation.destination import Fate, hold
from tests.simulation.machine import start, stop
from tests.simulation.reconcile_destination import (
    BLIND_MS,
    LAG_MS,
    ROUTES,
    TELLING,
    WINDOW_MS,
)
from tests.simulation.reconcile_stage import (
    ROUNDS_MAX,
    ReconcileStage,
)

kinds = st.sampled_from(sorted(ROUTES))
numbers = st.integers(1, 3)
fates = st.sampled_from(
    [
        Fate.ANSWER_LOST,
        Fate.LATE,
        Fate.LATE,
        Fate.VANISHED,
        Fate.FAILED,
        Fate.SLOW,
        Fate.ANSWERED,
        Fate.REJECTED,
        Fate.TURNED_AWAY,
    ]
)
pauses = st.sampled_from([10, 500, 1_000, LAG_MS, TIMEOUT_MS, SEAL_MS, SEAL_MS + LAG_MS, WINDOW_MS])
places = st.integers(0, 10 * SEAL_MS)


class Reconciling(ReconcileStage):
    """Rules are what may happen; `look` after each of them checks what must hold."""

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

    @rule(place=places, fate=fates)
    def two_look_at_one_effect_at_once(self, place: int, fate: Fate) -> None:
        unknown = self.unknown()
        if unknown:
            effect_id = unknown[place % len(unknown)]
            for one in [self.decide(effect_id), self.decide(effect_id)]:
                if one is not None:
                    self.take(one, fate, place)

    @rule(place=places, fate=fates, steps=st.integers(1, 4))
    def it_works_on_one_effect(self, place: int, fate: Fate, steps: int) -> None:
        unknown = self.unknown()
        for _ in range(steps if unknown else 0):
            one = self.decide(unknown[place % len(unknown)])
            if one is None or not self.take(one, fate, place):
                break
            self.answer_all()

    @rule(place=places, fate=fates, steps=st.integers(2, 8), turn=st.integers(0, 12))
    def it_sees_one_effect_through(self, place: int, fate: Fate, steps: int, turn: int) -> None:
        """Each step at its time, with as little else as there may be: at most a new leader that
        takes over before the step number `turn`, and writes something of its own."""
        unknown = self.unknown()
        for at in range(steps if unknown else 0):
            if at == turn:
                self.terms.append(self.terms[-1] + 1)
                self.send("mail", len(self.wanted) + 100, Fate.ANSWERED, 0)
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
        sent = self.send(kind, len(self.wanted) + 1_000, Fate.ANSWER_LOST, 0)
        if sent is None:
            return
        self.settle(sent, Outcome.UNKNOWN)
        self.work_off(sent.effect_id)
        outcome = self.watch.look().effects[sent.effect_id][0]
        hold("found at once", outcome is Outcome.CONFIRMED, f"{sent} is {outcome}")

    # -- the end: faults stop

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.everything_ends()
        finally:
            self.close()

    def close(self) -> None:
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
