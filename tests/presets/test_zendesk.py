"""Zendesk: a key that is kept for two hours, and a list that lags for what is older."""

from __future__ import annotations

from tests.presets.table import checks_of
from tests.presets.vendor import MARK, Vendor

ZENDESK = Vendor("zendesk")
CREATE, UPDATE, USER = "create a ticket", "update a ticket", "create or update a user"
ROUTES = [
    ("read", "read anything"),
    ("search", "read anything"),
    ("create", CREATE),
    ("create .json", CREATE),
    ("create many", "many at once"),
    ("update many", "many at once"),
    ("update", UPDATE),
    ("user by external id", USER),
    ("user by e-mail", None),
    ("delete", None),
]
KEY = {"Idempotency-Key": MARK}
SENT = [
    (
        "create",
        "POST /api/v2/tickets",
        KEY,
        {"ticket": {"subject": "Boleto", "comment": {"body": "?"}, "external_id": MARK}},
    ),
    (
        "create .json",
        "POST /api/v2/tickets.json",
        KEY,
        {"ticket": {"subject": "Boleto", "external_id": MARK}},
    ),
    ("update", "PUT /api/v2/tickets/35436", {}, {"ticket": {"status": "solved"}}),
]
ANSWERS = [
    ("create", "created", "confirmed id=35436", None),
    ("create", "created before", "confirmed id=35436, replayed", None),
    ("create", "key of another request", "unknown, key-misused, alarm", None),
    ("create", "invalid", "rejected", None),
    ("create", "too many", "no-effect, slow-down", None),
    ("create", "conflict", "unknown, key-busy", None),
    ("create", "broken", "unknown", None),
    ("create", "200 for a creation", "unknown", None),
    ("update", "updated", "confirmed id=35436", None),
    ("update", "conflict", "rejected", None),
    ("update", "broken", "unknown", None),
    ("user by external id", "user set", "confirmed", None),
    ("user by external id", "broken", "unknown", None),
]
QUESTIONS = [
    ("create", f"GET /api/v2/tickets?external_id={MARK}"),
    ("create .json", f"GET /api/v2/tickets?external_id={MARK}"),
]
FINDINGS = [
    ("create", "our ticket", "found id=35436"),
    ("create", "two of ours", "many"),
    ("create", "no ticket", "missing"),
    ("create", "filter ignored", "other"),
    ("create", "too many", "error"),
    ("create", "broken", "error"),
]
MINUTE = 60_000
STEPS = [
    (CREATE, {"age_ms": 65_000}, "wait"),  # two at the same time might both run
    (CREATE, {}, "send the same bytes again"),
    (CREATE, {"age_ms": 95 * MINUTE}, "send the same bytes again"),
    (CREATE, {"age_ms": 96 * MINUTE}, "look"),  # 80 % of two hours are over
    (CREATE, {"reason": "key-misused"}, "a person: key-misused"),
    (UPDATE, {}, "a person: no-guard"),
    (USER, {}, "send again"),
]
PROMISES = [
    (
        CREATE,
        "good",
        ["80% of the 2h", "an error is not kept", "looked for in the index", "left to a person"],
    ),
    (UPDATE, "at most once, then a person", []),
    (USER, "best effort", ["sent again under a live term"]),
]
TestTables = checks_of(
    ZENDESK,
    routes=ROUTES,
    sent=SENT,
    answers=ANSWERS,
    questions=QUESTIONS,
    findings=FINDINGS,
    steps=STEPS,
    promises=PROMISES,
)


def test_after_the_window_a_ticket_that_lags_is_looked_for_until_a_person_decides():
    route = ZENDESK.route(CREATE)
    look = route.look
    assert look is not None

    assert route.native_key is not None
    assert route.native_key.window_ms == 120 * MINUTE
    assert look.settle_ms >= route.limits.timeout_ms
    assert not route.resends_if_missing


def test_a_user_is_one_thing_by_its_external_id():
    assert ZENDESK.asked("user by external id").covers == "users/erp-7"
    assert ZENDESK.asked("create .json").covers == f"tickets/new/{MARK}"
