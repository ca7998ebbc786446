"""The guards of reconciliation, each taken away: what the third simulation has to notice.

Where two hold the same promise, one in the decision and one in the ledger, each is taken away
alone where what the other lets through shows, and both together where it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from gateway.core import effect, fence, reconcile
from gateway.store import batch, cases, deciding, probes, rows
from tests.simulation import reconcile_stage
from tests.simulation.mutants import Mutant


@dataclass(frozen=True)
class Broken:
    """One promise without all that holds it."""

    guard: str
    mutants: Sequence[Mutant]

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for mutant in self.mutants:
            mutant.apply(monkeypatch)


def _one(guard: str, *given: object) -> Broken:
    return Broken(guard, [Mutant(guard, *given)])  # type: ignore[arg-type]


def _seal_of_decision(new: str) -> Mutant:
    return Mutant("the seal", reconcile, "_by_look",
                  "countable_ms = _seal_ms(case) + look.settle_ms", new)  # fmt: skip


SEAL_OF_LEDGER = Mutant(
    "the seal", probes.Concluding, "run",
    "if any(self.started_at_ms < attempt.seal_at_ms for attempt in unknown):", "if False:",
)  # fmt: skip
SEAL_OF_WORD = Mutant(
    "the seal", deciding, "decide_effect",
    "if outcome is not Outcome.CONFIRMED and batch.now_ms < attempt.seal_at_ms:", "if False:",
    (probes, cases),
)  # fmt: skip
OVERTAKEN = Mutant(
    "superseded", reconcile, "_missing", "if case.overtaken:", "if False:"
)  # fmt: skip
OVERTAKEN_AGAIN = Mutant(
    "superseded", reconcile, "_why_not_again", "if case.overtaken:", "if False:"
)  # fmt: skip
SUPERSEDED = Mutant(
    "superseded", probes, "_is_superseded", "return row is None or bool(row[0])", "return False"
)  # fmt: skip
ONE_AT_A_TIME = Mutant(
    "one probe at a time", probes.OpeningProbe, "run", "if still_open:", "if False:"
)  # fmt: skip
SAME_TERM = Mutant(
    "the term", reconcile, "_by_look", "and probe.term == case.term", "and True"
)  # fmt: skip
SAME_TERM_IN_LEDGER = Mutant(
    "the term", probes.Concluding, "run",
    "if batch.scopes[effect.scope].highest_term != self.term:", "if False:",
)  # fmt: skip

RECONCILE_MUTANTS = [
    Broken("the sealed probe", [
        _seal_of_decision("countable_ms = look.settle_ms"), SEAL_OF_LEDGER, SEAL_OF_WORD]),
    Broken("the sealed probe, in the decision alone", [
        _seal_of_decision("countable_ms = look.settle_ms")]),
    Broken("the seal of the last attempt", [
        Mutant("the seal", reconcile, "_seal_ms", "return max(", "return min("),
        SEAL_OF_LEDGER, SEAL_OF_WORD]),
    Broken("the lag behind the seal", [_seal_of_decision("countable_ms = _seal_ms(case)")]),
    _one("two spaced negatives", reconcile, "_by_look",
         "if counted and counted[-1].started_at_ms - counted[0].started_at_ms >= spacing_ms:",
         "if counted:"),
    _one("the space between negatives", reconcile, "_by_look",
         "spacing_ms = max(SPACING_MIN_MS, look.settle_ms)", "spacing_ms = 1"),
    _one("errors are no negatives", reconcile, "_by_look",
         "if probe.verdict is Verdict.MISSING\n",
         "if probe.verdict in (Verdict.MISSING, Verdict.ERROR)\n"),
    Broken("the check for a later write", [OVERTAKEN, OVERTAKEN_AGAIN, SUPERSEDED]),
    Broken("the check for a later write, in the ledger alone", [SUPERSEDED]),
    _one("that a later write is noted", batch.Batch, "_write_superseded",
         "if self._superseded:", "if False:"),
    Broken("the term of a negative", [SAME_TERM, SAME_TERM_IN_LEDGER]),
    Broken("the term of a negative, in the ledger alone", [SAME_TERM_IN_LEDGER]),
    _one("the window of a native key", reconcile, "_by_key",
         "max(earliest_ms, case.now_ms) >= until_ms", "False"),
    _one("the window counts from the first", reconcile, "_by_key",
         "used_from_ms = min(", "used_from_ms = max("),
    _one("one at a time under a native key", reconcile, "_by_key",
         "after_seal=key.at_once == 1", "after_seal=False"),
    Broken("one probe at a time", [ONE_AT_A_TIME]),
    _one("a resend passes the fence", fence, "_authority",
         "if attempt.term < view.highest_term:",
         "if attempt.term < view.highest_term and not getattr(attempt, 'resend', False):"),
    Broken("a repetition waits for its older self", [
        Mutant("the seal", reconcile, "next_step",
               "return _again(case, _earliest_ms(case, after_seal=True))",
               "return _again(case, _earliest_ms(case, after_seal=False))", (reconcile_stage,)),
        Mutant("the barrier", fence, "_predecessor",
               "return unsealed(older, view.now_ms)",
               "return None if attempt.resend else unsealed(older, view.now_ms)")]),
    _one("a resend meets the effect as it was", probes.Resending, "run",
         "effect is None or effect.version != self.version", "effect is None"),
    _one("a resend needs a live term", reconcile, "_again",
         "if case.live_term is None or case.live_term < max(one.term for one in case.tries):",
         "if False:"),
    Broken("4xx on a later attempt proves nothing", [
        Mutant("add up", effect, "add_up",
               "return Outcome.UNKNOWN if Outcome.UNKNOWN in seen else last", "return last",
               (rows, reconcile))]),
    _one("what is found counts", probes.ClosingProbe, "run",
         "if self.verdict is Verdict.FOUND and effect.outcome is Outcome.UNKNOWN:", "if False:"),
    _one("found counts before the seal", reconcile, "_by_look",
         "earliest_ms = max(_over_ms(one) for one in _unknown(case))",
         "earliest_ms = countable_ms"),
    _one("an exception in place of asking for ever", reconcile, "_by_look",
         "if failures >= PROBES_FAILED_MAX:", "if False:"),
    _one("an exception in place of waiting for ever", reconcile, "_again",
         "if case.now_ms >= _seal_ms(case) + LEADER_AWAITED_MS:", "if False:"),
    _one("the end of a probe that was never closed", deciding, "close_lost_probes",
         "OR started_at_ms + ?4 \"\n        \"+ (SELECT max(deadline_at_ms - created_at_ms) "
         "FROM attempt WHERE effect_id = ?2) <= ?1)", "OR ?1 + ?4 < 0)", (probes,)),
]  # fmt: skip

RECONCILE_ESSENTIAL = frozenset(
    {
        "the sealed probe", "the lag behind the seal", "two spaced negatives",
        "the check for a later write", "the window of a native key",
        "4xx on a later attempt proves nothing", "found counts before the seal",
        "an exception in place of asking for ever",
    }
)  # fmt: skip
"""Those that every run of the tests takes away; the others wait for a proof."""
