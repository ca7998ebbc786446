"""The lease machine: every verb in every state, and what no sequence of them may do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core import lease as machine
from gateway.core.candidates import Candidate, Eligibility, VersionRange
from gateway.core.lease import Answer, Ask, Changed, Ended, Granted, Kept, Lease, LeaseView
from tests.core.lease_edges import EDGES, misshown
from tests.core.lease_table import (
    CROSSED,
    NOW_MS,
    STATES,
    VERBS,
    Row,
    Situation,
    State,
    mistakes,
    verdict,
)

RULES = machine.LeaseRules(ttl_ms=1_000, prefer_for_ms=250, fresh_for_ms=600)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_answers_every_asker_under_every_term(verb: str, state: str):
    rows = [row for row in CROSSED if row[0].startswith(f"{verb}: {state}: ")]

    assert len(rows) == 20
    assert mistakes(machine, rows) == []


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in EDGES])
def test_a_verb_answers_at_the_edges(row: Row):
    assert mistakes(machine, [row]) == []


def test_the_whole_table_is_there_and_names_each_row_once():
    names = [name for name, _, _ in [*CROSSED, *EDGES]]

    assert len(CROSSED) == len(VERBS) * len(STATES) * 5 * 4
    assert len(set(names)) == len(names)


def test_a_lease_is_shown_and_told_to_the_fence_as_it_is():
    assert misshown(machine) == []


@pytest.mark.parametrize("verb", ["acquire", "renew", "release", "step-down", "hand-off"])
def test_an_answer_that_was_lost_is_given_again(verb: str):
    asked = {"verb": verb, "state": STATES["renewed" if verb != "acquire" else "never granted"]}
    _, first = Situation(**asked).ask(machine)
    assert isinstance(first, Granted | Changed)

    again = replace(Situation(**asked), state=as_state(first.lease))
    before, second = again.ask(machine)

    assert before == first.lease
    assert second == (Kept(first.lease) if verb != "renew" else Changed(first.lease))


def as_state(lease: Lease) -> State:
    """Return a state that has `lease` on record as it is."""

    class Recorded(State):
        def lease(self, module: object) -> Lease:
            return lease

    return Recorded("?")


def test_a_refusal_says_who_asked_for_what_and_what_is_so():
    asked = {"verb": "renew", "state": STATES["handed off"], "term": 7}

    _, answer = Situation(**asked).ask(machine)

    assert answer.why == "ana#1 names term 7, but cy#1 leads under term 8."
    assert verdict(machine, asked) == "lease-gone, rival cy#1"


@pytest.mark.parametrize(
    ("candidates", "lease", "expected"),
    [
        ((), "released", []),
        ((Candidate("a#1", "p", version="1", reported_at_ms=NOW_MS),), "released",
         ["'a#1' runs version '1', and the function wants '>=2'"]),
        ((Candidate("a#1", "p", version="1", reported_at_ms=0),), "released", []),
        ((Candidate("a#1", "p", version="1", reported_at_ms=NOW_MS),
          Candidate("b#1", "p", version="2", reported_at_ms=NOW_MS)), "released", None),
        ((), "renewed", None),
        ((), "never granted", []),
    ],
    ids=["none", "an old version", "a stale one", "one that may", "it is led", "never granted"],
)  # fmt: skip
def test_it_is_told_why_nobody_can_lead(
    candidates: tuple[Candidate, ...], lease: str, expected: list[str] | None
):
    view = LeaseView(
        now_ms=NOW_MS, last_term=7, lease=STATES[lease].lease(machine), candidates=candidates
    )
    wanted = Eligibility(versions=VersionRange.parse(">=2"))

    assert machine.no_candidate(view, RULES, wanted) == expected


# -- sequences

steps = st.lists(
    st.tuples(
        st.sampled_from([*VERBS, "acquire", "renew", "nothing"]),
        st.sampled_from(["ana#1", "ana#2", "bo#1"]),
        st.sampled_from([0, 0, 1, 2]),  # terms behind the last
        st.sampled_from([0, 1, 249, 250, 400, 600, 999, 1_000, 1_001]),  # then time passes
        st.integers(0, 2),  # effects in flight
    ),
    max_size=30,
)


@dataclass
class World:
    """A scope's history: what every verb came to, brought up to date as the ledger does it."""

    now_ms: int = NOW_MS
    lease: Lease | None = None
    tenures: list[Lease] = field(default_factory=list)  # ended ones
    candidates: dict[str, Candidate] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)

    def do(self, verb: str, holder: str, behind: int, in_flight: int) -> Answer | None:
        if self.lease is not None and self.lease.ended is None:
            self.lease = machine.lapse(self.lease, self.now_ms, in_flight)
            if self.lease.ended is not None:
                self.tenures.append(self.lease)
        last_term = self.lease.term if self.lease else 0
        ask = Ask(holder=holder, principal=holder[0], term=max(last_term - behind, 0))
        if verb in ("acquire", "supersede"):
            self.since.setdefault(holder, self.now_ms)
            self.candidates[holder] = Candidate(holder, holder[0], reported_at_ms=self.now_ms)
        view = LeaseView(
            now_ms=self.now_ms,
            last_term=last_term,
            lease=self.lease,
            in_flight=in_flight,
            candidates=[*self.candidates.values()],
            asking_since_ms=self.since.get(holder, self.now_ms),
        )
        answer = self._ask(verb, ask, view)
        self._learn(answer)
        return answer

    def _ask(self, verb: str, ask: Ask, view: LeaseView) -> Answer | None:
        match verb:
            case "acquire" | "supersede":
                return machine.acquire(ask, verb == "supersede", view, RULES, Eligibility())
            case "renew":
                return machine.renew(ask, view, RULES)
            case "release":
                return machine.release(ask, view)
            case "step-down":
                return machine.step_down(ask, 500, view)
            case "hand-off":
                return machine.hand_off(ask, "bo#1", view, RULES, Eligibility())
            case _:
                return None

    def _learn(self, answer: Answer | None) -> None:
        if isinstance(answer, Granted):
            last_term = self.lease.term if self.lease else 0
            assert answer.lease.term == last_term + 1
            if answer.before is not None:
                assert answer.before.ended in (Ended.SUPERSEDED, Ended.HANDED_OFF)
                self.tenures.append(answer.before)
            self.lease = answer.lease
        elif isinstance(answer, Kept | Changed):
            assert self.lease is not None
            assert answer.lease.term == self.lease.term
            assert self.lease.ended is None or answer.lease == self.lease  # it stays ended
            if answer.lease.ended is not None and self.lease.ended is None:
                self.tenures.append(answer.lease)
            self.lease = answer.lease


