"""The state machine over units of work, by a seed that is told; and without its guards."""

from __future__ import annotations

import pytest
from hypothesis.stateful import run_state_machine_as_test

from gateway.core import work as rules
from gateway.store import claims, speech, work, work_rows
from tests.simulation.chance import PROVE, SEED, count, long_run, seeded
from tests.simulation.mutants import Mutant, killer
from tests.simulation.work_machine import Work

MUTANTS = [
    Mutant("the version of a checkpoint", rules, "judge_checkpoint",
           "if item.checkpoint_version != expected_version:", "if False:", (claims,)),
    Mutant("the claim behind a checkpoint", rules, "judge_checkpoint",
           "if not claim_is_live(item, worker, term, now_ms):", "if False:", (claims,)),
    Mutant("the term of a claim", rules, "judge_report",
           "item.worker != worker or item.term != term", "item.worker != worker", (claims,)),
    Mutant("the fence before a unit", speech, "refused_by_fence",
           "if refusal is not None:", "if False:", (claims, work)),
    Mutant("that a closed unit takes no more", speech, "refused_as_closed",
           "if status is UnitStatus.OPEN:", "if status is not None:", (claims, work)),
    Mutant("that open items stand in the way", rules, "judge_completion",
           "(ItemState.PENDING, ItemState.CLAIMED, ItemState.UNCERTAIN)", "()", (work,)),
    Mutant("that effects under way stand in the way", rules, "judge_completion",
           "if tally.in_flight:", "if False:", (work,)),
    Mutant("that unknown effects stand in the way", rules, "judge_completion",
           "if tally.unknown:", "if False:", (work,)),
    Mutant("what the batch has done before", speech, "refused_by_fence",
           "batch.flush()", "pass", (claims, work)),
    Mutant("items that wait", work_rows, "open_items",
           "return [item", "return [] and [item"),
    Mutant("a claim that lives", claims.Claiming, "_free",
           "(unit, self.speech.term, batch.now_ms, left_out, limit)",
           "(unit, self.speech.term, batch.now_ms + 10**9, left_out, limit)"),
    Mutant("that the leader settles what is uncertain", rules, "judge_report",
           "if item.state is ItemState.UNCERTAIN and leads:", "if False:", (claims,)),
]  # fmt: skip
ESSENTIAL = {"the version of a checkpoint", "that effects under way stand in the way"}


def test_no_history_of_a_unit_breaks_a_promise():
    examples, steps = count(25, 1000), count(30, 60)
    print(f"\n{examples} histories of {steps} steps by seed {SEED}")

    run_state_machine_as_test(seeded(Work), settings=long_run(examples, stateful_step_count=steps))


def test_the_table_of_guards_names_each_once():
    names = [mutant.guard for mutant in MUTANTS]

    assert len(set(names)) == len(names)
    assert set(names) >= ESSENTIAL
    for mutant in MUTANTS:
        assert callable(mutant.function())  # the text that it replaces is still there


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.guard)
        for mutant in MUTANTS
        if PROVE or mutant.guard in ESSENTIAL
    ],
)
def test_without_a_guard_a_promise_breaks(mutant: Mutant, monkeypatch: pytest.MonkeyPatch):
    mutant.apply(monkeypatch)

    killed_by = killer(Work, count(150, 1500))

    print(f"\n{mutant.guard:42} -> {killed_by}  (seed {SEED})")
    assert killed_by is not None
