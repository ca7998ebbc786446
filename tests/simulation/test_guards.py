"""A simulation that never fails proves nothing: without any one guard it must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.core.effect import Outcome
from gateway.store import deciding, operations, upkeep
from tests.conformance.books import Books, proposal, verdict
from tests.simulation.chance import PROVE, SEED, count
from tests.simulation.machine import Gateway
from tests.simulation.mutants import ESSENTIAL, MUTANTS, Mutant, killer


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

    killed_by = killer(Gateway, count(150, 1500))

    print(f"\n{mutant.guard:42} -> {killed_by}  (seed {SEED})")
    assert killed_by is not None


# What a truthful operator and a single process never provoke is shown by hand.


async def test_without_the_seal_behind_an_operators_word_a_newer_write_overtakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    guard = Mutant(
        "the seal behind a confirmation", deciding, "decide_effect",
        "attempt.open = batch.now_ms < attempt.seal_at_ms", "attempt.open = False", (upkeep,),
    )  # fmt: skip

    async def story(name: str) -> str:
        books = await Books.open(tmp_path / name)
        try:
            effect_id = await books.settled(Outcome.UNKNOWN, term=7)
            await books.resolve(effect_id, Outcome.CONFIRMED)  # it is on the wire all the same
            return await books.ask("k-2", term=8)
        finally:
            await books.close()

    assert await story("guarded.db") == "wait"
    guard.apply(monkeypatch)
    assert await story("bare.db") == "admit"


async def test_without_its_own_number_an_intent_is_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    guard = Mutant(
        "the number of one's own intent", operations, "_own_intent",
        "and prior.attempts == 1", "",
    )  # fmt: skip

    async def story(name: str) -> str:
        books = await Books.open(tmp_path / name)
        try:
            mine = proposal("e-mine", "k-1")
            await books.ledger.admit(mine)
            await books.settle("e-mine", Outcome.REJECTED)
            await books.admitted("k-1")
            return verdict(await books.ledger.admit(mine))
        finally:
            await books.close()

    assert await story("guarded.db") == "in-flight"
    guard.apply(monkeypatch)
    assert await story("bare.db") == "admit"
