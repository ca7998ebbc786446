"""The stage of the second simulation: a ledger, workers, questions and answers on their way.

Time is the test's own; each worker has a clock that runs a little wrong, and so has the machine
of the ledger.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from gateway.core.candidates import worker_name
from gateway.core.lease import Granted
from gateway.store.lease_records import LeaseAnswer
from tests.conformance.books import LEASED, RULES, SEAL_MS, Books, came_to, verdict
from tests.simulation.destination import hold
from tests.simulation.lease_client import Client, Request
from tests.simulation.lease_watch import (
    LeaseSnapshot,
    LeaseWatch,
    check_admission,
    check_beliefs,
    check_verb,
)
from tests.simulation.machine import start, stop
from tests.simulation.watch import check_raises

T = TypeVar("T")

DRAIN_MS = 8_000
JUMPED_MS = 100  # what a restart may add to the time, for what was used and not written


class Stage(RuleBasedStateMachine):
    """What the rules are played on; `look` after each of them checks what must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.books: Books = self.do(Books.open(Path(self.folder.name) / "ledger.db"))
        self.watch = LeaseWatch(self.books.path)
        self.true_ms = 0
        self.latest_ms = 0  # that the ledger has told
        self.up = True
        self.clients: dict[str, Client] = {}
        self.on_the_wire: list[tuple[int, int, Any]] = []
        self.sent = 0
        self.admitted: list[tuple[str, int]] = []
        self.known: list[tuple[str, int]] = [("ana#1", 1)]  # holders and terms, for zombies
        self.excused: set[int] = set()  # terms that ended by no fault of their holder's

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def who_is(self, who: str) -> Client:
        """Return the worker of a name, or the one that was told of the latest term."""
        found = self.clients.get(who)
        return found or max(self.clients.values(), key=lambda one: one.term)

    # -- how it goes

    def ask(self, request: Request, travel_ms: int, back_ms: int | None) -> None:
        """Send a question on its way; both ways take as long as told."""
        self.sent += 1
        if travel_ms:
            self.on_the_wire.append((self.true_ms + travel_ms, self.sent, (request, back_ms)))
        else:
            self.serve(request, back_ms)

    def arrive(self, what: tuple[Request, Any]) -> None:
        request, rest = what
        if isinstance(rest, LeaseAnswer):
            self.clients[request.worker].hear(request, rest, self.true_ms)
        elif self.up:
            self.serve(request, rest)

    def call(self, request: Request) -> Coroutine[Any, Any, LeaseAnswer]:
        more = {"principal": request.principal}
        match request.verb:
            case "acquire" | "supersede":
                supersede = request.verb == "supersede"
                return self.books.acquire(request.holder, supersede=supersede, **more)
            case "renew":
                return self.books.renew(request.holder, request.term, **more)
            case "release":
                return self.books.release(request.holder, request.term, **more)
            case "step-down":
                return self.books.step_down(request.holder, request.term, DRAIN_MS, **more)
            case _:
                return self.books.hand_off(request.holder, request.term, request.to, **more)

    def serve(self, request: Request, back_ms: int | None) -> None:
        """Let the gateway answer, check what it did, and send the answer back."""
        before = self.look()
        answer = self.do(self.call(request))
        self.learn(answer)
        if request.verb == "supersede" and isinstance(answer.answer, Granted):
            # A dead incarnation's question may be late, and end the lease of a living one.
            self.excused.add(before.last_term)
        check_verb(request, before, answer, self.watch.look())
        if back_ms is not None:
            if back_ms:
                self.sent += 1
                self.on_the_wire.append((self.true_ms + back_ms, self.sent, (request, answer)))
            else:
                self.clients[request.worker].hear(request, answer, self.true_ms)
        self.look()

    def learn(self, answer: LeaseAnswer) -> None:
        now_ms = answer.record.now_ms
        hold("I18", now_ms >= self.latest_ms, f"{now_ms} after {self.latest_ms}")
        self.latest_ms = now_ms
        if isinstance(answer.answer, Granted):
            self.known.append((answer.answer.lease.holder, answer.answer.lease.term))

    def write(self, holder: str, term: int, key: str, covers: str, principal: str = "") -> str:
        """Ask for admission under a term; return what was said."""
        before = self.look()
        who = {"holder": holder, "principal": principal or worker_name(holder)}
        ruling = self.do(self.books.admit(key, term=term, covers=covers, rules=LEASED, **who))
        hold("I18", ruling.now_ms >= self.latest_ms, f"{ruling.now_ms} after {self.latest_ms}")
        self.latest_ms = ruling.now_ms
        after = self.look()
        check_raises(before, after, {})
        hold("I16", after.lease == before.lease, f"a write made {after.lease} of {before.lease}")
        if ruling.n is not None:
            check_admission(who, term, before, ruling.now_ms, highest_term=before.highest_term)
            self.admitted.append((ruling.effect_id, ruling.n))
        return verdict(ruling)

    def look(self) -> LeaseSnapshot:
        now = self.watch.look()
        store_ms = self.books.ledger.clock.now_ms()
        check_beliefs(self.clients.values(), self.true_ms, now, store_ms, self.excused)
        return now

    # -- time

    def let_pass(self, ms: int) -> None:
        """Let time pass, and in its order: what is on its way arrives."""
        end = self.true_ms + ms
        while True:
            at = min([moment for moment, _, _ in self.on_the_wire if moment <= end], default=end)
            self.books.clock.advance(ms=at - self.true_ms)
            self.true_ms = at
            due = sorted((one for one in self.on_the_wire if one[0] <= at), key=lambda one: one[:2])
            self.on_the_wire = [one for one in self.on_the_wire if one[0] > at]
            for _, _, what in due:
                self.arrive(what)
            if at == end and not any(moment <= end for moment, _, _ in self.on_the_wire):
                break
        if self.up:
            self.look()

    def crash(self, down_ms: int, jump_s: int | None) -> None:
        """Crash and start again; with a jump, the machine goes down too."""
        expected_ms = self.books.ledger.clock.now_ms() + down_ms
        self.do(stop(self.books))
        self.up = False
        self.let_pass(down_ms)
        if jump_s is not None:
            self.books.clock.step_wall(seconds=jump_s)
            self.books.clock.reboot()
        self.do(start(self.books))
        self.up = True
        self.admitted = []
        if self.books.ledger.clock.now_ms() > expected_ms + JUMPED_MS:
            # Nothing proves that so much time has passed, and the lease ends early.
            self.excused.add(self.watch.seen.last_term)
        self.look()

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
        """When faults stop, an eligible candidate leads after the expiry, and its writes go."""
        self.on_the_wire.clear()
        self.do(self.books.report("zoe#1"))
        self.let_pass(RULES.ttl_ms + RULES.prefer_for_ms)
        for client in self.clients.values():
            self.do(self.books.report(client.holder))  # better ones, and none of them asks
        answer = self.do(self.books.acquire("zoe#1"))
        self.learn(answer)
        hold("liveness", isinstance(answer.answer, Granted), f"who may lead gets {answer.answer}")
        self.look()
        self.let_pass(RULES.ttl_ms - 1)
        said = came_to(self.do(self.books.renew("zoe#1", self.watch.seen.last_term)))
        hold("liveness", said.startswith("changed"), f"a renewal in time gets {said}")
        self.let_pass(SEAL_MS)
        said = self.write("zoe#1", self.watch.seen.last_term, "fresh", "a")
        hold("liveness", said == "admit", f"a fresh key of the new leader gets {said}")
