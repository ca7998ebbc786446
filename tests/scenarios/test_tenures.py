"""The account of elections finds what is wrong: each kind of it, made on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.scenarios.tenures import Admission, Tenure, Tenures

ANA, BO = "ana#1", "bo#1"


def sound() -> Tenures:
    return Tenures(
        grants=[
            Tenure(1, ANA, 1000, 3000, "expired"),
            Tenure(2, BO, 3000, 4000, "released", free_ms=0),
            Tenure(3, ANA, 4500, free_ms=500),
        ],
        handovers={1: ANA, 2: BO, 3: ANA},
        admissions=[Admission(1, ANA, 2999), Admission(2, BO, 3000), Admission(3, ANA, 4600)],
        last_term=3,
    )


def told(term: int, holder: str, asked_s: float, at_s: float) -> dict[str, Any]:
    return {"term": term, "holder": holder, "asked_s": asked_s, "at_s": at_s}


def sent(term: int, began_s: float, effect: str = "confirmed") -> dict[str, Any]:
    return {"term": term, "began_s": began_s, "effect": effect}


GRANTS = [told(1, ANA, 1.0, 1.1), told(2, BO, 3.0, 3.1), told(3, ANA, 4.5, 4.6)]


def test_what_is_sound_is_left_alone():
    tenures = sound()

    tenures.must_hold_together()
    tenures.must_agree_with(GRANTS, [sent(1, 2.9), sent(2, 3.2), sent(1, 9.0, "not sent")])
    tenures.must_agree_with_the_crm([{"headers": [["X-Sent-Under", "2"], ["X-Sent-By", BO]]}])

    assert dict(tenures.broken) == {}
    assert tenures.without_leader_ms() == [0, 500]


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        ("not growing", {"grants": [sound().grants[n] for n in (0, 2, 1)]}),
        ("not growing", {"last_term": 4}),
        ("handovers", {"handovers": {1: ANA, 2: ANA, 3: ANA}}),
        (
            "overlapping",
            {"grants": [replace(sound().grants[0], ended_ms=3001), *sound().grants[1:]]},
        ),
        ("not the holder", {"admissions": [Admission(2, ANA, 3500)]}),
        ("outside of its tenure", {"admissions": [Admission(1, ANA, 3001)]}),
        ("outside of its tenure", {"admissions": [Admission(2, BO, 2999)]}),
    ],
)
def test_a_ledger_that_contradicts_itself_is_found(found, changed):
    tenures = replace(sound(), **changed)

    tenures.must_hold_together()

    assert found in tenures.broken


@pytest.mark.parametrize(
    ("found", "grants", "commands"),
    [
        ("told, not recorded", [told(4, BO, 5.0, 5.1)], []),
        ("told, not recorded", [told(2, ANA, 3.0, 3.1)], []),
        ("terms that fell", [told(2, BO, 3.0, 3.1), told(1, ANA, 3.2, 3.3)], []),
        ("believed too long", GRANTS, [sent(1, 3.2)]),
        ("believed too long", GRANTS, [sent(1, 4.7, "none")]),
    ],
)
def test_workers_that_were_told_otherwise_are_found(found, grants, commands):
    tenures = sound()

    tenures.must_agree_with(grants, commands)

    assert list(tenures.broken) == [found]


def test_a_request_of_somebody_else_at_the_crm_is_found():
    tenures = sound()

    tenures.must_agree_with_the_crm([{"headers": [["x-sent-under", "2"], ["x-sent-by", ANA]]}])

    assert list(tenures.broken) == ["not the holder, at the CRM"]
