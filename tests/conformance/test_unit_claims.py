"""Items in the hands of workers: claims under the current term, checkpoints and reports."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.core.effect import Outcome
from gateway.core.work import UnitShown
from tests.conformance.books import SEAL_MS, settlement, verdict
from tests.conformance.working import TTL_MS, Site, outcome


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
