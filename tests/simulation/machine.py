"""The gateway's ledger among leaders, zombies, crashes and a destination with moods.

A state machine over the real decision and the real SQLite ledger. Time is the test's own, in
true milliseconds; the ledger sees it through its clock, across restarts and reboots.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gateway.core.effect import Outcome
from gateway.core.errors import InvariantError
from gateway.core.fence import Replay
from gateway.store.records import Proposal, Ruling
from tests.conformance.books import SEAL_MS, TIMEOUT_MS, Books, answer, proposal, verdict
from tests.simulation.destination import Destination, Fate, Sent, hold
from tests.simulation.watch import OPEN, Snapshot, Watch, check_raises, check_refusal

T = TypeVar("T")

keys = st.sampled_from([f"k-{n}" for n in range(6)])
covers = st.sampled_from(["a", "a", "b"])
bodies = st.sampled_from(["one", "one", "one", "two"])
fates = st.sampled_from(list(Fate))
pauses = st.sampled_from([10, 400, TIMEOUT_MS, TIMEOUT_MS + 1001, SEAL_MS])
places = st.integers(0, 10 * SEAL_MS)


class Gateway(RuleBasedStateMachine):
    """Rules are what may happen; `look` after each of them checks what must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.books: Books = self.do(Books.open(Path(self.folder.name) / "ledger.db"))
        self.destination = Destination()
        self.watch = Watch(self.books.path, self.destination)
        self.true_ms = 0
        self.latest_ms = 0  # that the ledger has told
        self.terms = [1]
        self.sent: list[Sent] = []
        self.giving_up: list[tuple[int, Sent]] = []  # silent attempts, and when to give them up
        self.slow: list[Sent] = []  # applied, and their answer is still to come
        self.replayed: dict[str, bytes | None] = {}

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    # -- what leaders do

    @initialize(first=st.integers(1, 3))
    def a_first_leader_is_elected(self, first: int) -> None:
        self.terms = [first]

    @rule(step=st.integers(1, 2))
    def a_new_leader_is_elected(self, step: int) -> None:
        self.terms.append(self.terms[-1] + step)

    @rule(key=keys, covers=covers, body=bodies, fate=fates, place=places)
    def the_leader_sends(self, key: str, covers: str, body: str, fate: Fate, place: int) -> None:
        self.ask(key, self.terms[-1], covers, body, fate, place)

    @rule(key=keys, covers=covers, body=bodies, fate=fates, place=places)
    def the_leader_sends_again(
        self, key: str, covers: str, body: str, fate: Fate, place: int
    ) -> None:
        self.ask(key, self.terms[-1], covers, body, fate, place)

    @rule(old=keys, new=keys, covers=covers, place=places)
    def the_leader_is_replaced_in_the_middle_of_a_write(
        self, old: str, new: str, covers: str, place: int
    ) -> None:
        self.ask(old, self.terms[-1], covers, "one", Fate.LATE, place)
        self.terms.append(self.terms[-1] + 1)
        self.ask(new, self.terms[-1], covers, "one", Fate.ANSWERED, place)

    @precondition(lambda self: len(self.terms) > 1)
    @rule(key=keys, covers=covers, body=bodies, fate=fates, place=places)
    def a_zombie_sends(self, key: str, covers: str, body: str, fate: Fate, place: int) -> None:
        older = self.terms[:-1]
        self.ask(key, older[place % len(older)], covers, body, fate, place)

    @rule(key=keys, covers=covers, fate=fates, place=places)
    def an_impostor_sends(self, key: str, covers: str, fate: Fate, place: int) -> None:
        self.ask(key, self.terms[-1], covers, "one", fate, place, holder="impostor#1")

    @rule(
        asked=st.lists(st.tuples(keys, covers, st.booleans()), min_size=2, max_size=5),
        fate=st.sampled_from([Fate.ANSWERED, Fate.ANSWER_LOST, Fate.LATE, Fate.SLOW]),
        place=places,
    )
    def leaders_meet_in_a_batch(
        self, asked: list[tuple[str, str, bool]], fate: Fate, place: int
    ) -> None:
        """Several in one batch, of the leader and of the one that takes over right then."""
        older = self.terms[-1]
        self.terms.append(older + 1)
        before = self.watch.look()
        wanted = [
            proposal(
                self.books.next_id(), key, term=older if old else self.terms[-1], covers=covers
            )
            for key, covers, old in asked
        ]
        rulings = self.do(self.books.together(*(self.books.ledger.admit(one) for one in wanted)))
        self.check_batch(before, wanted, rulings)
        for one, ruling in zip(wanted, rulings, strict=True):
            assert one.attempt is not None
            if ruling.n is not None:
                sent = self.as_sent(
                    ruling, one.attempt.key.key, one.covers, one.attempt.term, "one"
                )
                self.on_record(sent)
                self.meet(sent, fate, place)
            elif isinstance(ruling.decision, Replay):
                self.replay(ruling, one.attempt.key.key, "one")

    def check_batch(self, before: Snapshot, wanted: list[Proposal], rulings: list[Any]) -> None:
        """Terms never go back inside a batch, and its handovers know what it admitted."""
        highest = before.highest_term
        raised: dict[int, list[str]] = {}
        admitted: dict[str, int] = {}
        for one, ruling in zip(wanted, rulings, strict=True):
            if isinstance(ruling, BaseException):
                raise ruling
            assert one.attempt is not None
            term = one.attempt.term
            if ruling.decision.raises_term:
                older = {name for name, of in admitted.items() if of < term}
                raised[term] = sorted(older | set(before.unfinished(term)))
            if ruling.n is not None:
                hold("I4", term >= highest, f"{term} was admitted under {highest}")
                admitted[ruling.effect_id] = term
            highest = max(highest, term)
        check_raises(before, self.watch.look(), raised)

    @rule(key=keys, covers=covers, table=st.sampled_from(["attempt", "effect"]))
    def the_disk_swallows_a_row(self, key: str, covers: str, table: str) -> None:
        change = sqlite3.connect(self.books.path, isolation_level=None)
        change.execute(
            f"CREATE TRIGGER swallow BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END"
        )
        try:
            self.ask(key, self.terms[-1], covers, "one", Fate.ANSWERED, 0)
        except InvariantError:
            pass  # stopped, as it must be
        finally:
            change.execute("DROP TRIGGER swallow")
            change.close()
        self.watch.look()

    # -- what happens to them

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
        sent = self.slow.pop(place % len(self.slow))
        self.settle(sent, Outcome.CONFIRMED)
        self.watch.look()

    @precondition(lambda self: self.sent)
    @rule(place=places)
    def an_attempt_is_given_up_once_more(self, place: int) -> None:
        """A timeout that races the answer: true to say at any time, and it must not count."""
        self.settle(self.sent[place % len(self.sent)], Outcome.UNKNOWN)
        self.watch.look()

    @rule()
    def the_keeper_strands(self) -> None:
        self.do(self.books.ledger.strand())
        self.watch.look()

    @rule(down_ms=st.sampled_from([0, 300, 2_000]), jump_s=st.sampled_from([None, -3600, 0, 3600]))
    def the_gateway_crashes(self, down_ms: int, jump_s: int | None) -> None:
        """Crash and start again; with a jump, the machine goes down too."""
        self.crash(down_ms, jump_s)
        self.watch.look()

    @precondition(lambda self: self.watch.seen.effects)
    @rule(place=places)
    def an_operator_decides(self, place: int) -> None:
        """Say what the destination shows now. An eager one asks too early; the seal tells."""
        unknown = [e for e, (outcome, _) in self.watch.seen.effects.items() if outcome in OPEN]
        if unknown:
            self.decide(unknown[place % len(unknown)])
            self.watch.look()

    @rule(key=keys, covers=covers, place=places)
    def an_operator_decides_right_after_the_deadline(
        self, key: str, covers: str, place: int
    ) -> None:
        self.ask(key, self.terms[-1], covers, "one", Fate.LATE, place)
        self.time_passes(TIMEOUT_MS)
        self.an_operator_decides(place=place)

    # -- how it goes

    def ask(
        self,
        key: str,
        term: int,
        covers: str,
        body: str,
        fate: Fate,
        place: int,
        holder: str | None = None,
    ) -> None:
        """Ask for admission, and send if there is one."""
        before = self.watch.look()
        wanted = proposal(
            self.books.next_id(), key, term=term, covers=covers, body=body, holder=holder
        )
        ruling = self.do(self.books.ledger.admit(wanted))
        after = self.watch.read()
        hold("I18", ruling.now_ms >= self.latest_ms, f"{ruling.now_ms} after {self.latest_ms}")
        self.latest_ms = ruling.now_ms
        raised = {term: before.unfinished(term)} if after.highest_term == term else {}
        check_raises(before, after, raised if before.highest_term < term else {})
        if ruling.n is None:
            self.watch.look()
            check_refusal(verdict(ruling), before, after)
            if isinstance(ruling.decision, Replay):
                self.replay(ruling, key, body)
            return
        sent = self.as_sent(ruling, key, covers, term, body)
        self.on_record(sent)
        hold("I4", after.highest_term == term, f"{sent} was admitted under {after.highest_term}")
        hold("I4", after.holder == (holder or f"leader#{term}"), f"{sent} is not {after.holder}'s")
        self.meet(sent, fate, place)
        self.watch.look()

    def replay(self, ruling: Ruling, key: str, body: str) -> None:
        done = self.destination.under(key)
        hold("I7", done is not None, f"{key} is replayed, and was never carried out")
        hold("I7", done is not None and done.body == body, f"{key} is replayed to {body}: {done}")
        given = ruling.answer.body if ruling.answer else None
        first = self.replayed.setdefault(key, given)
        hold("I7", given == first, f"{key} is replayed as {given!r}, and was as {first!r}")
        hold("I7", given is None or (done and given == done.answer), f"{key}: {given!r}, {done}")

    def as_sent(self, ruling: Ruling, key: str, covers: str, term: int, body: str) -> Sent:
        assert ruling.n is not None
        seal_at_ms = self.true_ms + SEAL_MS
        return Sent(ruling.effect_id, ruling.n, key, covers, term, body, seal_at_ms)

    def on_record(self, sent: Sent) -> None:
        now = self.watch.read()
        intent = now.attempts.get((sent.effect_id, sent.n))
        recorded = intent is not None and sent.effect_id in now.effects
        hold("I6", recorded, f"{sent} is sent without a record")
        hold(
            "I6",
            intent is not None and (intent.term, intent.outcome) == (sent.term, None),
            f"{sent} is sent upon {intent}",
        )

    def meet(self, sent: Sent, fate: Fate, place: int) -> None:
        """Let the request meet its fate."""
        if fate is Fate.CRASH_BEFORE:
            self.crash(0, None)
            return
        self.sent.append(sent)
        if fate in (Fate.ANSWERED, Fate.FAILED, Fate.ANSWER_LOST, Fate.SLOW):
            self.destination.apply(sent)
        elif fate is Fate.LATE or (fate is Fate.CRASH_AFTER and place % 2):
            earliest = TIMEOUT_MS if fate is Fate.LATE and place % 3 else 1
            arrives = self.true_ms + earliest + place % (SEAL_MS - earliest)
            self.destination.on_the_wire.append((arrives, sent))
        elif fate is Fate.CRASH_AFTER:
            self.destination.apply(sent)
        match fate:
            case Fate.ANSWERED:
                self.settle(sent, Outcome.CONFIRMED)
            case Fate.REJECTED:
                self.settle(sent, Outcome.REJECTED)
            case Fate.TURNED_AWAY:
                self.settle(sent, Outcome.NO_EFFECT)
            case Fate.FAILED:
                self.settle(sent, Outcome.UNKNOWN)
            case Fate.SLOW:
                self.slow.append(sent)
            case Fate.CRASH_AFTER:
                self.crash(0, None)
            case _:
                self.giving_up.append((self.true_ms + TIMEOUT_MS, sent))

    def settle(self, sent: Sent, outcome: Outcome) -> None:
        kept = None
        if outcome is Outcome.CONFIRMED:
            kept = answer(sent.answer)
        elif outcome is Outcome.UNKNOWN:
            kept = answer(b"gateway timeout", state="evidence", status=504)
        after = self.do(self.books.settle(sent.effect_id, outcome, sent.n, answer=kept))
        highest = self.watch.read().highest_term
        hold("I4", after.superseded == (highest > sent.term), f"{sent}: {after}, {highest}")

    def decide(self, effect_id: str) -> None:
        happened = self.destination.did(effect_id)
        self.do(self.books.resolve(effect_id, Outcome.CONFIRMED if happened else Outcome.NO_EFFECT))

    def crash(self, down_ms: int, jump_s: int | None) -> None:
        """Let go of the ledger without a word; what the process knew is gone."""
        self.giving_up, self.slow = [], []
        self.do(stop(self.books))
        self.time_passes(down_ms)
        if jump_s is not None:
            self.books.clock.step_wall(seconds=jump_s)
            self.books.clock.reboot()
        self.do(start(self.books))
        left = [name for name, one in self.watch.read().attempts.items() if one.outcome is None]
        hold("6.2 stranded", not left, f"{left} are in flight after a restart")

    # -- the end: faults stop

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.life_goes_on()
        finally:
            self.watch.close()
            self.do(stop(self.books))
            self.runner.close()
            self.folder.cleanup()

    def life_goes_on(self) -> None:
        """When faults stop, unknowns can be settled, and a new leader's writes get through."""
        self.time_passes(SEAL_MS)
        self.time_passes(SEAL_MS)
        self.do(self.books.ledger.strand())
        for effect_id, (outcome, _) in self.watch.look().effects.items():
            if outcome in OPEN:
                self.decide(effect_id)
        for effect_id, (outcome, _) in self.watch.look().effects.items():
            hold("I17", outcome not in OPEN, f"{effect_id} is {outcome} for ever")
            happened = self.destination.did(effect_id)
            hold("I9", (outcome is Outcome.CONFIRMED) == happened, f"{effect_id} is {outcome}")
        self.terms.append(self.terms[-1] + 1)
        for what in ("a", "b"):
            ruling = self.do(self.books.admit(f"fresh-{what}", term=self.terms[-1], covers=what))
            hold("liveness", verdict(ruling) == "admit", f"a fresh key gets {verdict(ruling)}")


async def stop(books: Books) -> None:
    """Stop as a process that dies does: its kernel closes the files, nothing is said."""
    await books.ledger._writer.close()
    books.ledger._home.release()


async def start(books: Books) -> None:
    books.ledger = await type(books.ledger).open(books.path, books.clock, observer=books.watcher)
