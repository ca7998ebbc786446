"""What time does to leases is met once, whoever meets it, and journalled with its facts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.candidates import Eligibility, VersionRange
from gateway.core.effect import Outcome
from gateway.core.ids import Scope
from gateway.store.lapses import DRAIN_LOOK_MS, LOOK_MS
from gateway.store.lease_records import CandidateReport, TransitionFilter
from tests.conformance.books import RULES, TERMS, Books, by, came_to

NEW = replace(TERMS, eligible=Eligibility(versions=VersionRange.parse(">=2026.10")))
OLD = CandidateReport(version="2026.9")


async def kinds(store: Books) -> list[str]:
    return [one.kind for one in await store.transitions()]


@pytest.mark.parametrize("met_by", ["a keeper", "an acquire", "a release", "a step-down"])
async def test_an_expiry_is_journalled_once_whoever_meets_it(store: Books, met_by: str):
    lease = await store.leads("ana#1")
    left = await store.admitted("k", **by(lease))
    store.clock.advance(ms=RULES.ttl_ms + 700)
    match met_by:
        case "a keeper":
            (met, *_) = await store.lapse()
            assert (met.kind, met.record.lease.ended) == ("leader-lost", "expired")
        case "an acquire":
            await store.acquire("bo#1")
        case "a release":
            await store.release("ana#1", 1)
        case _:
            await store.step_down("ana#1", 1)

    for _ in range(2):
        await store.lapse()
        await store.release("ana#1", 1)
        await store.acquire("bo#1")
        await store.reopen()

    (lost,) = await store.transitions("leader-lost")
    assert (lost.term, lost.holder, lost.reason) == (1, "ana#1", "expired")
    assert lost.detail == {
        "ended_at_ms": lease.expires_at_ms,
        "acquired_at_ms": lease.acquired_at_ms,
    }
    assert (lost.uncertain, lost.responsible) == (1, "ops-comercial")
    assert store.rows("SELECT worker, at_ms FROM lease_loss") == [("ana", lease.expires_at_ms)]
    assert store.handovers()[-1] == (2, 1, [left])


async def test_a_renewal_or_a_write_that_comes_too_late_journals_nothing(store: Books):
    lease = await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms)
    before = await kinds(store)

    assert came_to(await store.renew("ana#1", 1)) == "lease-gone"
    assert await store.ask("k", **by(lease)) == "lease-expired"

    assert await kinds(store) == before


async def test_a_lease_that_is_late_is_noted_once_and_so_is_its_return(store: Books):
    await store.leads("ana#1")
    await store.renew("ana#1", 1)
    store.clock.advance(ms=RULES.ttl_ms - RULES.margin_ms - 1)
    assert await store.lapse() == []
    assert store.ledger.due_at_ms() == store.ledger.clock.now_ms() + 1
    store.clock.advance(ms=1)

    assert [one.kind for one in await store.lapse()] == ["leader-uncertain"]
    assert await store.lapse() == []
    assert store.looks_at(store.ledger.clock.now_ms() + RULES.margin_ms)
    await store.reopen()
    assert await store.lapse() == []
    await store.renew("ana#1", 1)
    await store.renew("ana#1", 1)

    assert (await kinds(store))[-2:] == ["leader-uncertain", "leader-renewing"]
    (late,) = await store.transitions("leader-uncertain")
    assert (late.reason, late.lease_version) == ("not-renewed-within-margin", 1)
    assert "renews" in (late.next_action or "")
    assert (await store.transitions("leader-renewing"))[-1].reason == "renewed-late"


async def test_every_transition_says_what_is_known_of_it(store: Books):
    await store.report("bo#1")
    first = await store.leads("ana#1")
    await store.acquire("bo#1")
    await store.acquire("bo#1")  # told once
    store.clock.advance(ms=1)
    await store.renew("ana#1", 1)
    await store.renew("ana#1", 1)  # told once
    left = await store.admitted("k", **by(first))
    await store.step_down("ana#1", 1)
    await store.hand_off("ana#1", 1, "bo#1")
    await store.settle(left, Outcome.CONFIRMED)
    await store.release("bo#1", 2)

    told = [
        (one.kind, one.term, one.holder, one.lease_version, one.reason, one.uncertain)
        for one in await store.transitions()
    ]
    assert told == [
        ("candidate", None, "bo#1", None, "reported", None),
        ("candidate", None, "ana#1", None, "reported", None),
        ("leader-acquired", 1, "ana#1", 1, "acquired", 0),
        ("follower", 1, "bo#1", 1, "lease-held", None),
        ("leader-renewing", 1, "ana#1", 1, "renewed", None),
        ("leader-renewing", 1, "ana#1", 2, "stepping-down", 1),
        ("leader-lost", 1, "ana#1", 3, "handed-off", 1),
        ("leader-acquired", 2, "bo#1", 4, "handed-off", 1),
        ("handover-reconciling", 2, "bo#1", 4, "unfinished-effects", 1),
        ("leader-lost", 2, "bo#1", 5, "released", 0),
    ]
    for one in await store.transitions():
        assert (one.function, one.unit) == ("report", "")
        assert one.next_action
        assert one.responsible == ("ops-comercial" if one.uncertain and one.kind in (
            "leader-lost", "leader-acquired", "handover-reconciling") else None)  # fmt: skip
        assert one.checkpoint is None
    assert (await store.transitions("handover-reconciling"))[0].detail == {"effects": [left]}
    acquired = await store.transitions("leader-acquired")
    assert acquired[1].detail == {"previous_term": 1, "free_ms": 0}


async def test_how_long_nobody_led_is_told_with_the_next_grant(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms + 6_500)
    await store.leads("bo#1")

    assert [one.detail for one in await store.transitions("leader-acquired")] == [
        {"previous_term": 0, "free_ms": None},
        {"previous_term": 1, "free_ms": 6_500},
    ]


async def test_transitions_are_numbered_without_going_back_and_can_be_followed(store: Books):
    for term in range(1, 4):
        await store.leads("ana#1")
        await store.release("ana#1", term)
    await store.acquire("ana#1", unit="october")

    reader = await store.ledger.reader()
    seen: list[int] = []
    while page := await reader.transitions(
        TransitionFilter(function="report", unit="", after=seen[-1] if seen else 0, limit=2)
    ):
        assert {one.unit for one in page} == {""}
        seen += [one.id for one in page]
    assert len(seen) == 7
    assert seen == sorted(set(seen))


# -- nobody who may lead


async def test_a_scope_that_nobody_can_lead_raises_one_alarm(store: Books):
    await store.acquire("ana#1", terms=NEW, report=OLD)

    (told,) = await store.lapse(NEW)
    assert told.kind == "no-eligible-candidate"
    (reason,) = told.reasons
    assert "'2026.9'" in reason
    assert await store.lapse(NEW) == []
    store.clock.advance(ms=LOOK_MS)
    await store.acquire("ana#1", terms=NEW, report=OLD)
    assert await store.lapse(NEW) == []

    (alarm,) = await store.transitions("no-eligible-candidate")
    assert alarm.responsible == "ops-comercial"
    assert alarm.detail == {"reasons": [reason]}
    assert "eligible worker" in (alarm.next_action or "")
    assert await store.transitions("leader-acquired") == []


async def test_the_alarm_is_raised_anew_after_somebody_could_lead(store: Books):
    await store.report("ana#1", version="2026.9")
    await store.lapse(NEW)
    await store.report("bo#1", version="2026.10")
    assert await store.lapse(NEW) == []
    await store.ledger.withdraw("report", "bo#1", "bo")

    assert [one.kind for one in await store.lapse(NEW)] == ["no-eligible-candidate"]


async def test_a_scope_that_its_candidates_left_raises_the_alarm_when_they_count_as_gone(
    store: Books,
):
    await store.leads("ana#1")
    await store.release("ana#1", 1)
    store.clock.advance(ms=RULES.fresh_for_ms - 1)
    assert await store.lapse() == []
    store.clock.advance(ms=1)

    (told,) = await store.lapse()
    assert (told.kind, told.reasons) == ("no-eligible-candidate", ())


async def test_a_unit_that_was_given_back_is_done_with_and_one_that_was_lost_is_not(store: Books):
    await store.leads("ana#1", unit="september")
    await store.release("ana#1", 1, unit="september")
    await store.leads("ana#1", unit="october")
    store.clock.advance(ms=RULES.ttl_ms + RULES.fresh_for_ms)

    told = {(one.kind, one.record.scope.unit) for one in await store.lapse()}

    assert told == {("leader-lost", "october"), ("no-eligible-candidate", "october")}


async def test_a_function_that_is_not_leased_is_left_alone(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms)

    assert await store.ledger.lapse({"sweep": TERMS}) == []
    assert store.looks_at(None)


async def test_the_keeper_is_told_when_there_may_be_something_to_do(store: Books):
    assert await store.lapse() == []
    assert store.looks_at(None)
    lease = await store.leads("ana#1")
    assert store.looks_at(lease.expires_at_ms - RULES.margin_ms)
    await store.lapse()
    assert store.looks_at(lease.expires_at_ms - RULES.margin_ms)

    await store.admitted("k", **by(lease))
    now_ms = (await store.step_down("ana#1", 1)).record.now_ms
    assert store.looks_at(now_ms + DRAIN_LOOK_MS)
    await store.release("ana#1", 1)
    await store.lapse()
    assert store.looks_at(now_ms + LOOK_MS)


# -- the bell


async def test_the_bell_rings_for_a_grant_and_not_for_a_renewal(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=1)
    await store.renew("ana#1", 1)  # the first is a change of state
    bell = store.ledger.bell
    with (
        bell.listen(Scope("report")) as here,
        bell.listen() as anywhere,
        bell.listen(Scope("report", "october")) as elsewhere,
    ):
        await store.renew("ana#1", 1)
        assert not here.is_set()
        assert not anywhere.is_set()

        await store.leads("ana#2", supersede=True)
        await asyncio.wait_for(here.wait(), 5)
        assert anywhere.is_set()
        assert not elsewhere.is_set()


async def test_the_bell_rings_for_what_a_keeper_meets(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms)
    with store.ledger.bell.listen(Scope("report")) as here:
        await store.lapse()
        assert here.is_set()
