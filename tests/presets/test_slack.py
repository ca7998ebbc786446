"""Slack: a mark in the message's metadata, and failures that arrive as 200."""

from __future__ import annotations

import pytest

from gateway.core.errors import Malformed
from tests.presets.table import checks_of
from tests.presets.vendor import FIRST_SENT_S, MARK, Vendor

SLACK = Vendor("slack")
POST, EDIT = "post a message", "edit a message"
ROUTES = [
    ("history", "read"),
    ("who am I", "read"),
    ("post", POST),
    ("post a form", POST),
    ("edit", EDIT),
    ("delete", None),
]
SENT = [
    (
        "post",
        "POST /api/chat.postMessage",
        {},
        {
            "channel": "C1",
            "text": "Bom dia",
            "metadata": {
                "event_type": "fence",
                "event_payload": {"id": 3, "effect": MARK, "term": "7"},
            },
        },
    ),
    (
        "edit",
        "POST /api/chat.update",
        {},
        {"channel": "C1", "ts": "1790000000.000100", "text": "Boa tarde"},
    ),
]
ID = "id=1790000001.000200"
ANSWERS = [
    ("post", "posted", f"confirmed {ID} channel=C1", None),
    ("post", "no such channel", "rejected", None),
    ("post", "too long", "rejected", None),
    ("post", "token revoked", "no-effect, alarm", None),
    ("post", "slower", "no-effect, slow-down", None),
    ("post", "too many", "no-effect, slow-down", None),
    ("post", "fatal", "unknown, look", None),
    ("post", "internal", "unknown, look", None),
    ("post", "duplicate not found", "unknown, look", None),
    ("post", "a word of tomorrow", "unknown, look", None),
    ("post", "neither", "unknown, look", None),
    ("post", "a page", "unknown, look", None),
    ("post", "broken", "unknown", None),
    ("edit", "posted", f"confirmed {ID} channel=C1", None),
    ("edit", "cannot edit", "rejected", None),
    ("edit", "token revoked", "no-effect, alarm", None),
    ("edit", "slower", "no-effect, slow-down", None),
    ("edit", "fatal", "unknown", None),
    ("edit", "neither", "unknown", None),
]
QUESTIONS = [
    (
        "post",
        f"GET /api/conversations.history?channel=C1&oldest={FIRST_SENT_S - 60}"
        "&inclusive=true&limit=200&include_all_metadata=true",
    ),
]
FINDINGS = [
    ("post", "ours among others", f"found {ID}"),
    ("post", "ours twice", "many"),  # one long text may become several messages
    ("post", "others only", "missing"),
    ("post", "nothing", "missing"),
    ("post", "a full page of others", "other"),
    ("post", "may not read", "other"),
    ("post", "slower", "error"),
    ("post", "a page", "error"),
]
STEPS = [
    (POST, {}, "look"),
    (POST, {"seen": ["found"]}, "confirmed"),
    (POST, {"seen": ["many"]}, "a person: several-matches"),
    (POST, {"seen": ["missing"], "early": True}, "look later"),
    (POST, {"seen": ["missing", "missing"]}, "a person: still-missing"),
    (POST, {"seen": ["other"]}, "a person: other-content"),
    (EDIT, {}, "send again"),
]
PROMISES = [
    (POST, "best effort", ["looked for in the record", "left to a person"]),
    (EDIT, "best effort", ["sent again under a live term"]),
]
TestTables = checks_of(
    SLACK,
    routes=ROUTES,
    sent=SENT,
    answers=ANSWERS,
    questions=QUESTIONS,
    findings=FINDINGS,
    steps=STEPS,
    promises=PROMISES,
)


def test_a_form_takes_no_mark_and_is_not_sent():
    with pytest.raises(Malformed, match="no JSON object"):
        SLACK.asked("post a form").sent()


def test_messages_do_not_wait_for_each_other_and_edits_do():
    assert SLACK.asked("post").covers == f"message/C1/{MARK}"
    assert SLACK.asked("edit").covers == "message/C1/1790000000.000100"
