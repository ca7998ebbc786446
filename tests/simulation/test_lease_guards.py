"""Without any one guard of leadership the second simulation must fail."""

from __future__ import annotations

import pytest

from tests.simulation.chance import PROVE, SEED, count
from tests.simulation.lease_machine import Leadership
from tests.simulation.lease_mutants import LEASE_ESSENTIAL, LEASE_MUTANTS
from tests.simulation.mutants import Mutant, killer


def test_the_table_of_lease_guards_names_each_once():
    names = [mutant.guard for mutant in LEASE_MUTANTS]

    assert len(set(names)) == len(names)
    assert set(names) >= LEASE_ESSENTIAL
    for mutant in LEASE_MUTANTS:
        assert callable(mutant.function())  # the text that it replaces is still there


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.guard)
        for mutant in LEASE_MUTANTS
        if PROVE or mutant.guard in LEASE_ESSENTIAL
    ],
)
def test_without_a_guard_of_leadership_a_promise_breaks(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
):
    mutant.apply(monkeypatch)

    # what chance provides depends on which tests ran before; one that is killed stops early
    killed_by = killer(Leadership, count(600, 1500))

    print(f"\n{mutant.guard:42} -> {killed_by}  (seed {SEED})")
    assert killed_by is not None
