"""`/metrics`: everything that is promised is there, under labels from closed sets."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.web.case_metrics import REASONS
from gateway.web.lease_metrics import KINDS
from gateway.web.metrics import DECISIONS, OTHER, OUTCOMES
from gateway.web.reconcile_metrics import RESULTS
from gateway.wire.problem import PROBLEMS
from tests.control.office import Office
from tests.proxy.setting import eventually

NAMES = {
    "requests_total", "refusals_total", "replays_total", "unknown_total",
    "double_effects_prevented_total", "terms_raised_total", "policy_reload_failures_total",
    "overhead_seconds", "destination_seconds", "ledger_batch_size", "ledger_transaction_seconds",
    "ledger_lock_wait_seconds", "effects_unknown", "oldest_unknown_age_seconds", "inflight",
    "slot_waiting", "draining", "ledger_up", "ledger_restored", "policy_last_reload_ok",
    "ledger_crash_safe", "ledger_standby_safe",
    "policy_info",
    "transitions_total", "scopes_without_leader", "scopes_without_eligible_candidate",
    "reconcile_steps_total", "reconciliation_seconds", "exceptions_open", "exceptions_overdue",
    "exceptions_oldest_age_seconds", "alerts_waiting", "alerts_delivered_total",
    "alerts_failed_total",
}  # fmt: skip


async def scraped(office: Office) -> list[tuple[str, dict[str, str], float]]:
    got = await office.house.get("/metrics")
    assert got.status == 200
    assert got.headers["Content-Type"].startswith("text/plain; version=")
    return [
        (sample.name.removeprefix("fencegate_"), sample.labels, sample.value)
        for family in text_string_to_metric_families(got.body.decode())
        for sample in family.samples
        if sample.name.startswith("fencegate_")
    ]


async def fill(office: Office) -> None:
    """Traffic of every kind, with everything in it that a caller can make up."""
    await office.send("k-1")
    await office.send("k-1")
    await office.unknown("k-2")
    await office.send("k-2")
    await office.send("k-3", term=8, Fence_Unit="made-up-unit")
    await office.send("k-4", term=1)
    await office.send("k-5", destination="made-up-destination")
    await office.house.get("/d/made-up-too/x")
    await office.send("k-6", function="made-up-function")


async def test_every_metric_is_there_once_there_was_traffic(office: Office) -> None:
    await fill(office)
    (unknown,) = (await office.house.get("/v1/effects?outcome=unknown")).json["items"]
    await office.exception(unknown["id"])

    async def names() -> set[str]:
        return {
            name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
            for name, _, _ in await scraped(office)
        }

    async def counted() -> bool:  # a step is counted a moment after its record
        return "reconcile_steps_total" in await names()

    await eventually(counted)
    assert await names() == NAMES


async def test_labels_come_from_closed_sets(office: Office) -> None:
    await fill(office)

    sets = {
        "destination": {"crm", "erp", OTHER},
        "decision": {*DECISIONS, OTHER},
        "outcome": {*OUTCOMES, OTHER},
        "reason": {*PROBLEMS, *REASONS, OTHER},
        "result": {*RESULTS, OTHER},
        "kind": {*KINDS, OTHER},
        "digest": {office.panel.policies().digest},
    }
    for _, labels, _ in await scraped(office):
        for label, value in labels.items():
            assert label == "le" or value in sets[label]
    text = (await office.house.get("/metrics")).body
    assert b"made-up" not in text


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("requests_total", {"decision": "forwarded", "outcome": "confirmed"}, 2),
        ("replays_total", {"destination": "crm"}, 1),
        ("unknown_total", {"destination": "crm"}, 1),
        ("refusals_total", {"reason": "stale-term"}, 1),
        ("refusals_total", {"reason": "destination-unknown"}, 2),
        ("refusals_total", {"reason": "outcome-unknown"}, 1),
        ("double_effects_prevented_total", {}, 2),
        ("ledger_up", {}, 1),
        ("policy_last_reload_ok", {}, 1),
        ("draining", {}, 0),
        ("inflight", {}, 0),
    ],
)
async def test_what_happened_is_counted(
    office: Office, name: str, labels: dict[str, str], value: float
) -> None:
    await fill(office)

    found = [
        number
        for known, said, number in await scraped(office)
        if known == name and labels.items() <= said.items()
    ]

    assert sum(found) == value


async def test_requests_under_way_are_seen(office: Office) -> None:
    await office.in_flight("k-slow")

    during = {name: value for name, labels, value in await scraped(office) if not labels}
    await office.land()
    after = {name: value for name, labels, value in await scraped(office) if not labels}

    assert (during["inflight"], after["inflight"]) == (1, 0)
