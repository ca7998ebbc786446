"""Without any one guard of reconciliation the third simulation must fail."""

from __future__ import annotations

import pytest

from tests.simulation.chance import PROVE, SEED, count
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
