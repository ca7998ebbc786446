"""Google Calendar: events under an id of ours, changed under the version that was read."""

from __future__ import annotations

import re

import pytest

from gateway.core.errors import Malformed
from tests.presets.table import checks_of
from tests.presets.vendor import MARK, MARK32, Vendor

CALENDAR = Vendor("google-calendar")
CREATE, CHANGE, DELETE = "create an event", "change an event", "delete an event"
ROUTES = [
    ("read", "read anything"),
    ("free or busy", "free or busy"),
    ("create", CREATE),
    ("change", CHANGE),
    ("replace", CHANGE),
    ("change whatever is there", CHANGE),
    ("change without a version", CHANGE),
    ("delete", DELETE),
    ("move", None),
    ("import", None),
    ("clear", None),
]
VERSION = {"If-Match": '"3181161784712000"'}
EVENT = "/calendar/v3/calendars/primary/events/ev1"
SENT = [
    (
        "create",
        "POST /calendar/v3/calendars/ana%40example.com/events?sendUpdates=all",
        {},
        {
            "id": MARK32,
            "summary": "Visita",
            "extendedProperties": {"private": {"crm": "7", "fence_term": "7"}},
        },
    ),
    ("change", f"PATCH {EVENT}", VERSION, {"summary": "Visita 2"}),
    ("replace", f"PUT {EVENT}", VERSION, {"summary": "Visita 2"}),
    ("delete", f"DELETE {EVENT}", VERSION, None),
]
OURS = f'id={MARK32} version="1"'
ANSWERS = [
    ("create", "created", f"confirmed {OURS}", None),
    ("create", "id taken", "unknown, look", None),
    ("create", "invalid", "rejected", None),
    ("create", "slower", "no-effect, slow-down", None),
    ("create", "too many", "no-effect, slow-down", None),
    ("create", "forbidden", "no-effect", None),
    ("create", "token over", "no-effect", None),
    ("create", "broken", "unknown", None),
    ("change", "changed", 'confirmed id=ev1 version="2"', None),
    ("change", "changed since", "rejected, condition-lost", "rejected, condition-lost, look"),
    ("change", "broken", "unknown", None),
    ("delete", "deleted", "confirmed", None),
    ("delete", "deleted before", "rejected", "confirmed"),
    ("delete", "changed since", "rejected, condition-lost", "rejected, condition-lost, look"),
]
QUESTIONS = [
    ("create", f"GET /calendar/v3/calendars/ana%40example.com/events/{MARK32}"),
]
FINDINGS = [
    ("create", "our event", f"found {OURS}"),
    ("create", "our event, tentative", f"found {OURS}"),
    ("create", "deleted since", "other"),
    ("create", "not there", "missing"),
    ("create", "slower", "error"),
    ("create", "broken", "error"),
]
STEPS = [
    (CREATE, {}, "look"),
    (CREATE, {"seen": ["found"]}, "confirmed"),
    (CREATE, {"seen": ["missing"], "early": True}, "look later"),
    (CREATE, {"seen": ["missing", "missing"]}, "not there, so send again"),
    (CREATE, {"seen": ["missing", "missing"], "reason": "rule-2"}, "a person: never-retry"),
    (CREATE, {"seen": ["other"]}, "a person: other-content"),
    (CHANGE, {"age_ms": 35_000}, "wait"),
    (CHANGE, {}, "send again"),
    (DELETE, {}, "send again"),
]
PROMISES = [
    (CREATE, "strong", ["looked for in the record", "1m after the seal", "sent again"]),
    (CHANGE, "good", ["under the same condition", "a person finds out to whom"]),
    (DELETE, "good", ["under the same condition"]),
]
TestTables = checks_of(
    CALENDAR,
    routes=ROUTES,
    sent=SENT,
    answers=ANSWERS,
    questions=QUESTIONS,
    findings=FINDINGS,
    steps=STEPS,
    promises=PROMISES,
)


@pytest.mark.parametrize("asked", ["change whatever is there", "change without a version"])
def test_a_change_without_the_version_that_was_read_is_not_sent(asked: str):
    with pytest.raises(Malformed, match="If-Match"):
        CALENDAR.asked(asked).sent()


def test_our_id_is_one_that_google_takes():
    assert re.fullmatch("[a-v0-9]{5,1024}", MARK32)


def test_writes_to_one_event_have_one_name():
    assert CALENDAR.asked("change").covers == CALENDAR.asked("delete").covers == "primary/ev1"
    assert CALENDAR.asked("create").covers == f"ana@example.com/new/{MARK}"
