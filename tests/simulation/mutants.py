"""Taking a guard away: one function of the product, with one piece of its text replaced."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from hypothesis.errors import HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from gateway.core import effect, fence
from gateway.store import batch, clock, operations, rows, settling, upkeep, writer
from tests.simulation.chance import ONLY_FIND, long_run, seeded
from tests.simulation.destination import Broken


@dataclass(frozen=True)
class Mutant:
    """`owner.name` without a guard: `old` in its text becomes `new`. `users` are the modules
    that imported the function by its name."""

    guard: str
    owner: ModuleType | type
    name: str
    old: str
    new: str
    users: tuple[ModuleType, ...] = ()

    def function(self) -> Callable[..., Any]:
        original = inspect.unwrap(getattr(self.owner, self.name))
        source = textwrap.dedent(inspect.getsource(original))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.old!r} stands {source.count(self.old)} times in {self.name}")
        module = inspect.getmodule(original)
        assert module is not None
        code = compile(
            source.replace(self.old, self.new),
            f"<{self.guard}>",
            "exec",
            flags=__future__.annotations.compiler_flag,
        )
        made: dict[str, Any] = {}
        exec(code, module.__dict__, made)
        function: Callable[..., Any] = made[self.name]
        return function

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        function = self.function()
        for place in (self.owner, *self.users):
            monkeypatch.setattr(place, self.name, function)


OF_BOTH_MODELS = [
    Mutant("the clock that never goes back", clock.StoreClock, "__init__",
           "max(now_ms + lag_ms, clock.wall_ms())", "clock.wall_ms()"),
    Mutant("the time that was used and not written", clock.StoreClock, "__init__",
           "now_ms + lag_ms", "now_ms"),
    Mutant("forgetting after a failed batch", writer.Writer, "_undo",
           "self._recent.forget()", "pass"),
    Mutant("forgetting before upkeep", writer.Writer, "_transaction",
           "self._recent.forget()", "pass"),
]  # fmt: skip
"""What effects and leases stand on alike: the store's time, and what it remembers."""

MUTANTS = [
    Mutant("the term check", fence, "_authority",
           "if attempt.term < view.highest_term:", "if False:"),
    Mutant("the holder check", fence, "_authority",
           "if contested and not _may_call(attempt, view):", "if False:"),
    Mutant("the fingerprint check", fence, "_spent_key",
           "if not prior.fingerprint.same_request(attempt.fingerprint):", "if False:"),
    Mutant("the unknown check", fence, "_spent_key",
           "return None if attempt.resend else Refusal.OUTCOME_UNKNOWN", "return None"),
    Mutant("the in-flight check", fence, "_spent_key",
           "return Refusal.IN_FLIGHT", "return None"),
    Mutant("the replay of what happened", fence, "_spent_key",
           "is OnDuplicate.REJECT else prior", "is OnDuplicate.REJECT else None"),
    Mutant("the row-count check", rows, "insert",
           "if written != len(rows):", "if False:"),
    Mutant("the barrier", fence, "_predecessor",
           "return unsealed(older, view.now_ms)", "return None"),
    Mutant("the barrier after the deadline", effect, "unsealed",
           "if now_ms < attempt.seal_at_ms", "if now_ms < attempt.deadline_at_ms",
           (fence,)),
    Mutant("the seal for an operator's no-effect", upkeep, "_unresolvable",
           "if given.outcome is Outcome.NO_EFFECT and any(", "if False and any("),
    Mutant("the term raise", fence, "decide",
           "raises = attempt.term > view.highest_term", "raises = False",
           (operations,)),
    Mutant("the strand at restart", batch.Batch, "strand",
           "late or not self.runs(attempt.instance)", "late"),
    Mutant("the strand after the deadline", batch.Batch, "strand",
           "late or not self.runs(attempt.instance)", "not self.runs(attempt.instance)"),
    Mutant("the compare-and-set of settling", effect, "settled_attempt",
           "return None", "return answer", (settling,)),
    Mutant("the sum over the attempts", operations, "_admit",
           "effect.outcome = effect.resolved_by", "effect.resolved_by"),
    Mutant("the seals across a jump of the clock", upkeep, "hold_seals",
           "seal_at_ms = seal_at_ms + ?", "seal_at_ms = seal_at_ms + 0 * ?"),
    Mutant("the handover's look at the whole scope", batch.Batch, "load",
           "if term > self.scopes[s].highest_term}", "if False}"),
    Mutant("the handover's look at the batch", batch.Batch, "add_attempt",
           "self._add_open(effect.scope, row_open)", "pass"),
    Mutant("the answer that stays", batch.Batch, "add_answer",
           "answer.body,", "answer.body + b'!',"),
    *OF_BOTH_MODELS,
]  # fmt: skip

ESSENTIAL = frozenset(
    {
        "the term check", "the fingerprint check", "the unknown check", "the in-flight check",
        "the row-count check", "the barrier", "the seal for an operator's no-effect",
        "the term raise", "the strand at restart", "the compare-and-set of settling",
    }
)  # fmt: skip
"""Those that every run of the tests takes away; the others wait for a proof."""


def killer(machine: type[RuleBasedStateMachine], examples: int) -> str | None:
    """Return which promise broke first, or None if all held."""
    try:
        run_state_machine_as_test(
            seeded(machine),
            settings=long_run(
                examples, stateful_step_count=40, phases=ONLY_FIND, report_multiple_bugs=False
            ),
        )
    except Broken as broken:
        return broken.rule
    except HypothesisException:
        raise
    except Exception as error:  # a product without its guards may fall in any way
        return type(error).__name__
    return None
