"""Stripe: its own idempotency key on every POST, the same bytes again within the window."""

from __future__ import annotations

import pytest

from tests.presets.table import checks_of
from tests.presets.vendor import MARK, Vendor

STRIPE = Vendor("stripe")
CREATE, FAMILY = "create an object", "create an object of a family"
CHANGE, DELETE = "change an object, or act on it", "delete an object"
ROUTES = [
    ("read", "read anything"),
    ("search", "read anything"),
    ("create", CREATE),
    ("charge", CREATE),
    ("create in a family", FAMILY),
    ("change", CHANGE),
    ("act", CHANGE),
    ("create in an unknown family", CHANGE),
    ("delete", DELETE),
    ("delete deeper", None),
    ("v2", "API v2"),
]
KEY = {"Idempotency-Key": MARK}
SENT = [
    ("create", "POST /v1/customers", KEY, {"name": "Ana", "metadata[term]": "7"}),
    (
        "charge",
        "POST /v1/payment_intents",
        KEY,
        {"amount": "900", "currency": "brl", "confirm": "true"},
    ),
    ("create in a family", "POST /v1/checkout/sessions", KEY, {"mode": "payment"}),
    ("act", "POST /v1/invoices/in_1/pay", KEY, {}),
    ("delete", "DELETE /v1/customers/cus_1", {}, None),
]
ANSWERS = [
    *(
        (asked, *row)
        for asked in ("create", "create in a family", "change")
        for row in (
            ("done", "confirmed id=cus_1", None),
            ("done before", "confirmed id=cus_1, replayed", None),
            ("declined", "confirmed", None),  # the attempt was made, and is on record
            ("invalid", "rejected", None),
            ("key of another request", "unknown, key-misused, alarm", None),
            ("still running", "unknown, key-busy", None),
            ("too many", "no-effect, slow-down", None),
            ("unauthorized", "no-effect", None),
            ("broken", "unknown", None),
            ("broken, repeat", "unknown", None),
            ("broken for good", "unknown", None),
            ("refused, but repeat", "unknown", None),
            ("no JSON", "unknown", None),
        )
    ),
    ("delete", "deleted", "confirmed id=cus_1", None),
    ("delete", "not there", "rejected", "confirmed"),
    ("delete", "broken", "unknown", None),
]
HOUR = 3_600_000
FOR_GOOD = {"reason": "rule-3"}  # of "broken for good"
STEPS = [
    *(
        (route, *row)
        for route in (CREATE, FAMILY, CHANGE)
        for row in (
            ({}, "send the same bytes again"),
            ({"age_ms": 1_000}, "wait"),
            ({"age_ms": 19 * HOUR}, "send the same bytes again"),
            ({"age_ms": 20 * HOUR}, "a person: window-over"),  # 80 % of 24 h are over
            ({"reason": "key-misused"}, "a person: key-misused"),
            (FOR_GOOD, "a person: never-retry"),
        )
    ),
    (DELETE, {}, "send again"),
]
PROMISES = [
    (CREATE, "strong", ["with the same key and bytes for 80% of the 1d", "left to a person"]),
    (FAMILY, "strong", ["with the same key and bytes"]),
    (CHANGE, "strong", ["with the same key and bytes"]),
    (DELETE, "best effort", ["sent again under a live term"]),
]
TestTables = checks_of(
    STRIPE,
    routes=ROUTES,
    sent=SENT,
    answers=ANSWERS,
    steps=STEPS,
    promises=PROMISES,
)


@pytest.mark.parametrize("asked", ["create", "create in a family", "change"])
def test_what_stripe_calls_broken_for_good_is_the_rule_that_never_sends_again(asked: str):
    assert STRIPE.asked(asked).meaning("broken for good").reason == FOR_GOOD["reason"]


def test_writes_to_one_object_have_one_name():
    assert STRIPE.asked("create").covers == f"customers/new/{MARK}"
    assert STRIPE.asked("create in a family").covers == f"checkout/sessions/new/{MARK}"
    assert STRIPE.asked("change").covers == STRIPE.asked("delete").covers == "customers/cus_1"
    assert STRIPE.asked("act").covers == "invoices/in_1"


def test_nothing_of_the_body_is_touched():
    assert STRIPE.asked("create").sent().body == b"name=Ana&metadata[term]=7"
