"""Who may lead, who goes first, and how long anybody waits for a better one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.candidates import CoolOff, Eligibility, VersionRange
from gateway.core.lease import Turned
from gateway.store.lease_records import CandidateReport, FunctionTerms
from gateway.store.upkeep import Kept
from tests.conformance.books import RULES, TERMS, Books, came_to

NEW = replace(TERMS, eligible=Eligibility(versions=VersionRange.parse(">=2026.10")))
BO_FIRST = replace(TERMS, eligible=Eligibility(preferred="bo"))
COOL_OFF = replace(TERMS, eligible=Eligibility(cool_off=CoolOff(2, 600_000, 300_000)))
OLD, CURRENT = CandidateReport(version="2026.9"), CandidateReport(version="2026.10")


async def why(store: Books, holder: str, terms: FunctionTerms = TERMS, **more: object) -> Turned:
    answer = (await store.acquire(holder, terms=terms, **more)).answer
    assert isinstance(answer, Turned)
    return answer


async def test_the_preferred_one_that_reports_goes_first(store: Books):
    await store.report("bo#1")
    await store.report("ana#1")

    refused = await why(store, "ana#1", BO_FIRST)
    assert (refused.reason, refused.rival) == ("not-preferred", "bo#1")
    assert refused.retry_ms == RULES.prefer_for_ms
    assert came_to(await store.acquire("bo#1", terms=BO_FIRST)) == "granted 1 of bo#1"


async def test_a_preferred_one_that_reports_and_never_asks_is_waited_for_a_bounded_time(
    store: Books,
):
    await store.report("bo#1")
    await store.report("ana#1")
    store.clock.advance(ms=RULES.prefer_for_ms - 1)
    await store.report("bo#1")
    assert (await why(store, "ana#1", BO_FIRST)).retry_ms == 1

    store.clock.advance(ms=1)
    assert came_to(await store.acquire("ana#1", terms=BO_FIRST)) == "granted 1 of ana#1"


async def test_a_preferred_one_that_died_stalls_nobody(store: Books):
    await store.leads("bo#1", terms=BO_FIRST)
    await store.acquire("ana#1", terms=BO_FIRST)
    store.clock.advance(ms=RULES.ttl_ms)  # longer than a report counts

    assert came_to(await store.acquire("ana#1", terms=BO_FIRST)) == "granted 2 of ana#1"


async def test_one_that_withdraws_is_not_waited_for(store: Books):
    await store.report("bo#1")
    assert (await why(store, "ana#1", BO_FIRST)).reason == "not-preferred"

    assert not await store.ledger.withdraw("report", "bo#1", "eve")
    assert not await store.ledger.withdraw("report", "bo#2", "bo")
    assert await store.ledger.withdraw("report", "bo#1", "bo")
    assert not await store.ledger.withdraw("report", "bo#1", "bo")

    assert came_to(await store.acquire("ana#1", terms=BO_FIRST)) == "granted 1 of ana#1"
    assert store.rows("SELECT holder FROM candidate") == [("ana#1",)]


async def test_an_incompatible_version_does_not_lead(store: Books):
    refused = await why(store, "ana#1", NEW, report=OLD)

    assert refused.reason == "not-eligible"
    assert "'2026.9'" in refused.why
    assert ">=2026.10" in refused.why
    assert store.scope() is None
    answer = await store.acquire("ana#1", terms=NEW, report=CURRENT)
    assert came_to(answer) == "granted 1 of ana#1"


async def test_a_next_incarnation_of_an_unwanted_version_supersedes_nobody(store: Books):
    lease = await store.leads("ana#1", terms=NEW, report=CURRENT)

    refused = await why(store, "ana#2", NEW, report=OLD, supersede=True)

    assert refused.reason == "not-eligible"
    assert (await store.lease()).lease == lease


async def test_what_is_reported_comes_before_the_question_that_brings_it(store: Books):
    await store.report("ana#1", version="2026.9")
    assert (await why(store, "ana#1", NEW)).reason == "not-eligible"  # nothing new is said
    answer = await store.acquire("ana#1", terms=NEW, report=CURRENT)
    assert came_to(answer) == "granted 1 of ana#1"


async def test_a_name_that_another_principal_reports_under_is_not_free(store: Books):
    await store.report("ana#1", version="2026.10")
    taken = await store.report("ana#1", principal="eve", version="2026.9")
    assert (taken.candidate.principal, taken.candidate.version) == ("ana", "2026.10")

    refused = await why(store, "ana#1", NEW, principal="eve")  # by the report of another
    assert refused.reason == "not-eligible"
    assert "'ana#1'" in refused.why
    assert came_to(await store.acquire("ana#1", terms=NEW)) == "granted 1 of ana#1"


async def test_a_name_without_a_report_belongs_to_who_asks_first(store: Books):
    await store.leads("ana#1", principal="eve")

    assert (await why(store, "ana#1")).reason == "lease-held"
    assert came_to(await store.release("ana#1", 1)) == "not-holder"


async def test_one_that_loses_its_lease_again_and_again_lets_others_go_first(store: Books):
    for term in (1, 2):
        store.clock.advance(ms=RULES.prefer_for_ms)
        assert (await store.leads("ana#1", terms=COOL_OFF)).term == term
        store.clock.advance(ms=RULES.ttl_ms)
        await store.lapse(COOL_OFF)
    await store.report("bo#1")

    refused = await why(store, "ana#2", COOL_OFF)  # under another incarnation all the same
    assert (refused.reason, refused.rival) == ("not-preferred", "bo#1")
    answer = await store.acquire("bo#1", terms=COOL_OFF)
    assert came_to(answer) == "granted 3 of bo#1"


async def test_one_that_cools_off_leads_when_nobody_else_does(store: Books):
    for _ in range(3):
        await store.leads("ana#1", terms=COOL_OFF)
        store.clock.advance(ms=RULES.ttl_ms)

    assert came_to(await store.acquire("ana#1", terms=COOL_OFF)) == "granted 4 of ana#1"


@pytest.mark.parametrize("how", ["release", "step down", "supersede"])
async def test_only_an_expiry_counts_as_a_loss(store: Books, how: str):
    await store.leads("ana#1")
    match how:
        case "release":
            await store.release("ana#1", 1)
        case "step down":
            await store.step_down("ana#1", 1)
        case _:
            await store.leads("ana#2", supersede=True)

    assert store.rows("SELECT * FROM lease_loss") == []


async def test_losses_are_remembered_across_a_restart(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms)
    await store.lapse()
    (lost,) = store.rows("SELECT worker, at_ms FROM lease_loss")
    await store.reopen()
    await store.report("ana#2")

    reader = await store.ledger.reader()
    found = {
        one.candidate.holder: one.candidate.losses
        for one in await reader.candidates("report", store.ledger.clock.now_ms())
    }
    assert lost[0] == "ana"
    assert found == {"ana#1": (lost[1],), "ana#2": (lost[1],)}


async def test_candidates_and_losses_are_forgotten_after_a_day_and_terms_never(store: Books):
    await store.leads("ana#1")
    store.clock.advance(seconds=86_401 + RULES.ttl_ms)
    await store.lapse()
    store.clock.advance(seconds=86_401)
    await store.ledger.forget(Kept())

    assert store.rows("SELECT * FROM candidate") == []
    assert store.rows("SELECT * FROM lease_loss") == []
    assert (await store.lease()).last_term == 1
    assert came_to(await store.acquire("ana#1")) == "granted 2 of ana#1"
