"""Salesforce: creates sent as upserts by an External ID, updates under a date."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.core.errors import Malformed
from gateway.core.probe import Missing
from gateway.wire.policy_file import load_policies
from tests.presets.table import checks_of
from tests.presets.vendor import MARK, PRESETS, TODAY, Vendor

SALESFORCE = Vendor("salesforce")
CREATE, UPDATE = "create a record", "update a record"
ROUTES = [
    ("query", "query"),
    ("read", "read a record"),
    ("read by external id", "read a record by an external id"),
    ("composite", "composite, batch and tree"),
    ("batch", "composite, batch and tree"),
    ("upsert by another field", "change by another external id"),
    ("create under an id", "create by another external id"),
    ("create deeper", "create by another external id"),
    ("delete", None),
    ("user interface API", None),
    ("create", CREATE),
    ("create with a slash", CREATE),
    ("update", UPDATE),
    ("update without a date", UPDATE),
]
ROOT = "/services/data/v59.0/sobjects/Contact"
SENT = [
    (
        "create",
        f"PATCH {ROOT}/Fence_Effect__c/{MARK}",
        {},
        {"LastName": "Prado", "Fence_Term__c": "7"},
    ),
    (
        "create with a slash",
        f"PATCH {ROOT}/Fence_Effect__c/{MARK}",
        {},
        {"LastName": "Prado", "Fence_Term__c": "7"},
    ),
    (
        "update",
        f"PATCH {ROOT}/003A",
        {"If-Unmodified-Since": "Mon, 30 Nov 2026 10:00:00 GMT"},
        {"Title": "CFO", "Fence_Effect_Last__c": MARK, "Fence_Term__c": "7"},
    ),
]
ANSWERS = [
    ("create", "created", "confirmed id=003A", None),
    ("create", "set again", "confirmed id=003A", None),
    ("create", "set again, no body", "confirmed", None),
    ("create", "several", "rejected, alarm", None),
    ("create", "quota", "no-effect, slow-down", None),
    ("create", "forbidden", "no-effect", None),
    ("create", "session over", "no-effect, alarm", None),
    ("create", "our field is taken", "unknown, look", None),
    ("create", "another field is taken", "rejected", None),
    ("create", "duplicate rule", "rejected", None),
    ("create", "row locked", "no-effect", None),
    ("create", "invalid", "rejected", None),
    ("create", "edge lost the instance", "unknown", None),
    ("update", "set again, no body", "confirmed", None),
    ("update", "changed since", "rejected, condition-lost", "rejected, condition-lost, look"),
    ("update", "row locked", "no-effect", None),
    ("update", "session over", "no-effect, alarm", None),
    ("update", "not there", "rejected", None),
    ("update", "edge lost the instance", "unknown", None),
]
QUESTIONS = [
    ("create", f"GET {ROOT}/Fence_Effect__c/{MARK}"),
    ("create with a slash", f"GET {ROOT}/Fence_Effect__c/{MARK}"),
    ("update", f"GET {ROOT}/003A"),
]
FINDINGS = [
    ("create", "our record", "found id=003A"),
    ("create", "not there", "missing"),
    ("create", "hidden field", "other"),
    ("create", "several", "error"),
    ("create", "quota", "error"),
    ("create", "session over", "error"),
    ("update", "our last change", "found id=003A"),
    ("update", "another's change", "missing"),
    ("update", "not changed", "missing"),
]
STEPS = [
    (CREATE, {}, "look"),
    (CREATE, {"seen": ["found"]}, "confirmed"),
    (CREATE, {"seen": ["missing"], "early": True}, "look later"),
    (CREATE, {"seen": ["missing", "missing"]}, "not there, so send again"),
    (CREATE, {"seen": ["missing", "missing"], "reason": "rule-5"}, "a person: never-retry"),
    (CREATE, {"seen": ["other"]}, "a person: other-content"),
    (UPDATE, {}, "look"),
    (UPDATE, {"seen": ["found"]}, "confirmed"),
    (UPDATE, {"seen": ["missing", "missing"]}, "not there, so send again"),
]
PROMISES = [
    (CREATE, "strong", ["looked for in the record", "130s after the seal", "sent again"]),
    (UPDATE, "best effort", ["under the same condition", "not exact"]),
]
TestTables = checks_of(
    SALESFORCE,
    routes=ROUTES,
    sent=SENT,
    answers=ANSWERS,
    questions=QUESTIONS,
    findings=FINDINGS,
    steps=STEPS,
    promises=PROMISES,
)


def test_an_update_without_a_date_is_not_sent():
    with pytest.raises(Malformed, match="If-Unmodified-Since"):
        SALESFORCE.asked("update without a date").sent()


def test_a_missing_change_of_a_record_that_moved_is_told_apart():
    moved = SALESFORCE.asked("update").finding("another's change")
    unmoved = SALESFORCE.asked("update").finding("not changed")

    assert (moved, unmoved) == (Missing(moved=True), Missing(moved=False))


def test_the_token_is_read_from_a_file_that_can_change(tmp_path: Path):
    shutil.copy(PRESETS / "salesforce.yaml", tmp_path)
    token = tmp_path / "salesforce-access-token"
    token.write_text("00D-first\n")

    loaded = load_policies(tmp_path, env={"SALESFORCE_DOMAIN": "acme"}, today=TODAY)

    assert loaded.policies is not None
    assert loaded.secret_files == (token,)
    destination = loaded.policies.destinations["salesforce"]
    assert destination.host == "acme.my.salesforce.com"
    assert destination.login is not None
    assert destination.login.header.value == "Bearer 00D-first"
