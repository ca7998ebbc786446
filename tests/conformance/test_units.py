"""Units of work: created once, handed out under the current term, ended once."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.core.effect import Outcome
from gateway.core.fence import Authority, Callers, FunctionRules
from gateway.core.work import UnitShown, UnitStatus
from gateway.store.work_records import UnitFilter
from tests.conformance.books import RULES, SEAL_MS, Books, settlement, verdict
from tests.conformance.working import TTL_MS, Site, outcome, plan

LEASED = FunctionRules(
    authority=Authority.LEASE, callers=Callers.LEADER_OR_CLAIMANT, registered_units=True
)


@pytest.fixture
async def site(store: Books) -> Site:
    """A unit of three items, under term 7."""
    site = Site(store)
    assert (await site.create()).made
    return site


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


async def test_items_are_handed_out_in_their_order_each_to_one_worker(site: Site):
    assert await site.claim("w#1", limit=2) == ["a", "b"]
    assert await site.claim("w#2", limit=2) == ["c"]
    assert await site.claim("w#3") == []
    assert [(i.worker, i.attempt, i.term) for i in await site.items()] == [
        ("w#1", 1, 7), ("w#1", 1, 7), ("w#2", 1, 7),
    ]  # fmt: skip


async def test_a_claim_asked_again_is_the_same_one_for_longer(site: Site):
    await site.claim("w#1", limit=2)
    site.books.clock.advance(ms=TTL_MS - 1)

    assert await site.claim("w#1", limit=2) == ["a", "b"]

    first = (await site.items())[0]
    assert (first.attempt, first.expires_at_ms) == (1, site.books.ledger.clock.now_ms() + TTL_MS)
    assert (await site.items())[2].state == "pending"


async def test_an_expired_claim_is_handed_out_again_and_reported_by_its_new_worker(site: Site):
    await site.claim("w#1", limit=1)
    site.books.clock.advance(ms=TTL_MS)

    assert await site.claim("w#2", limit=1) == ["a"]
    late = await site.report("w#1", ("a", "done", 1))
    taken = await site.report("w#2", ("a", "done", 2))

    assert (late.turned, taken.turned) == ({"a": "not-claimed"}, {})


async def test_what_was_done_under_an_expired_claim_is_heard_while_nobody_else_has_it(site: Site):
    await site.claim("w#1", limit=1)
    site.books.clock.advance(ms=TTL_MS)

    assert (await site.report("w#1", ("a", "done", 1))).turned == {}
    assert await site.claim("w#2") == ["b", "c"]


async def test_claims_under_an_older_term_do_not_count(site: Site):
    await site.claim("w#1")
    await site.report("w#1", ("a", "done", 1))
    new = site.under(8)
    assert not (await new.create()).made

    assert outcome(await site.checkpoint("w#1", "b", 0, 1)) == "stale-term"
    assert outcome(await new.checkpoint("w#1", "b", 0, 1)) == "not-claimed"
    assert (await new.report("w#1", ("b", "done", 1))).turned == {"b": "not-claimed"}
    found = await new.work(new.claiming("w#2"))
    assert [item.item for item in found.items] == ["b", "c"]
    assert (found.resumed_unit, found.resumed_items) == (True, 2)
    assert [item.attempt for item in found.items] == [2, 2]
    assert await new.kinds() == ["unit-open", "unit-processing", "unit-processing"]


async def test_a_worker_does_not_raise_a_term_that_nobody_has_led_under(site: Site):
    new = site.under(8)

    refused = await new.work(new.claiming("w#1"))

    assert outcome(refused) == "not-claimed"
    assert "term 8" in refused.reasons[0]
    assert site.books.scope() == (7, "leader#7")
    assert outcome(await new.create()) == "taken"


async def test_a_claim_lets_its_worker_send_for_its_item_only(site: Site):
    await site.claim("w#1", limit=1)
    ledger = site.books.ledger

    async def send(item: str | None, holder: str, key: str) -> str:
        return verdict(await ledger.admit(site.effect(key, item, holder)))

    assert await send("a", "w#1", "k-1") == "admit"
    assert await send("b", "w#1", "k-2") == "term-contested"
    assert await send(None, "w#1", "k-3") == "term-contested"
    assert await send("a", "w#2", "k-4") == "term-contested"
    assert await send(None, "leader#7", "k-5") == "admit"
    site.books.clock.advance(ms=TTL_MS)
    assert await send("a", "w#1", "k-6") == "term-contested"


async def test_a_claim_counts_for_no_other_function_with_an_equal_term(site: Site):
    await site.claim("w#1", limit=1)
    other = dataclasses.replace(site, function="sweep", unit="november")
    await other.create()

    for unit in ("october", "november"):
        asked = dataclasses.replace(other, unit=unit).effect("k-1", "a", "w#1")
        assert verdict(await site.books.ledger.admit(asked)) == "term-contested"


async def test_an_earlier_claimants_unfinished_attempt_holds_the_next_one_back(site: Site):
    ledger, clock = site.books.ledger, site.books.clock
    await site.claim("w#1", limit=1, ttl_ms=1000)
    first = await ledger.admit(site.effect("k-1", "a", "w#1", covers="crm /a"))
    await ledger.settle(settlement(first.effect_id, Outcome.UNKNOWN))
    clock.advance(ms=1000)
    # as after an operator's word: the effect is settled, but its packet may be under way yet
    db_says = "UPDATE effect SET outcome = 'no-effect' WHERE id = ?"
    await ledger._writer.run(lambda db, now_ms: db.execute(db_says, (first.effect_id,)))
    assert await site.claim("w#2", limit=1) == ["a"]

    async def send(covers: str, key: str) -> str:
        return verdict(await ledger.admit(site.effect(key, "a", "w#2", covers=covers)))

    assert await send("crm /a", "k-2") == "wait"
    assert await send("crm /other", "k-3") == "admit"
    clock.advance(ms=SEAL_MS)
    assert await site.claim("w#2", limit=1) == ["a"]
    assert await send("crm /a", "k-2") == "admit"


@pytest.mark.parametrize("settled", [None, Outcome.UNKNOWN], ids=["in flight", "unknown"])
async def test_an_item_with_an_effect_that_nobody_knows_of_waits(
    site: Site, settled: Outcome | None
):
    ledger = site.books.ledger
    await site.claim("w#1", limit=1)
    sent = await ledger.admit(site.effect("k-1", "a", "w#1"))
    if settled is not None:
        await ledger.settle(settlement(sent.effect_id, settled))
    site.books.clock.advance(ms=TTL_MS)

    found = await site.work(site.claiming("w#2"))
    assert ([item.item for item in found.items], found.waiting) == (["b", "c"], ["a"])

    await ledger.settle(settlement(sent.effect_id, Outcome.CONFIRMED))
    assert await site.claim("w#3") == ["a"]


async def test_uncertain_items_are_not_handed_out_and_the_leader_settles_them(site: Site):
    await site.claim("w#1")
    await site.report("w#1", ("a", "uncertain", 1), ("b", "uncertain", 1), ("c", "done", 1))
    assert (await site.shown()).shown is UnitShown.UNCERTAIN
    # its own worker may still come to know
    assert (await site.report("w#1", ("b", "failed", 1))).turned == {}

    new = site.under(8)
    await new.create()
    site.books.clock.advance(ms=TTL_MS)

    assert await new.claim("w#2") == []
    assert (await new.report("w#1", ("a", "done", 1))).turned == {"a": "not-claimed"}
    assert (await new.report("leader#8", ("a", "done", 2))).turned == {"a": "not-claimed"}
    for _ in range(2):  # the answer may be lost
        assert (await new.report("leader#8", ("a", "done", 1))).turned == {}
    assert outcome(await new.complete()) == "taken"


async def test_what_is_final_does_not_change(site: Site):
    await site.claim("w#1")
    await site.report("w#1", ("a", "done", 1), result={"id": 1})

    again = await site.report("w#1", ("a", "done", 1), result={"id": 2})
    other = await site.report("w#1", ("a", "failed", 1), ("z", "done", 1), ("b", "done", 2))

    assert again.turned == {}
    assert other.turned == {"a": "not-claimed", "z": "item-unknown", "b": "not-claimed"}
    first = (await site.items())[0]
    assert (first.state, first.result) == ("done", {"id": 1})


async def test_checkpoint_versions_step_by_one(site: Site):
    await site.claim("w#1", limit=1)
    first = await site.checkpoint("w#1", "a", 0, {"page": 1})
    again = await site.checkpoint("w#1", "a", 0, {"page": 1})
    other = await site.checkpoint("w#1", "a", 0, {"page": 2})
    ahead = await site.checkpoint("w#1", "a", 2, {"page": 2})
    second = await site.checkpoint("w#1", "a", 1, {"page": 2})
    nobody = await site.checkpoint("w#1", "z", 0, {})

    assert [(outcome(each), each.version) for each in (first, again, second)] == [
        ("taken", 1), ("taken", 1), ("taken", 2),
    ]  # fmt: skip
    assert [(outcome(each), each.version) for each in (other, ahead)] == [
        ("version-conflict", 1), ("version-conflict", 1),
    ]  # fmt: skip
    assert outcome(nobody) == "item-unknown"
    assert outcome(await site.checkpoint("w#2", "a", 2, {})) == "not-claimed"
    assert (await site.shown()).checkpoint == "a@2"


async def test_a_successor_resumes_from_the_last_checkpoint(site: Site):
    await site.claim("w#1", limit=1)
    await site.checkpoint("w#1", "a", 0, {"page": 4})
    new = site.under(8)
    await new.create()

    found = (await new.work(new.claiming("w#2", limit=1))).items[0]

    assert (found.item, found.checkpoint, found.checkpoint_version) == ("a", {"page": 4}, 1)
    assert found.data == {"name": "a"}
    assert outcome(await new.checkpoint("w#2", "a", 1, {"page": 5})) == "taken"


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
    site = Site(store, term=lease.term, rules=LEASED)
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
    site = Site(store, term=lease.term, rules=LEASED)
    await site.create()
    await site.claim("w#1", limit=1)
    held = await store.ledger.admit(site.effect("k-1", "a", "w#1"))
    await store.step_down("leader#1", lease.term)
    assert held.n is not None

    assert outcome(await site.work(site.claiming("w#1"))) == "leader-draining"
    assert outcome(await site.checkpoint("w#1", "a", 0, {"page": 1})) == "taken"
    assert (await site.report("w#1", ("a", "done", 1))).turned == {}


async def test_an_acknowledged_exception_lets_the_unit_end(store: Books):
    site = Site(store)
    await site.create("")
    sent = await store.ledger.admit(site.effect("k-1"))
    await store.ledger.settle(settlement(sent.effect_id, Outcome.UNKNOWN))
    assert outcome(await site.complete()) == "unit-unfinished"

    case_row = (
        "INSERT INTO exception_case (id, effect_id, function, unit, destination, reason, detail, "
        "owner, deadline_at_ms, opened_at_ms, acknowledged_by, evidence, version) "
        "VALUES (?, ?, 'report', 'october', 'crm', 'r', 'd', 'ops', 1, 1, ?, '{}', 1)"
    )

    async def case(case_id: str, by: str | None) -> None:
        given = (case_id, sent.effect_id, by)
        await store.ledger._writer.run(lambda db, now_ms: db.execute(case_row, given))

    await case("c-1", None)
    assert outcome(await site.complete()) == "unit-unfinished"
    close = "UPDATE exception_case SET closed_at_ms = 2"
    await store.ledger._writer.run(lambda db, now_ms: db.execute(close))
    await case("c-2", "olga")
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
