"""Units of work: created once, handed out under the current term, ended once."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.core.effect import Outcome
from gateway.core.fence import Authority, Callers, FunctionRules
from gateway.core.ids import Scope
from gateway.core.work import UnitStatus
from gateway.store.case_records import Act, Action, Opening
from gateway.store.work_records import UnitFilter
from tests.conformance.books import RULES, SEAL_MS, Books, settlement, verdict
from tests.conformance.working import Site, outcome, plan

LEASED = FunctionRules(
    authority=Authority.LEASE, callers=Callers.LEADER_OR_CLAIMANT, registered_units=True
)


async def test_a_unit_is_created_once_and_stands_as_it_is(site: Site):
    again = await site.create("xyz")

    assert (outcome(again), again.made) == ("taken", False)
    assert await site.states() == {"a": "pending", "b": "pending", "c": "pending"}
    assert (await site.shown()).manifest_digest == plan("abc").digest
    assert await site.kinds() == ["unit-open"]


async def test_two_leaders_in_one_batch_create_one_unit(store: Books):
    old, new = Site(store, 7), Site(store, 8)

    answers = await store.together(
        old.work(old.creating("abc")), new.work(new.creating("xyz")), old.work(old.creating("q"))
    )

    assert [(outcome(each), each.made) for each in answers] == [
        ("taken", True), ("taken", False), ("stale-term", False),
    ]  # fmt: skip
    assert list(await old.states()) == ["a", "b", "c"]
    assert store.scope() == (8, "leader#8")


async def test_another_functions_key_is_taken(site: Site):
    other = dataclasses.replace(site, function="sweep")

    assert outcome(await other.create()) == "unit-taken"
    assert outcome(await other.work(other.claiming())) == "unit-unknown"
    assert outcome(await other.complete()) == "unit-unknown"
    assert outcome(await other.abandon()) == "unit-unknown"


@pytest.mark.parametrize("callers", list(Callers))
async def test_only_the_leader_creates_completes_and_abandons(store: Books, callers: Callers):
    rules = FunctionRules(callers=callers)
    site = Site(store, rules=rules)
    await site.create("")
    expected = "taken" if callers is Callers.ANY else "term-contested"

    for verb in (site.creating(""), site.completing()):
        verb = dataclasses.replace(verb, speech=site.speech("worker#1"))
        assert outcome(await site.work(verb)) == expected


async def test_a_worker_claims_only_where_the_policy_says_so(store: Books):
    closed = Site(store, unit="closed", rules=FunctionRules())
    await closed.create()

    assert outcome(await closed.work(closed.claiming("worker#1"))) == "term-contested"
    assert await closed.claim() == ["a", "b", "c"]


async def test_completion_is_refused_while_anything_is_open(site: Site):
    ledger = site.books.ledger
    await site.claim("w#1", limit=2)
    sent = await ledger.admit(site.effect("k-1", "a", "w#1"))
    await site.report("w#1", ("b", "uncertain", 1))

    refused = await site.complete()
    assert outcome(refused) == "unit-unfinished"
    assert refused.reasons == [
        "1 of 3 items are pending", "1 of 3 items are claimed", "1 of 3 items are uncertain",
        "1 effects are in flight",
    ]  # fmt: skip

    await site.report("w#1", ("a", "done", 1), ("b", "failed", 1))
    await site.claim("w#1", limit=1)
    await site.report("w#1", ("c", "done", 1))
    await ledger.settle(settlement(sent.effect_id, Outcome.UNKNOWN))
    assert (await site.complete()).reasons == [
        "1 effects are unknown and nobody has answered for them"
    ]

    await ledger.settle(settlement(sent.effect_id, Outcome.CONFIRMED))
    other = await site.complete(digest="0" * 64)
    assert "000000000000… was named" in other.reasons[0]
    assert outcome(await site.complete(digest=plan("abc").digest, result={"sum": 3})) == "taken"
    shown = await site.shown()
    assert (shown.status, shown.result) == (UnitStatus.COMPLETED, {"sum": 3})
    assert outcome(await site.abandon()) == "unit-closed"


async def test_a_unit_is_completed_once_and_a_lost_answer_is_asked_again(store: Books):
    site = Site(store)
    await site.create("")

    first, again = await site.complete(result=1), await site.complete(result=1)

    assert (first.ended, again.ended, outcome(again)) == (True, False, "taken")
    assert outcome(await site.complete(result=2)) == "unit-closed"
    assert await site.kinds() == ["unit-open", "unit-completed"]


async def test_an_abandoned_unit_takes_its_open_items_with_it(site: Site):
    await site.claim("w#1", limit=2)
    await site.report("w#1", ("a", "done", 1), ("b", "uncertain", 1))

    assert outcome(await site.abandon("the window closed")) == "taken"
    assert outcome(await site.abandon("the window closed")) == "taken"
    assert outcome(await site.abandon("another reason")) == "unit-closed"

    assert await site.states() == {"a": "done", "b": "abandoned", "c": "abandoned"}
    assert outcome(await site.work(site.claiming("w#1"))) == "unit-closed"
    assert outcome(await site.report("w#1", ("b", "done", 1))) == "unit-closed"
    assert (await site.kinds())[-1] == "unit-abandoned"


async def test_an_operator_abandons_under_no_term(site: Site):
    assert outcome(await site.abandon("gave up", operator=True)) == "taken"

    last = (await site.books.transitions())[-1]
    assert (last.kind, last.term, last.reason) == ("unit-abandoned", None, "gave up")
    assert site.books.scope() == (7, "leader#7")


@pytest.mark.parametrize("first", ["the effect", "the completion"])
async def test_in_one_batch_an_effect_is_admitted_or_the_unit_is_completed(
    store: Books, first: str
):
    site = Site(store)
    await site.create("")
    work = [store.ledger.admit(site.effect("k-1")), site.work(site.completing())]

    if first == "the effect":
        ruling, ended = await store.together(*work)
        assert (verdict(ruling), outcome(ended)) == ("admit", "unit-unfinished")
    else:
        ended, ruling = await store.together(*reversed(work))
        assert (verdict(ruling), outcome(ended)) == ("unit-closed", "taken")


async def test_in_one_batch_a_claim_counts_for_the_effect_behind_it(site: Site):
    ledger = site.books.ledger
    early, claimed, late = await site.books.together(
        ledger.admit(site.effect("k-1", "a", "w#1")),
        site.work(site.claiming("w#1", limit=1)),
        ledger.admit(site.effect("k-2", "a", "w#1")),
    )

    assert (verdict(early), outcome(claimed), verdict(late)) == ("term-contested", "taken", "admit")


async def test_a_registered_unit_is_needed_where_the_policy_says_so(store: Books):
    site = Site(store, unit="november")

    assert verdict(await store.ledger.admit(site.effect("k-1"))) == "unit-unknown"
    await site.create()
    assert verdict(await store.ledger.admit(site.effect("k-1"))) == "admit"


async def test_under_a_lease_the_grant_decides_who_leads(store: Books):
    lease = await store.leads("leader#1")
    site = Site(store, term=lease.term, rules=LEASED, principal=lease.principal)
    assert outcome(await site.create()) == "taken"
    assert await site.claim("w#1", limit=1) == ["a"]
    assert outcome(await site.under(2).create()) == "term-never-issued"
    stranger = dataclasses.replace(site.creating(), speech=site.speech("other#1"))
    assert outcome(await site.work(stranger)) == "not-holder"

    store.clock.advance(ms=RULES.ttl_ms)
    assert outcome(await site.report("w#1", ("a", "done", 1))) == "lease-expired"
    assert outcome(await site.work(site.claiming("w#1"))) == "lease-expired"


async def test_a_leader_that_steps_down_hands_nothing_out_but_hears_what_was_done(store: Books):
    lease = await store.leads("leader#1")
    site = Site(store, term=lease.term, rules=LEASED, principal=lease.principal)
    await site.create()
    await site.claim("w#1", limit=1)
    held = await store.ledger.admit(site.effect("k-1", "a", "w#1"))
    await store.step_down("leader#1", lease.term)
    assert held.n is not None

    assert outcome(await site.work(site.claiming("w#1"))) == "leader-draining"
    assert outcome(await site.checkpoint("w#1", "a", 0, {"page": 1})) == "taken"
    assert (await site.report("w#1", ("a", "done", 1))).turned == {}


@pytest.mark.parametrize("action", [Action.ASSIGN, Action.EXTEND, Action.ABANDON])
async def test_an_unknown_effect_that_somebody_answers_for_lets_the_unit_end(
    store: Books, action: Action
):
    site = Site(store)
    await site.create("")
    sent = await store.ledger.admit(site.effect("k-1"))
    await store.ledger.settle(settlement(sent.effect_id, Outcome.UNKNOWN))
    store.clock.advance(ms=SEAL_MS)
    case = await store.ledger.open_case(
        Opening(
            effect_id=sent.effect_id, scope=Scope("report"), unit=site.unit, item=None,
            destination="crm", term=site.term, reason="no-guard", detail="nobody knows",
            owner="ops", deadline_ms=1000,
        )
    )  # fmt: skip
    assert outcome(await site.complete()) == "unit-unfinished"

    act = Act(
        case_id=case.id, action=action, principal="olga", reason="mine", version=case.version,
        owner="olga", deadline_ms=1000,
    )  # fmt: skip
    assert await store.ledger.act(act, sent.effect_id) is None
    assert outcome(await site.complete()) == "taken"


async def test_units_are_listed_by_how_they_stand_page_by_page(store: Books):
    for n in range(7):
        site = Site(store, unit=f"u-{n}")
        await site.create("a")
        if n % 3 == 0:
            await site.claim("w#1")
        if n % 3 == 1:
            await site.abandon()
    reader = await store.ledger.reader()

    async def names(limit: int, **wanted: object) -> list[str]:
        seen: list[str] = []
        behind = None
        while True:
            page = await reader.units(UnitFilter(limit=limit, behind=behind, **wanted))
            seen += [record.unit for record in page]
            if len(page) < limit:
                return seen
            behind = (page[-1].created_at_ms, page[-1].unit)

    assert sorted(await names(2)) == [f"u-{n}" for n in range(7)]
    assert sorted(await names(1, status="unit-processing")) == ["u-0", "u-3", "u-6"]
    assert sorted(await names(2, status="unit-abandoned")) == ["u-1", "u-4"]
    assert sorted(await names(1, status="unit-open")) == ["u-2", "u-5"]
    assert await names(5, function="sweep") == []


async def test_units_survive_a_restart(site: Site):
    await site.claim("w#1", limit=1)
    await site.checkpoint("w#1", "a", 0, {"page": 9})
    await site.books.reopen()

    assert await site.claim("w#1", limit=1) == ["a"]
    assert (await site.items())[0].checkpoint == {"page": 9}
