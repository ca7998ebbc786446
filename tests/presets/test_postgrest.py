"""PostgREST: rows inserted once by our mark, and a fence inside the row for updates."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import Malformed
from tests.presets.table import (
    check_answer,
    check_finding,
    check_follows,
    check_nothing_forgotten,
    check_promise,
    check_question,
    check_route,
    check_sent,
)
from tests.presets.vendor import MARK, Vendor

POSTGREST = Vendor("postgrest")
INSERT, UPDATE = "insert a row once", "update rows that nobody newer has written"
ROUTES = [
    ("read", "read rows"),
    ("function", "functions"),
    ("function by GET", "functions"),
    ("insert", INSERT),
    ("insert many", INSERT),
    ("update", UPDATE),
    ("update, own term", UPDATE),
    ("upsert", None),
    ("delete", None),
]
ONCE = {
    "Prefer": "resolution=ignore-duplicates,return=representation",
    "Accept": "application/json",
}
SENT = [
    (
        "insert",
        "POST /notes?columns=text&on_conflict=effect_key&select=%2A",
        ONCE,
        {"text": "oi", "amount": 1.5, "effect_key": MARK, "fence_term": "7"},
    ),
    (
        "update",
        "PATCH /notes?id=eq.7&or=(a.is.null,a.gt.3)&fence_term=lte.7",
        {"Prefer": "return=representation"},
        {"text": "tchau", "fence_term": "7"},
    ),
]
ANSWERS = [
    ("insert", "inserted", "confirmed id=7", None),
    ("insert", "ignored", "unknown, look", None),
    ("insert", "ignored, 200", "unknown, look", None),
    ("insert", "another row", "unknown", None),  # it lost our mark on its way
    ("insert", "no JSON", "unknown", None),
    ("insert", "another field is taken", "rejected", None),
    ("insert", "invalid", "rejected", None),
    ("insert", "token over", "no-effect", None),
    ("insert", "too many", "no-effect", None),
    ("insert", "broken", "unknown", None),
    ("update", "updated", "confirmed", None),
    ("update", "no row", "rejected, condition-lost", "rejected, condition-lost, look"),
    ("update", "broken", "unknown", None),
]
QUESTIONS = [("insert", f"GET /notes?effect_key=eq.{MARK}")]
FINDINGS = [
    ("insert", "our row", "found id=7"),
    ("insert", "no row", "missing"),
    ("insert", "another row", "other"),
    ("insert", "token over", "error"),
    ("insert", "broken", "error"),
]
STEPS = [
    (INSERT, {}, "look"),
    (INSERT, {"seen": ["found"]}, "confirmed"),
    (INSERT, {"seen": ["missing"], "early": True}, "look later"),
    (INSERT, {"seen": ["missing", "missing"]}, "not there, so send again"),
    (INSERT, {"seen": ["missing", "missing"], "reason": "rule-2"}, "a person: never-retry"),
    (UPDATE, {"age_ms": 10_000}, "wait"),
    (UPDATE, {}, "send again"),
]
PROMISES = [
    (INSERT, "strong", ["looked for in the record", "sent again"]),
    (UPDATE, "good", ["under the same condition"]),
]


@pytest.mark.parametrize(("asked", "route"), ROUTES)
def test_each_request_has_its_route(asked: str, route: str | None):
    check_route(POSTGREST, asked, route)


@pytest.mark.parametrize(("asked", "line", "headers", "body"), SENT)
def test_a_write_is_sent_with_all_that_makes_it_answerable(
    asked: str, line: str, headers: dict[str, str], body: Any
):
    check_sent(POSTGREST, asked, line, headers, body)


@pytest.mark.parametrize(("asked", "answer", "first", "later"), ANSWERS)
def test_an_answer_proves_no_more_than_it_says(
    asked: str, answer: str, first: str, later: str | None
):
    check_answer(POSTGREST, asked, answer, first, later)


@pytest.mark.parametrize(("asked", "line"), QUESTIONS)
def test_a_question_asks_for_our_mark(asked: str, line: str):
    check_question(POSTGREST, asked, line)


@pytest.mark.parametrize(("asked", "answer", "verdict"), FINDINGS)
def test_a_probe_finds_too_little_and_never_too_much(asked: str, answer: str, verdict: str):
    check_finding(POSTGREST, asked, answer, verdict)


@pytest.mark.parametrize(("route", "known", "step"), STEPS)
def test_after_an_unknown_outcome_the_guard_decides(route: str, known: dict[str, Any], step: str):
    check_follows(POSTGREST, route, known, step)


@pytest.mark.parametrize(("route", "strength", "says"), PROMISES)
def test_a_route_promises_what_its_guard_can_keep(route: str, strength: str, says: list[str]):
    check_promise(POSTGREST, route, strength, *says)


def test_every_shape_and_every_route_is_in_a_table():
    check_nothing_forgotten(POSTGREST, ROUTES, ANSWERS, FINDINGS)


def test_many_rows_at_once_take_no_mark_and_are_not_sent():
    with pytest.raises(Malformed, match="no JSON object"):
        POSTGREST.asked("insert many").sent()


def test_the_workers_own_filter_stays_and_a_term_of_its_own_is_refused():
    assert "or=(a.is.null,a.gt.3)" in POSTGREST.asked("update").sent().target
    with pytest.raises(Malformed, match="fence_term"):
        POSTGREST.asked("update, own term").sent()


def test_an_update_is_about_the_rows_that_it_names():
    assert POSTGREST.asked("update").covers == "notes?id=eq.7&or=(a.is.null,a.gt.3)"
