"""The gateway's leases among workers that pause, die, come back and are answered late."""

from __future__ import annotations

import sqlite3
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from gateway.core.effect import Outcome
from gateway.core.errors import InvariantError
from gateway.core.lease import Granted
from gateway.store.lease_records import LeaseAnswer
from tests.conformance.books import LEASED, RULES, proposal
from tests.simulation.destination import hold
from tests.simulation.lease_client import Client, Request
from tests.simulation.lease_stage import DRAIN_MS, Stage
from tests.simulation.watch import check_raises

NAMES = ("ana", "bo", "cy")
workers = st.sampled_from(NAMES)
anyone = st.sampled_from(["the latest", "the latest", "the latest", *NAMES])
keys = st.sampled_from([f"k-{n}" for n in range(6)])
covers = st.sampled_from(["a", "b"])
travels = st.sampled_from([0, 0, 0, 0, 900, 6_000, 25_000])
answers = st.sampled_from([0, 0, 0, 0, 800, 4_000, 19_000, None])  # None is lost
pauses = st.sampled_from([10, 400, 5_000, 5_000, 16_900, 20_000])
places = st.integers(0, 1_000_000)
jumps = st.sampled_from([None, -3600, 0, 3600])

NO_AUTHORITY = ("stale-term", "term-never-issued", "not-holder", "lease-expired")


