"""Without any one guard of reconciliation the third simulation must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.simulation import destination
from tests.simulation.chance import PROVE, SEED, count
from tests.simulation.mutants import killer
from tests.simulation.reconcile_machine import Reconciling
from tests.simulation.reconcile_mutants import RECONCILE_ESSENTIAL, RECONCILE_MUTANTS, Broken
from tests.simulation.reconcile_stories import STORIES

TOLD = frozenset(guard for guard, _, _ in STORIES)


def test_the_table_of_guards_of_reconciliation_names_each_once():
    names = [broken.guard for broken in RECONCILE_MUTANTS]

    assert len(set(names)) == len(names)
    assert set(names) >= RECONCILE_ESSENTIAL
    for broken in RECONCILE_MUTANTS:
        for mutant in broken.mutants:
            assert callable(mutant.function())  # the text that it replaces is still there


def test_with_every_guard_in_place_nothing_breaks():
    assert killer(Reconciling, count(40, 3000)) is None


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(broken, id=broken.guard)
        for broken in RECONCILE_MUTANTS
        if broken.guard in RECONCILE_ESSENTIAL or (PROVE and broken.guard not in TOLD)
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
