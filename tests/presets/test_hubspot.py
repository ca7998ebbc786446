"""HubSpot: records guarded by a unique property, updates that are looked for, one e-mail."""

from __future__ import annotations

from tests.presets.table import checks_of
from tests.presets.vendor import MARK, Vendor

HUBSPOT = Vendor("hubspot")
READ, CREATE, UPDATE = "read a record", "create a record", "update a record"
ARCHIVE, MAIL = "archive a record", "send one e-mail"
ROUTES = [
    ("read", READ),
    ("list", "list records"),
    ("search", "search"),
    ("read many", "read many"),
    ("create many", "write many"),
    ("upsert many", "write many"),
    ("merge", "merge or erase"),
    ("erase", "merge or erase"),
    ("dated path", None),
    ("create", CREATE),
    ("update", UPDATE),
    ("archive", ARCHIVE),
    ("e-mail", MAIL),
]
STAMPS = {"fence_effect": MARK, "fence_term": "7"}
SENT = [
    (
        "create",
        "POST /crm/v3/objects/contacts",
        {},
        {"properties": {"email": "ana@example.com", **STAMPS}, "associations": []},
    ),
    (
        "update",
        "PATCH /crm/v3/objects/deals/900",
        {},
        {"properties": {"amount": "1500.00", "fence_effect_last": MARK, "fence_term": "7"}},
    ),
    ("archive", "DELETE /crm/v3/objects/deals/900", {}, None),
    (
        "e-mail",
        "POST /marketing/transactional/2026-03/single-email/send",
        {},
        {"emailId": 5, "message": {"to": "ana@example.com", "sendId": MARK}},
    ),
]
ANSWERS = [
    ("create", "created", "confirmed id=6001", None),
    ("create", "e-mail taken", "rejected", None),
    ("create", "conflict without words", "unknown, look", None),
    ("create", "conflict without JSON", "unknown, look", None),
    ("create", "invalid", "rejected", None),
    ("create", "too many", "no-effect, slow-down", None),
    ("create", "day used up", "no-effect, slow-down", None),
    ("create", "locked", "rejected", None),
    ("create", "477", "unknown", None),
    ("create", "broken", "unknown", None),
    ("create", "partial", "unknown", None),  # a success that is none of ours
    ("update", "updated", "confirmed id=900", None),
    ("update", "not there", "rejected", None),
    ("update", "too many", "no-effect, slow-down", None),
    ("update", "broken", "unknown", None),
    ("archive", "archived", "confirmed", None),
    ("archive", "not there", "rejected", "confirmed"),
    ("archive", "broken", "unknown", None),
    ("e-mail", "sent", "confirmed id=s-1", None),
    ("e-mail", "invalid", "rejected", None),
    ("e-mail", "broken", "unknown", None),
]
QUESTIONS = [
    (
        "create",
        f"GET /crm/v3/objects/contacts/{MARK}?idProperty=fence_effect"
        "&properties=fence_effect,fence_term",
    ),
    ("update", "GET /crm/v3/objects/deals/900?properties=fence_effect_last,fence_term"),
]
FINDINGS = [
    ("create", "our record", "found id=6001"),
    ("create", "not there", "missing"),
    ("create", "another's last change", "other"),
    ("create", "too many", "error"),
    ("create", "broken", "error"),
    ("update", "our last change", "found id=900"),
    ("update", "another's last change", "missing"),
    ("update", "never changed by us", "missing"),
    ("update", "not there", "error"),  # deleted since: asked again, then a person
]
STEPS = [
    (CREATE, {}, "look"),
    (CREATE, {"seen": ["found"]}, "confirmed"),
    (CREATE, {"seen": ["missing"], "early": True}, "look later"),  # it may still be running
    (CREATE, {"seen": ["missing"]}, "look later"),
    (CREATE, {"seen": ["missing", "missing"]}, "not there, so send again"),
    (CREATE, {"seen": ["missing", "missing"], "reason": "rule-3"}, "a person: never-retry"),
    (CREATE, {"seen": ["many"]}, "a person: several-matches"),
    (UPDATE, {}, "look"),
    (UPDATE, {"seen": ["found"]}, "confirmed"),
    (UPDATE, {"seen": ["missing", "missing"]}, "not there, so send again"),
    (ARCHIVE, {}, "send again"),
    (MAIL, {}, "a person: window-unknown"),
]
PROMISES = [
    (CREATE, "strong", ["looked for in the record", "sent again", "refuses or merges a second"]),
    (UPDATE, "best effort", ["looked for in the record", "sent again"]),
    (ARCHIVE, "best effort", ["once the first cannot be running"]),
    (MAIL, "at most once, then a person", ["how long the destination keeps it is not known"]),
]
TestTables = checks_of(
    HUBSPOT,
    routes=ROUTES,
    sent=SENT,
    answers=ANSWERS,
    questions=QUESTIONS,
    findings=FINDINGS,
    steps=STEPS,
    promises=PROMISES,
)


def test_a_mark_fits_into_the_property():
    assert len(MARK) <= 200


def test_the_workers_numbers_keep_their_digits():
    assert b'"1500.00"' in (HUBSPOT.asked("update").sent().body or b"")


def test_each_creation_is_a_thing_of_its_own_and_each_change_is_about_its_record():
    assert HUBSPOT.asked("create").covers == f"contacts/new/{MARK}"
    assert HUBSPOT.asked("update").covers == HUBSPOT.asked("archive").covers == "deals/900"
