"""The state machine over the real leases and the real ledger, by a seed that is told."""

from __future__ import annotations

from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.chance import SEED, count, long_run, seeded
from tests.simulation.lease_machine import Leadership


def test_no_history_of_leaders_breaks_a_promise():
    examples, steps = count(25, 1000), count(30, 60)
    print(f"\n{examples} histories of {steps} steps by seed {SEED}")

    run_state_machine_as_test(
        seeded(Leadership), settings=long_run(examples, stateful_step_count=steps)
    )
