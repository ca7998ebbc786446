"""PostgREST: rows inserted once by our mark, and a fence inside the row for updates."""

from __future__ import annotations

import pytest

from gateway.core.errors import Malformed
from tests.presets.table import checks_of
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
TestTables = checks_of(
    POSTGREST,
    routes=ROUTES,
    sent=SENT,
    answers=ANSWERS,
    questions=QUESTIONS,
    findings=FINDINGS,
    steps=STEPS,
    promises=PROMISES,
)


def test_many_rows_at_once_take_no_mark_and_are_not_sent():
    with pytest.raises(Malformed, match="no JSON object"):
        POSTGREST.asked("insert many").sent()


def test_the_workers_own_filter_stays_and_a_term_of_its_own_is_refused():
    assert "or=(a.is.null,a.gt.3)" in POSTGREST.asked("update").sent().target
    with pytest.raises(Malformed, match="fence_term"):
        POSTGREST.asked("update, own term").sent()


def test_an_update_is_about_the_rows_that_it_names():
    assert POSTGREST.asked("update").covers == "notes?id=eq.7&or=(a.is.null,a.gt.3)"
