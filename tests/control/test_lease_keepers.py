"""Keepers of leadership: what time ends, what is told of it, and what is counted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.control.lease_keepers import LeaseKeepers
from gateway.core.errors import LedgerUnavailable
from gateway.web.lease_metrics import LeaseMetrics
from gateway.web.metrics import OTHER, Metrics
from tests.control.leading import Leader, policies_with_leases
from tests.control.office import Office
from tests.control.test_keepers import lines
from tests.control.test_metrics import scraped
from tests.proxy.setting import eventually


async def until_counted(office: Office, name: str, value: float, **labels: str) -> None:
    async def there() -> bool:
        found = [
            number
            for known, said, number in await scraped(office)
            if known == name and labels.items() <= said.items()
        ]
        return sum(found) == value

    await eventually(there)


def keepers_of(office: Office) -> tuple[LeaseKeepers, LeaseMetrics]:
    """Keepers of their own, with metrics of their own, to be turned by hand."""
    panel = office.panel
    metrics = LeaseMetrics(Metrics().registry, panel.policies().functions)
    return LeaseKeepers(panel.ledger, panel.policies, metrics, panel.log), metrics


def value(metrics: LeaseMetrics, name: str, **labels: str) -> float | None:
    found: float | None = metrics._registry.get_sample_value(f"fencegate_{name}", labels)
    return found


async def test_a_lease_ends_though_nobody_asks(leased: Office) -> None:
    await Leader(leased).acquire()
    leased.clock.advance(seconds=20)

    async def journalled() -> bool:
        items = (await leased.house.get("/v1/transitions")).json["items"]
        return [i["reason"] for i in items if i["kind"] == "leader-lost"] == ["expired"]

    await eventually(journalled)


async def test_terms_and_the_time_between_them_are_counted_from_the_journal(
    leased: Office,
) -> None:
    keepers, metrics = keepers_of(leased)
    await keepers._tell()
    ana, bo = Leader(leased), Leader(leased, "bo#1")
    await ana.acquire()
    leased.clock.advance(seconds=4)
    await ana.named("renew")
    leased.clock.advance(seconds=6)
    await ana.named("release")
    await ana.withdraw()
    leased.clock.advance(seconds=2)
    await bo.acquire()
    leased.clock.advance(seconds=20)
    await eventually(lambda: expired(leased))
    await keepers._tell()

    ronda = {"function": "ronda"}
    assert value(metrics, "lease_acquisitions_total", **ronda) == 2
    assert value(metrics, "term_duration_seconds_count", **ronda) == 2
    assert value(metrics, "term_duration_seconds_sum", **ronda) == 30
    assert value(metrics, "new_leader_seconds_sum", **ronda) == 2
    assert value(metrics, "without_leader_seconds_count", **ronda) == 1
    assert value(metrics, "transitions_total", kind="leader-acquired") == 2
    assert value(metrics, "transitions_total", kind="leader-lost") == 2


async def expired(office: Office) -> bool:
    lost = [
        item["reason"]
        for item in (await office.house.get("/v1/transitions?limit=500")).json["items"]
        if item["kind"] == "leader-lost"
    ]
    return "expired" in lost


async def test_nobody_leads_from_the_moment_that_a_leader_steps_down(leased: Office) -> None:
    keepers, metrics = keepers_of(leased)
    await keepers._tell()
    ana, bo = Leader(leased), Leader(leased, "bo#1")
    await ana.acquire()
    await leased.in_flight("k-1", function="ronda", term=1)
    await ana.named("step-down")
    leased.clock.advance(seconds=3)
    await leased.land()
    await bo.report()
    await ana.named("hand-off", to="bo#1")
    await keepers._tell()

    assert value(metrics, "without_leader_seconds_sum", function="ronda") == 3
    handed_over_s = value(metrics, "new_leader_seconds_sum", function="ronda")
    assert handed_over_s is not None
    assert handed_over_s < 3


async def test_scopes_without_a_leader_or_anyone_to_lead_are_seen(leased: Office) -> None:
    keepers, metrics = keepers_of(leased)
    await keepers._tell()

    async def gauges() -> tuple[float | None, float | None]:
        await keepers._tell()
        await keepers._count()
        return (
            value(metrics, "scopes_without_leader"),
            value(metrics, "scopes_without_eligible_candidate"),
        )

    assert await gauges() == (2, 2)  # ronda and plantao; units come when they come
    await Leader(leased).acquire()
    assert await gauges() == (1, 1)
    await Leader(leased, function="plantao").report(version="2026.9")
    assert await gauges() == (1, 1)
    await Leader(leased, "bo#1", "plantao").report()
    assert await gauges() == (1, 0)
    assert value(metrics, "candidate_versions", function="plantao") == 2
    unit = Leader(leased, function="carteira", unit="u-1")
    await unit.acquire()
    assert await gauges() == (1, 0)
    await unit.named("release")
    assert await gauges() == (1, 0)  # a unit that was given back is done with
    await unit.acquire()
    leased.clock.advance(seconds=20)
    await eventually(lambda: expired(leased))
    assert await gauges() == (3, 3)


async def test_a_keeper_takes_up_what_an_earlier_run_left(leased: Office) -> None:
    await Leader(leased, function="carteira", unit="u-1").acquire()
    leased.clock.advance(seconds=20)
    await eventually(lambda: expired(leased))
    keepers, metrics = keepers_of(leased)

    await keepers._tell()
    await keepers._count()

    assert value(metrics, "scopes_without_leader") == 3
    assert value(metrics, "lease_acquisitions_total", function="carteira") is None


async def test_renewals_and_refusals_are_counted(leased: Office) -> None:
    ana = Leader(leased)
    await ana.acquire()
    await ana.named("renew")
    await ana.named("renew", term=5)
    await Leader(leased, "bo#1").acquire()

    for name, labels in (
        ("lease_renewals_total", {"function": "ronda"}),
        ("lease_renewal_failures_total", {"function": "ronda"}),
        ("lease_refusals_total", {"reason": "lease-held"}),
        ("lease_refusals_total", {"reason": "lease-gone"}),
    ):
        await until_counted(leased, name, 1, **labels)


async def test_labels_are_of_known_functions_reasons_and_kinds():
    metrics = LeaseMetrics(Metrics().registry, ["ronda"])

    metrics.renewal("made-up", done=True)
    metrics.acquired("made-up", 1.0, None)
    metrics.turned_away("made-up")
    metrics.journalled("made-up")

    assert value(metrics, "lease_renewals_total", function=OTHER) == 1
    assert value(metrics, "lease_acquisitions_total", function=OTHER) == 1
    assert value(metrics, "lease_refusals_total", reason=OTHER) == 1
    assert value(metrics, "transitions_total", kind=OTHER) == 1


async def test_a_lapse_that_could_not_be_recorded_is_tried_again(leased: Office) -> None:
    keepers, _ = keepers_of(leased)
    ledger = leased.panel.ledger
    lapse, calls = ledger.lapse, 0

    async def failing(terms: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise LedgerUnavailable("the disk is full")
        return await lapse(terms)

    ledger.lapse = failing
    ledger.due_at_ms = lambda: 0 if calls == 0 else None
    with pytest.raises(LedgerUnavailable):
        await keepers._lapse()
    await keepers._lapse()
    await keepers._lapse()

    assert calls == 2


async def test_an_expiry_is_told_with_its_consequence_and_who_acts(
    open_office: Any, capfdbinary: Any
) -> None:
    office: Office = await open_office(policies_with_leases, log_level="warning")
    keepers, _ = keepers_of(office)
    await keepers._tell()
    await Leader(office, function="plantao").acquire(candidate={"version": "2026.10"})
    await office.unknown("k-1", function="plantao", term=1)
    office.clock.advance(seconds=18)
    await eventually(lambda: journalled(office, "leader-uncertain"))
    office.clock.advance(seconds=2)
    await eventually(lambda: expired(office))
    office.clock.advance(seconds=14)
    await eventually(lambda: journalled(office, "no-eligible-candidate"))
    await keepers._tell()
    await asyncio.sleep(0)

    said = capfdbinary.readouterr().out
    lost = lines(said, "lease-expired")[-1]
    assert lost["level"] == "warning"
    assert "ana#1 did not renew in time" in lost["text"]
    assert "1 of its effects are unfinished" in lost["text"]
    assert (lost["function"], lost["term"], lost["responsible"]) == ("plantao", 1, "ops-comercial")
    assert lost["next_action"]
    late = lines(said, "leader-uncertain")[-1]
    assert "late to renew" in late["text"]
    nobody = lines(said, "no-eligible-candidate")[-1]
    assert (nobody["level"], nobody["responsible"]) == ("error", "ops-comercial")
    assert "its work stands still" in nobody["text"]


async def journalled(office: Office, kind: str) -> bool:
    items = (await office.house.get("/v1/transitions?limit=500")).json["items"]
    return kind in {item["kind"] for item in items}


async def test_the_gateway_runs_the_keepers_of_leadership(leased: Office) -> None:
    running = {task.get_name() for task in asyncio.all_tasks()}

    assert {"keeper-leases", "keeper-journal", "keeper-candidates"} <= running
