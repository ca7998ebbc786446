"""Figures and promises, from records as the gateway and the CRM would give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.demo.promises import broken_promises
from gateway.demo.record import Applied, Record
from gateway.drill.figures import figures_of
from gateway.drill.run import Played
from gateway.drill.scenarios import SCENARIOS
from gateway.drill.table import header, last_words, line_of

UNIT = "report:2026-10-02"
FIRST, SECOND = "2026-10-02T07:00:00.000Z", "2026-10-02T07:00:05.000Z"
FIRST_MS = 1_790_924_400_000


def grant(term: int, at: str) -> dict[str, Any]:
    return {"kind": "leader-acquired", "term": term, "at": at, "holder": f"ana#{term}"}


def end(term: int, reason: str, ended_at_ms: int) -> dict[str, Any]:
    detail = {"ended_at_ms": ended_at_ms}
    return {"kind": "leader-lost", "term": term, "at": SECOND, "reason": reason, "detail": detail}


def effect(term: int, created_at: str, outcome: str | None = "confirmed") -> dict[str, Any]:
    return {
        "id": f"effect-{term}",
        "item": "lead-1",
        "outcome": outcome,
        "exception_id": None,
        "resolved_by": "answer",
        "attempts": [{"term": term, "created_at": created_at}],
    }


RECORD = Record(
    lease={"term": 2, "holder": "ana#2"},
    units=[{"unit": UNIT, "state": "unit-completed", "created_term": 1}],
    items=[{"item": "lead-1", "term": 2, "attempt": 2, "result": {"resumed_from": 3}}],
    effects=[effect(1, FIRST), effect(2, SECOND)],
    transitions=[grant(1, FIRST), end(1, "expired", FIRST_MS + 4000), grant(2, SECOND)],
    exceptions=[],
    applied=[
        Applied("POST /notes lead-1", 1, "notes/note-1@1"),
        Applied(f"POST /notes {UNIT}", 2, "notes/note-2@1"),
    ],
    leaked=[],
    duplicates=0,
)


def test_a_record_as_promised_has_its_figures_and_nothing_to_complain_of():
    figures = figures_of(RECORD, [FIRST_MS + 1500])

    assert broken_promises(RECORD) == []
    assert (figures.units, figures.effects, figures.intended) == (1, 2, 2)
    assert figures.terms == [1, 2]
    assert figures.without_leader_s == 3.5
    assert figures.resumed == ["lead-1@3"]
    assert figures.transitions == ["1 expired", "2"]


def test_without_word_of_when_it_was_stopped_a_leader_is_missed_from_the_end_of_its_lease():
    assert figures_of(RECORD, []).without_leader_s == 1.0


def test_a_successor_without_a_checkpoint_goes_on_at_the_manifest():
    without = replace(RECORD, items=[{**RECORD.items[0], "result": {"resumed_from": 0}}])
    first = replace(without, items=[{**without.items[0], "term": 1}])

    assert figures_of(without, []).resumed == ["manifest"]
    assert figures_of(first, []).resumed == ["none"]


TWICE = Applied("POST /notes lead-1", 2, "notes/note-3@1")
UNSTAMPED = Applied("POST /notes lead-1", 0, "notes/note-1@1")
BROKEN = [
    ({"duplicates": 1}, "the CRM counts 1 duplicates"),
    ({"applied": [*RECORD.applied, TWICE]}, "in the CRM 2 times, intended 1"),
    ({"applied": RECORD.applied[:1]}, "in the CRM 0 times, intended 1"),
    ({"applied": [UNSTAMPED, RECORD.applied[1]]}, "notes/note-1@1 went past the gateway"),
    ({"leaked": ["fence-term"]}, "the CRM saw the header fence-term"),
    ({"units": [{**RECORD.units[0], "state": "unit-uncertain"}]}, f"{UNIT} is unit-uncertain"),
    ({"effects": [effect(2, SECOND, "unknown")]}, "effect effect-2 is unknown, and in nobody's"),
    ({"effects": [effect(2, SECOND, None)]}, "effect effect-2 is in flight, and in nobody's"),
    ({"effects": [effect(1, "2026-10-02T07:00:05.001Z")]}, "under term 1 after the grant of term"),
    ({"transitions": RECORD.transitions[1:]}, "the grant of term 1 is not in the journal"),
    ({"transitions": RECORD.transitions[::2]}, "the end of term 1 is not in the journal"),
    ({"transitions": RECORD.transitions[::-1]}, "terms were granted in the order [2, 1]"),
]


@pytest.mark.parametrize(("change", "complaint"), BROKEN, ids=[each[1] for each in BROKEN])
def test_a_broken_promise_is_told(change: dict[str, Any], complaint: str):
    (broken,) = broken_promises(replace(RECORD, **change))

    assert complaint in broken


def test_what_a_person_has_been_given_is_not_lost():
    given = {**effect(2, SECOND, "unknown"), "exception_id": "case-1"}

    assert broken_promises(replace(RECORD, effects=[given])) == []


def test_a_scenario_is_one_line_below_its_heads():
    played = Played(SCENARIOS["leader-paused"], 5.0, figures_of(RECORD, []))

    line = line_of(played)

    assert header().index("terms") == line.index("1>2")
    assert " ".join(line.split()) == (
        "leader-paused 1 2/2 1>2 1.0 s lead-1@3 1 expired > 2 0 yes 0 ok"
    )
    assert last_words([played], 5)[0].startswith("ALL 1 AS PROMISED (5 s)")


def test_the_last_words_name_what_was_off():
    bad = Played(SCENARIOS["leader-paused"], 5.0, None, ["no leader above term 1"])

    assert line_of(bad).split() == ["leader-paused", *("-" * 9), "no"]
    words = last_words([bad], 5)
    assert words[0] == "1 OF 1 NOT AS PROMISED (5 s)"
    assert words[2] == "   !! no leader above term 1"
