"""Without any one guard of reconciliation the third simulation must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.simulation import destination
from tests.simulation.chance import PROVE, SEED, count
from tests.simulation.destination import Fate
from tests.simulation.mutants import killer
from tests.simulation.reconcile_machine import Reconciling
from tests.simulation.reconcile_mutants import RECONCILE_ESSENTIAL, RECONCILE_MUTANTS, Broken


def test_the_table_of_guards_of_reconciliation_names_each_once():
    names = [broken.guard for broken in RECONCILE_MUTANTS]

    assert len(set(names)) == len(names)
    assert set(names) >= RECONCILE_ESSENTIAL
    for broken in RECONCILE_MUTANTS:
        for mutant in broken.mutants:
            assert callable(mutant.function())  # the text that it replaces is still there


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(broken, id=broken.guard)
        for broken in RECONCILE_MUTANTS
        if PROVE or broken.guard in RECONCILE_ESSENTIAL
    ],
)
def test_without_a_guard_of_reconciliation_a_promise_breaks(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
):
    broken.apply(monkeypatch)

    killed_by = killer(Reconciling, count(300, 3000))

    print(f"\n{broken.guard:48} -> {killed_by}  (seed {SEED})")
    assert killed_by is not None


# What chance seldom provokes is told by hand: the same machine, one history.


@pytest.fixture
def machine() -> Iterator[Reconciling]:
    made = Reconciling()
    try:
        yield made
    finally:
        made.close()


AT_ONCE_LEFT = 1  # an odd place: the caller gives up at once
ARRIVES_LAST = 6_999  # and what is late arrives at its seal


def a_new_leader_comes_between_two_negatives(machine: Reconciling) -> None:
    sent = machine.send("create", 1, Fate.VANISHED, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(0)
    while len(machine.do(machine.watch.unknown(sent.effect_id)).probes) < 2:
        follow(machine, sent.effect_id)
    machine.terms.append(2)
    machine.send("mail", 2, Fate.ANSWERED, 0)
    for _ in range(4):
        follow(machine, sent.effect_id)


def the_first_write_still_travels_under_its_key(machine: Reconciling) -> None:
    sent = machine.send("keyed-one", 1, Fate.LATE, ARRIVES_LAST)
    assert sent is not None
    machine.time_passes(1_000)
    one = machine.decide(sent.effect_id)
    assert one is not None
    machine.take(one, Fate.ANSWERED, 1)
    machine.time_passes(ARRIVES_LAST)


def a_new_leader_comes_between_decision_and_resend(machine: Reconciling) -> None:
    sent = machine.send("keyed", 1, Fate.VANISHED, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(1_000)
    one = machine.decide(sent.effect_id)
    machine.terms.append(2)
    machine.send("mail", 2, Fate.ANSWERED, 0)
    assert one is not None
    machine.take(one, Fate.ANSWERED, 1)


def two_look_at_once(machine: Reconciling) -> None:
    sent = machine.send("create", 1, Fate.VANISHED, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(0)
    machine.two_look_at_one_effect_at_once(place=0, fate=Fate.ANSWERED)


def follow(machine: Reconciling, effect_id: str) -> None:
    """Take one step at its time."""
    one = machine.decide(effect_id)
    if one is None:
        return
    due_ms = getattr(one.step, "not_before_ms", getattr(one.step, "at_ms", 0))
    if due_ms > one.now_ms:
        machine.time_passes(due_ms - one.now_ms)
    else:
        machine.take(one, Fate.ANSWERED, 1)
        machine.answer_all()


STORIES: list[tuple[str, Callable[[Reconciling], None], str]] = [
    ("the term of a negative", a_new_leader_comes_between_two_negatives, "term of a negative"),
    ("one at a time under a native key", the_first_write_still_travels_under_its_key, "I7"),
    ("a resend passes the fence", a_new_leader_comes_between_decision_and_resend, "I4"),
    ("one probe at a time", two_look_at_once, "one probe at a time"),
]


@pytest.mark.parametrize(("guard", "story", "rule"), STORIES, ids=[one[0] for one in STORIES])
def test_a_story_breaks_a_promise_without_its_guard_and_none_with_it(
    guard: str,
    story: Callable[[Reconciling], None],
    rule: str,
    machine: Reconciling,
    monkeypatch: pytest.MonkeyPatch,
):
    story(machine)  # nothing breaks

    next(one for one in RECONCILE_MUTANTS if one.guard == guard).apply(monkeypatch)
    bare = Reconciling()
    try:
        with pytest.raises(destination.Broken) as broken:
            story(bare)
    finally:
        bare.close()

    print(f"\n{guard:48} -> {broken.value.rule}  (by hand)")
    assert broken.value.rule == rule
