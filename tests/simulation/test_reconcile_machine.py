"""The state machine of reconciliation over the real decision and the real ledger, by a seed."""

from __future__ import annotations

from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.chance import SEED, count, long_run, seeded
from tests.simulation.reconcile_machine import Reconciling


def test_no_history_of_lost_answers_breaks_a_promise():
    examples, steps = count(40, 2000), count(30, 50)
    print(f"\n{examples} histories of {steps} steps by seed {SEED}")

    run_state_machine_as_test(
        seeded(Reconciling), settings=long_run(examples, stateful_step_count=steps)
    )