class Leadership(Stage):
    """Rules are what may happen; `look` after each of them checks what must hold."""

    @initialize(rates=st.tuples(*[st.sampled_from([0.995, 1.0, 1.005])] * 3), first=workers)
    def workers_start(self, rates: tuple[float, ...], first: str) -> None:
        self.clients = {n: Client(n, rate) for n, rate in zip(NAMES, rates, strict=True)}
        self.ask(self.clients[first].asks("acquire", self.true_ms), 0, 0)

    # -- what workers ask for

    @rule(who=workers, travel=travels, back=answers)
    def a_worker_asks_to_lead(self, who: str, travel: int, back: int | None) -> None:
        self.ask(self.clients[who].asks("acquire", self.true_ms), travel, back)

    @rule(who=anyone, travel=travels, back=answers)
    def a_leader_renews(self, who: str, travel: int, back: int | None) -> None:
        if self.who_is(who).term:
            self.ask(self.who_is(who).asks("renew", self.true_ms), travel, back)

    @rule(turns=st.integers(1, 6))
    def leaders_go_on(self, turns: int) -> None:
        """Time passes in the order of a healthy day: whoever leads renews in time."""
        for _ in range(turns):
            self.let_pass(RULES.renew_every_ms)
            for client in self.clients.values():
                if client.believes(self.true_ms):
                    self.ask(client.asks("renew", self.true_ms), 0, 0)

    @rule(who=anyone, supersedes=st.booleans(), travel=travels, back=answers)
    def a_worker_starts_anew(
        self, who: str, supersedes: bool, travel: int, back: int | None
    ) -> None:
        client = self.who_is(who)
        self.known.append((client.holder, client.term or 1))
        client.restart()
        verb = "supersede" if supersedes else "acquire"
        self.ask(client.asks(verb, self.true_ms), travel, back)

    @rule(who=anyone, verb=st.sampled_from(["release", "step-down"]), travel=travels, back=answers)
    def a_leader_ends_its_lease(self, who: str, verb: str, travel: int, back: int | None) -> None:
        if self.who_is(who).term:
            self.ask(self.who_is(who).asks(verb, self.true_ms), travel, back)

    @rule(key=keys, covers=covers, wait_ms=st.sampled_from([0, 300, DRAIN_MS]))
    def a_leader_steps_down_in_the_middle_of_its_work(
        self, key: str, covers: str, wait_ms: int
    ) -> None:
        """One part of the worker goes on, not knowing of the other's decision."""
        client = self.who_is("the latest")
        holder, term = client.holder, client.term
        if client.believes(self.true_ms):
            self.write(holder, term, key, covers)
            self.ask(client.asks("step-down", self.true_ms), 0, 0)
            self.let_pass(wait_ms)
            self.write(holder, term, f"{key}-late", covers)

    @rule(who=anyone, to=workers, travel=travels, back=answers, exactly=st.booleans())
    def a_leader_hands_off(
        self, who: str, to: str, travel: int, back: int | None, exactly: bool
    ) -> None:
        if self.who_is(who).term:
            self.do(self.books.report(self.clients[to].holder))
            named = self.clients[to].holder if exactly else to
            self.ask(self.who_is(who).asks("hand-off", self.true_ms, named), travel, back)

    @rule(who=workers, ready=st.booleans(), free=st.booleans())
    def a_worker_reports_and_asks(self, who: str, ready: bool, free: bool) -> None:
        client = self.clients[who]
        self.do(self.books.report(client.holder, ready=ready))
        if free:
            self.let_pass(RULES.ttl_ms + RULES.prefer_for_ms)
        self.ask(client.asks("acquire", self.true_ms), 0, 0)

    @rule(late_ms=st.sampled_from([-1, 0, 1, 400, 499]), writes=st.booleans(), key=keys)
    def a_leader_wakes_up_around_its_expiry(self, late_ms: int, writes: bool, key: str) -> None:
        lease = self.watch.seen.lease
        if lease is None or lease.ended is not None:
            return
        left_ms = lease.expires_at_ms - self.books.ledger.clock.now_ms() + late_ms
        self.let_pass(max(left_ms, 0))
        lease = self.watch.seen.lease
        if lease is not None and writes:
            self.write(lease.holder, lease.term, key, "a")
        elif lease is not None:
            self.serve(Request("renew", lease.holder, lease.principal, term=lease.term), None)

    @rule(
        place=places,
        verb=st.sampled_from(["renew", "release", "release", "step-down", "hand-off"]),
        wrong=st.sampled_from(["both", "the term", "the incarnation"]),
    )
    def a_stale_question_comes_in(self, place: int, verb: str, wrong: str) -> None:
        """As if it had slept on the way: of another leadership, term or incarnation."""
        lease = self.watch.seen.lease
        holder, term = self.known[place % len(self.known)]
        if lease is not None and wrong == "the term":
            holder, term = lease.holder, place % lease.term
        elif lease is not None and wrong == "the incarnation":
            holder, term = f"{lease.principal}#{place % 3}", lease.term
        request = Request(verb, holder, holder.partition("#")[0], term=term, to="bo")
        if not self.watch.seen.named_by(request):
            self.serve(request, None)

    @rule(verb=st.sampled_from(["acquire", "supersede", "renew", "release", "step-down"]))
    def another_principal_asks_by_the_leaders_name(self, verb: str) -> None:
        lease = self.watch.seen.lease
        if lease is not None and self.watch.seen.leads(self.books.ledger.clock.now_ms()):
            self.serve(Request(verb, lease.holder, "eve", term=lease.term), None)

    # -- what they write

    @rule(who=anyone, key=keys, covers=covers)
    def a_leader_writes(self, who: str, key: str, covers: str) -> None:
        client = self.who_is(who)
        if client.believes(self.true_ms):
            said = self.write(client.holder, client.term, key, covers)
            if client.term not in self.excused:
                hold("I15", said not in NO_AUTHORITY, f"{client} believes, and gets {said}")

    @rule(place=places, key=keys, covers=covers)
    def a_zombie_writes(self, place: int, key: str, covers: str) -> None:
        self.write(*self.known[place % len(self.known)], key, covers)

    @rule(key=keys, covers=covers)
    def another_principal_writes_by_the_leaders_name(self, key: str, covers: str) -> None:
        lease = self.watch.seen.lease
        if lease is not None:
            self.write(lease.holder, lease.term, f"{key}-{self.books.born}", covers, "eve")

    @rule(place=places, key=keys, covers=covers, later=st.integers(-1, 1))
    def somebody_writes_under_a_term_beside_the_leaders(
        self, place: int, key: str, covers: str, later: int
    ) -> None:
        lease = self.watch.seen.lease
        holder, _ = self.known[place % len(self.known)]
        if lease is not None and later:
            holder, key = lease.holder, f"{key}-{self.books.born}"  # a key that nobody has spent
        self.write(holder, max(self.watch.seen.last_term + later, 1), key, covers)

    @precondition(lambda self: self.admitted)
    @rule(place=places, outcome=st.sampled_from(list(Outcome)))
    def an_answer_comes(self, place: int, outcome: Outcome) -> None:
        effect_id, n = self.admitted.pop(place % len(self.admitted))
        self.do(self.books.settle(effect_id, outcome, n))
        self.look()

    @rule(asked=st.lists(st.tuples(keys, covers), min_size=2, max_size=4), at=st.integers(0, 4))
    def a_takeover_meets_writes_in_a_batch(self, asked: list[tuple[str, str]], at: int) -> None:
        """The leader writes while its next incarnation takes over: all in one batch."""
        before = self.look()
        lease = before.lease
        if lease is None or not before.leads(self.books.ledger.clock.now_ms()) or lease.draining:
            return
        client = self.clients[lease.holder.partition("#")[0]]
        client.restart()
        request = client.asks("supersede", self.true_ms)
        wanted = [
            proposal(
                self.books.next_id(), key, term=lease.term, holder=lease.holder, covers=covers,
                rules=LEASED, principal=lease.principal,
            )
            for key, covers in asked
        ]  # fmt: skip
        work: list[Any] = [self.books.ledger.admit(one) for one in wanted]
        at = min(at, len(work))
        work.insert(at, self.call(request))
        results = self.do(self.books.together(*work))
        answer: LeaseAnswer = results.pop(at)
        early = [ruling.effect_id for ruling in results[:at] if ruling.n is not None]
        late = [ruling for ruling in results[at:] if ruling.n is not None]
        self.admitted += [(one.effect_id, one.n) for one in results if one.n is not None]
        raised = {}
        if isinstance(answer.answer, Granted):
            hold("I4", not late, f"{late} are admitted behind {answer.answer.lease}")
            term = answer.answer.lease.term
            raised = {term: sorted({*before.unfinished(term), *early})}
        check_raises(before, self.watch.read(), raised)
        self.learn(answer)
        client.hear(request, answer, self.true_ms)
        self.look()

    # -- what happens to them

    @rule(ms=pauses)
    def time_passes(self, ms: int) -> None:
        self.let_pass(ms)

    @rule(down_ms=st.sampled_from([0, 300, 8_000]), jump_s=jumps)
    def the_gateway_crashes(self, down_ms: int, jump_s: int | None) -> None:
        """Crash and start again; with a jump, the machine goes down too."""
        self.crash(down_ms, jump_s)

    @rule(who=workers, used_ms=st.sampled_from([1, 60, 99]), jump_s=jumps)
    def the_gateway_crashes_between_two_questions(
        self, who: str, used_ms: int, jump_s: int | None
    ) -> None:
        for _ in range(2):
            self.ask(self.clients[who].asks("acquire", self.true_ms), 0, 0)
            self.let_pass(used_ms)
        self.crash(0, jump_s)
        self.ask(self.clients[who].asks("acquire", self.true_ms), 0, 0)

    @rule()
    def a_keeper_looks(self) -> None:
        before = self.watch.seen
        self.do(self.books.lapse())
        after = self.look()
        check_raises(before, after, {})
        if before.leads(self.books.ledger.clock.now_ms()):
            hold("I16", after.lease == before.lease, f"a keeper made {after.lease}")

    @rule()
    def the_keeper_strands(self) -> None:
        self.do(self.books.ledger.strand())
        self.look()

    @rule(who=workers, table=st.sampled_from(["lease", "scope", "handover"]))
    def the_disk_swallows_a_grant(self, who: str, table: str) -> None:
        change = sqlite3.connect(self.books.path, isolation_level=None)
        change.execute(
            f"CREATE TRIGGER swallow BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END"
        )
        try:
            self.ask(self.clients[who].asks("supersede", self.true_ms), 0, 0)
        except InvariantError:
            pass  # stopped, as it must be
        finally:
            change.execute("DROP TRIGGER swallow")
            change.close()
        self.look()

    @rule(seconds=st.sampled_from([-3600, 3600]))
    def the_wall_clock_is_stepped(self, seconds: int) -> None:
        self.books.clock.step_wall(seconds=seconds)

    @rule(operator=st.just("ops"))
    def an_operator_releases(self, operator: str) -> None:
        lease = self.watch.seen.lease
        if lease is None:
            return
        before = self.watch.seen
        self.excused.add(lease.term)
        self.do(self.books.release(lease.holder, lease.term, principal=operator, operator=True))
        check_raises(before, self.look(), {})