@given(steps)
@settings(max_examples=400, deadline=None, database=None)
def test_no_sequence_of_verbs_overlaps_tenures_or_uses_a_term_twice(
    history: list[tuple[str, str, int, int, int]],
):
    world = World()
    for verb, holder, behind, pause_ms, in_flight in history:
        world.do(verb, holder, behind, in_flight)
        world.now_ms += pause_ms

    tenures = [*world.tenures]
    if world.lease is not None and world.lease.ended is None:
        tenures.append(world.lease)
    assert [one.term for one in tenures] == list(range(1, len(tenures) + 1))
    for one, following in pairwise(tenures):
        assert one.ended_at_ms is not None
        assert one.acquired_at_ms <= one.ended_at_ms <= following.acquired_at_ms
        assert one.ended_at_ms <= one.expires_at_ms


@given(steps, st.sampled_from(["ana#1", "ana#2", "bo#1"]))
@settings(max_examples=200, deadline=None, database=None)
def test_whatever_has_happened_an_eligible_candidate_leads_after_the_expiry(
    history: list[tuple[str, str, int, int, int]], holder: str
):
    world = World()
    for verb, other, behind, pause_ms, in_flight in history:
        world.do(verb, other, behind, in_flight)
        world.now_ms += pause_ms
    world.do("acquire", holder, 0, 0)
    world.now_ms += RULES.ttl_ms + RULES.prefer_for_ms

    answer = world.do("acquire", holder, 0, 0)

    assert isinstance(answer, Granted)
    assert world.lease is not None
    assert world.lease.holder == holder
