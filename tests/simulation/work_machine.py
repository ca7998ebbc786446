"""A unit of work among leaders that come and go, workers that are late, and crashes.

A state machine over the real rules and the real SQLite ledger. Time is the test's own.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from gateway.core.effect import Outcome
from gateway.core.work import ItemState
from gateway.store.work import Checkpointing, Claiming, Reporting, WorkVerb
from gateway.store.work_records import WorkAnswer
from tests.conformance.books import SEAL_MS, TIMEOUT_MS, Books, verdict
from tests.conformance.working import Site, outcome
from tests.simulation.destination import hold
from tests.simulation.machine import start, stop
from tests.simulation.work_watch import (
    UnitSeen,
    check_checkpoints,
    check_claim,
    check_claimant,
    check_sender,
    check_step,
    look,
)

T = TypeVar("T")
ITEMS = ("a", "b", "c")
TTLS = (300, 2_000, 20_000)

workers = st.sampled_from(["w#1", "w#2", "w#3", "the leader"])
speakers = st.sampled_from(["who has it", "who has it", "who has it", "w#1", "the leader"])
items = st.sampled_from([*ITEMS, "a", "a"])
older = st.sampled_from([0, 0, 0, 0, 1])  # how many terms behind somebody is
limits = st.integers(1, 3)
ttls = st.sampled_from(TTLS)
states = st.sampled_from(["done", "failed", "uncertain"])
off = st.sampled_from([0, 0, 0, 0, -1, 1])
pauses = st.sampled_from([10, 300, 2_000, TIMEOUT_MS, TIMEOUT_MS + 1001, SEAL_MS, 20_000])
outcomes = st.sampled_from([Outcome.CONFIRMED, Outcome.REJECTED, Outcome.UNKNOWN])
places = st.integers(0, 1_000_000)


class Work(RuleBasedStateMachine):
    """Rules are what may happen; each is checked against what stands on the disk after it."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.books: Books = self.do(Books.open(Path(self.folder.name) / "ledger.db"))
        self.site = Site(self.books, term=1)
        self.flying: list[tuple[str, int]] = []
        self.keys = 0

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def look(self) -> UnitSeen:
        return look(self.books.path, self.site.unit)

    def known(self, item: str) -> Any:
        return self.look().items[item]

    @initialize()
    def a_leader_creates_the_unit(self) -> None:
        answer = self.do(self.site.create(ITEMS))
        hold("create", answer.made, "the first leader did not create it")

    # -- steps

    def step(self, *verbs: WorkVerb) -> list[WorkAnswer]:
        """Carry verbs out in one batch, and check what came of it."""
        before = self.look()
        answers = self.do(self.books.together(*(self.site.work(verb) for verb in verbs)))
        after = self.look()
        for verb, answer in zip(verbs, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            if answer.refusal is None:
                term = verb.speech.term
                hold("I4 term", term >= answer.highest_term, f"{verb} under {answer.highest_term}")
        if len(verbs) == 1 and answers[0].refusal is None:
            self.check_one(before, verbs[0], answers[0])
        check_step(before, after)
        check_checkpoints(
            before,
            after,
            [
                (verb.item, answer, verb.speech.term)
                for verb, answer in zip(verbs, answers, strict=True)
                if isinstance(verb, Checkpointing) and answer.refusal is None
            ],
        )
        return answers

    def check_one(self, before: UnitSeen, verb: WorkVerb, answer: WorkAnswer) -> None:
        """Check what can be told of one verb alone."""
        if isinstance(verb, Claiming):
            check_claim(before, verb, answer)
        elif isinstance(verb, Checkpointing | Reporting):
            check_claimant(before, verb, answer, self.site.leader)

    def at(self, behind: int) -> Site:
        return self.site.under(max(1, self.site.term - behind))

    def name(self, worker: str, site: Site, item: str = "a") -> str:
        if worker == "who has it":
            return str(self.known(item).worker or "w#1")
        return site.leader if worker == "the leader" else worker

    def claiming(self, worker: str, behind: int, limit: int, ttl_ms: int) -> Claiming:
        site = self.at(behind)
        return site.claiming(self.name(worker, site), limit, ttl_ms)

    def checkpointing(self, worker: str, behind: int, item: str, by: int) -> Checkpointing:
        site, version = self.at(behind), max(0, self.known(item).checkpoint_version + by)
        return site.checkpointing(
            self.name(worker, site, item), item, version, {"v": version, "w": by}
        )

    def reporting(self, worker: str, behind: int, item: str, state: str, by: int) -> Reporting:
        site, attempt = self.at(behind), max(1, self.known(item).attempt + by)
        return site.reporting(self.name(worker, site, item), (item, state, attempt))

    # -- rules

    @rule()
    def a_new_leader_finds_the_unit(self) -> None:
        self.site = self.site.under(self.site.term + 1)
        answers = self.step(self.site.creating("other"))
        hold("create", not answers[0].made, "the unit was created twice")

    @rule(worker=workers, behind=older, limit=limits, ttl_ms=ttls)
    def somebody_claims(self, worker: str, behind: int, limit: int, ttl_ms: int) -> None:
        self.step(self.claiming(worker, behind, limit, ttl_ms))

    @rule(worker=speakers, behind=older, item=items, by=off)
    def somebody_writes_a_checkpoint(self, worker: str, behind: int, item: str, by: int) -> None:
        self.step(self.checkpointing(worker, behind, item, by))

    @rule(worker=speakers, behind=older, item=items, state=states, by=off)
    def somebody_reports(self, worker: str, behind: int, item: str, state: str, by: int) -> None:
        self.step(self.reporting(worker, behind, item, state, by))

    @rule(asked=st.lists(st.tuples(speakers, older, items, off, places), min_size=2, max_size=5))
    def many_meet_in_a_batch(self, asked: list[tuple[str, int, str, int, int]]) -> None:
        verbs: list[WorkVerb] = []
        for worker, behind, item, by, place in asked:
            match place % 5:
                case 0:
                    verbs.append(self.claiming(worker, behind, 2, TTLS[place % 3]))
                case 1 | 2:
                    verbs.append(self.checkpointing(worker, behind, item, by))
                case 3:
                    state = ("done", "failed", "uncertain")[place % 3]
                    verbs.append(self.reporting(worker, behind, item, state, by))
                case _:
                    verbs.append(self.at(behind).completing())
        self.step(*verbs)

    @rule(but=st.sampled_from([None, None, *ITEMS]), state=states, then=st.integers(0, 2))
    def the_leader_does_the_rest(self, but: str | None, state: str, then: int) -> None:
        """All that it can have is reported, one item perhaps otherwise; then it may want to end,
        perhaps with a write in the same batch."""
        site = self.site
        (answer,) = self.step(site.claiming(limit=len(ITEMS), ttl_ms=TTLS[-1]))
        told = [
            (got.item, state if got.item == but else "done", got.attempt) for got in answer.items
        ]
        if told:
            self.step(site.reporting(site.leader, *told))
        if then == 1:
            self.step(site.completing())
        elif then == 2:
            self.send("the leader", 0, None, ending=True)

    @rule(behind=older)
    def a_leader_completes(self, behind: int) -> None:
        self.step(self.at(behind).completing())

    @rule(place=places)
    def the_leader_rarely_abandons(self, place: int) -> None:
        if place % 20 == 0:
            before = self.look()
            self.do(self.site.abandon("enough"))
            check_step(before, self.look())

    @rule(worker=speakers, behind=older, item=items, ending=st.booleans())
    def somebody_sends(self, worker: str, behind: int, item: str, ending: bool) -> None:
        self.send(worker, behind, item, ending)

    @rule(ending=st.booleans())
    def the_leader_sends_for_the_unit(self, ending: bool) -> None:
        self.send("the leader", 0, None, ending)

    def send(self, worker: str, behind: int, item: str | None, ending: bool) -> None:
        """A write; sometimes in one batch with the end of the unit."""
        site, before = self.at(behind), self.look()
        holder = self.name(worker, site, item or "a")
        self.keys += 1
        asked = site.effect(f"k-{self.keys}", item, holder, covers=f"crm /{item}/{self.keys % 3}")
        work: list[Any] = [self.books.ledger.admit(asked)]
        if ending:
            work.append(self.site.work(self.site.completing()))
        ruling, *rest = self.do(self.books.together(*work))
        after = self.look()
        if verdict(ruling) == "admit":
            check_sender(before, item, holder, site.term, ruling.now_ms, site.leader)
            self.flying.append((ruling.effect_id, ruling.n))
            hold("I13 effects", after.status != "completed", "it ended with an effect under way")
        check_step(before, after)
        for answer in rest:
            hold("batch", isinstance(answer, WorkAnswer), f"{answer!r}")

    @rule(result=outcomes, place=places)
    def an_answer_comes(self, result: Outcome, place: int) -> None:
        if self.flying:
            effect_id, n = self.flying.pop(place % len(self.flying))
            before = self.look()
            self.do(self.books.settle(effect_id, result, n))
            check_step(before, self.look())

    @rule(ms=pauses)
    def time_passes(self, ms: int) -> None:
        self.books.clock.advance(ms=ms)

    @rule()
    def the_gateway_crashes(self) -> None:
        before = self.look()
        self.do(stop(self.books))
        self.do(start(self.books))
        check_step(before, self.look())
        self.flying.clear()

    # -- the end: faults stop

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.the_unit_ends()
        finally:
            self.do(stop(self.books))
            self.runner.close()
            self.folder.cleanup()

    def the_unit_ends(self) -> None:
        """When faults stop, a new leader can bring the unit to its end."""
        self.books.clock.advance(ms=2 * SEAL_MS)
        self.do(self.books.ledger.strand())
        for effect_id in self.look().open_effects:
            self.do(self.books.resolve(effect_id, Outcome.CONFIRMED))
        self.a_new_leader_finds_the_unit()
        site, seen = self.site, self.look()
        if seen.status != "open":
            return
        self.step(site.claiming(limit=len(ITEMS), ttl_ms=60_000))
        for name, item in self.look().items.items():
            if item.state in (ItemState.CLAIMED, ItemState.UNCERTAIN):
                (answer,) = self.step(site.reporting(site.leader, (name, "done", item.attempt)))
                hold("I17", not answer.turned, f"{name}: {answer.turned}")
        (answer,) = self.step(site.completing())
        hold("I17", answer.ended, f"the unit does not end: {outcome(answer)} {answer.reasons}")
