"""Ways for a lease to end: released, stepped down, handed off, superseded. Only by its name."""

from __future__ import annotations

import pytest

from gateway.core.effect import Outcome
from gateway.core.fence import Wait
from gateway.core.lease import Ended, Lease
from gateway.store.records import Unresolved
from tests.conformance.books import RULES, SEAL_MS, Books, by, came_to, proposal, verdict

DRAIN_MS = 10_000


async def on_disk(store: Books) -> Lease:
    lease = (await store.lease()).lease
    assert lease is not None
    return lease


# -- release


async def test_a_stale_release_ends_nothing(store: Books):
    await store.leads("ana#1")
    await store.release("ana#1", 1)
    lease = await store.leads("ana#1")  # by the very same holder, under a new term
    before = await store.lease()

    assert came_to(await store.release("ana#1", 1)) == "not-holder"
    assert came_to(await store.release("ana#1", 0)) == "not-holder"
    assert came_to(await store.release("ana#1", 3)) == "not-holder"
    assert came_to(await store.release("ana#2", 2)) == "not-holder"
    assert came_to(await store.release("ana#1", 2, principal="eve")) == "not-holder"

    assert await store.lease() == before
    assert await store.ask("k", **by(lease)) == "admit"


async def test_a_release_whose_answer_was_lost_is_answered_again(store: Books):
    await store.leads("ana#1")
    assert came_to(await store.release("ana#1", 1)) == "changed 1 of ana#1"
    store.clock.advance(seconds=3600)

    again = await store.release("ana#1", 1)
    assert came_to(again) == "kept 1 of ana#1"
    assert again.record.version == 2
    assert len(await store.transitions("leader-lost")) == 1


async def test_an_expired_lease_cannot_be_released(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms)

    assert came_to(await store.release("ana#1", 1)) == "not-holder"
    assert (await on_disk(store)).ended is Ended.EXPIRED


async def test_of_two_processes_with_one_name_one_leads(store: Books):
    lease = await store.leads("ana#1")

    assert came_to(await store.acquire("ana#2")) == "lease-held"
    assert came_to(await store.renew("ana#2", 1)) == "lease-gone"
    assert await store.ask("k", **(by(lease) | {"holder": "ana#2"})) == "not-holder"

    second = await store.leads("ana#2", supersede=True)
    assert await store.ask("k", **by(lease)) == "stale-term"
    assert came_to(await store.renew("ana#1", 1)) == "lease-gone"
    assert came_to(await store.release("ana#1", 1)) == "not-holder"
    assert await store.ask("k", **by(second)) == "admit"


async def test_two_processes_that_give_themselves_out_as_one_share_what_one_was_granted(
    store: Books,
):
    """A copied incarnation: the fence cannot tell them apart, and the keys keep them safe."""
    lease = await store.leads("ana#1")
    assert came_to(await store.acquire("ana#1")) == "kept 1 of ana#1"

    assert await store.ask("k", **by(lease)) == "admit"
    assert await store.ask("k", **by(lease)) == "in-flight"
    assert came_to(await store.release("ana#1", 1)) == "changed 1 of ana#1"
    assert came_to(await store.renew("ana#1", 1)) == "lease-gone"


async def test_another_principal_does_not_take_over_by_the_holders_name(store: Books):
    lease = await store.leads("ana#1")

    for name in ("ana#1", "ana#2"):
        answer = await store.acquire(name, principal="eve", supersede=True)
        assert came_to(answer) == "lease-held"
    assert came_to(await store.renew("ana#1", 1, principal="eve")) == "lease-gone"
    assert came_to(await store.step_down("ana#1", 1, principal="eve")) == "not-holder"
    assert came_to(await store.hand_off("ana#1", 1, "bo#1", principal="eve")) == "not-holder"

    assert await on_disk(store) == lease


async def test_an_operator_ends_a_lease_that_it_names_exactly(store: Books):
    await store.leads("ana#1")

    for holder, term in (("ana#1", 2), ("ana#2", 1)):
        answer = await store.release(holder, term, principal="ops", operator=True)
        assert came_to(answer) == "not-holder"
    assert came_to(await store.renew("ana#1", 1, principal="ops", operator=True)) == "lease-gone"
    answer = await store.release("ana#1", 1, principal="ops", operator=True)

    assert came_to(answer) == "changed 1 of ana#1"
    assert (await store.transitions("leader-lost"))[0].principal == "ops"


# -- step down and hand off


async def test_three_in_flight_one_left_the_successor_knows_exactly_that_one(store: Books):
    old = await store.leads("ana#1")
    done, gone, left = [
        await store.admitted(f"k-{thing}", **by(old), covers=thing) for thing in ("a", "b", "c")
    ]
    store.clock.advance(ms=100)
    await store.report("bo#1")

    answer = await store.step_down("ana#1", 1, DRAIN_MS)
    assert came_to(answer) == "changed 1 of ana#1"
    assert answer.record.in_flight == 3
    assert await store.ask("new", **by(old), covers="z") == "leader-draining"
    assert await store.ask("k-a", **by(old), covers="a") == "in-flight"

    await store.settle(done, Outcome.CONFIRMED)
    assert await store.ask("k-a", **by(old), covers="a") == "replay"
    await store.settle(gone, Outcome.REJECTED)
    assert await store.ask("k-b", **by(old), covers="b") == "leader-draining"
    assert (await on_disk(store)).ended is None

    answer = await store.hand_off("ana#1", 1, "bo#1")
    assert came_to(answer) == "granted 2 of bo#1"
    assert store.handovers()[-1] == (2, 1, [left])

    new = answer.answer.lease
    ruling = await store.admit("c-again", **by(new), covers="c")
    assert isinstance(ruling.decision, Wait)
    assert ruling.decision.predecessor.effect_id == left
    for thing in ("a", "b", "z"):
        assert await store.ask(f"{thing}-again", **by(new), covers=thing) == "admit"
    await store.settle(left, Outcome.CONFIRMED)
    assert await store.ask("c-again", **by(new), covers="c") == "admit"


async def test_a_hand_off_whose_answer_was_lost_is_answered_again(store: Books):
    await store.leads("ana#1")
    await store.report("bo#1")
    await store.report("cy#1")
    first = await store.hand_off("ana#1", 1, "bo")

    again = await store.hand_off("ana#1", 1, "bo")
    assert came_to(again) == "kept 2 of bo#1"
    assert again.answer.lease == first.answer.lease
    assert again.record.version == first.record.version
    assert came_to(await store.hand_off("ana#1", 1, "cy#1")) == "not-holder"
    assert store.handovers() == [(1, 0, []), (2, 1, [])]
    assert len(await store.transitions("leader-acquired")) == 2


async def test_the_successor_leads_in_its_own_name(store: Books):
    await store.leads("ana#1")
    await store.report("bo#1", principal="team-b")
    await store.hand_off("ana#1", 1, "bo#1")

    assert came_to(await store.renew("bo#1", 2, principal="ana")) == "lease-gone"
    assert came_to(await store.renew("bo#1", 2, principal="team-b")) == "changed 2 of bo#1"
    assert came_to(await store.acquire("bo#1", principal="team-b")) == "kept 2 of bo#1"


async def test_a_hand_off_to_one_that_may_not_lead_changes_nothing(store: Books):
    lease = await store.leads("ana#1")
    await store.report("bo#1", ready=False)
    before = await store.lease()

    for to in ("bo#1", "cy#1", "ana#1"):
        assert came_to(await store.hand_off("ana#1", 1, to)) == "not-eligible"
    store.clock.advance(ms=RULES.fresh_for_ms)
    await store.renew("ana#1", 1)
    await store.report("bo#1")
    store.clock.advance(ms=RULES.fresh_for_ms)  # and says nothing more
    assert came_to(await store.hand_off("ana#1", 1, "bo#1")) == "not-eligible"

    assert (await store.lease()).version == before.version
    assert await store.ask("k", **by(lease)) == "admit"


async def test_who_steps_down_with_nothing_in_flight_is_free_at_once(store: Books):
    lease = await store.leads("ana#1")
    await store.settled(Outcome.UNKNOWN, "k", **by(lease))  # nobody waits for its answer

    answer = await store.step_down("ana#1", 1, DRAIN_MS)

    assert answer.answer.lease.ended is Ended.DRAINED
    assert came_to(await store.step_down("ana#1", 1, DRAIN_MS)) == "kept 1 of ana#1"
    assert came_to(await store.release("ana#1", 1)) == "kept 1 of ana#1"
    assert await store.ask("k-2", **by(lease)) == "lease-expired"


async def test_draining_ends_with_the_last_answer(store: Books):
    lease = await store.leads("ana#1")
    effect_id = await store.admitted("k", **by(lease))
    await store.step_down("ana#1", 1, DRAIN_MS)
    assert came_to(await store.acquire("bo#1")) == "lease-held"

    await store.settle(effect_id, Outcome.CONFIRMED)
    store.clock.advance(ms=RULES.prefer_for_ms)
    await store.lapse()

    ended = await on_disk(store)
    assert ended.ended is Ended.DRAINED
    assert await store.ask("k", **by(lease)) == "replay"


@pytest.mark.parametrize("met_by", ["a keeper", "an acquire", "a release"])
async def test_draining_ends_at_its_time_whatever_is_left(store: Books, met_by: str):
    lease = await store.leads("ana#1")
    left = await store.admitted("k", **by(lease), timeout_ms=60_000)
    until_ms = (await store.step_down("ana#1", 1, DRAIN_MS)).answer.lease.drain_until_ms
    store.clock.advance(ms=DRAIN_MS - 1)
    assert await store.lapse() == []
    assert came_to(await store.renew("ana#1", 1)) == "changed 1 of ana#1"
    store.clock.advance(ms=1)
    assert came_to(await store.renew("ana#1", 1)) == "lease-gone"
    store.clock.advance(ms=RULES.ttl_ms * 2)

    match met_by:
        case "a keeper":
            met = [one.kind for one in await store.lapse()]
            assert met == ["leader-lost", "no-eligible-candidate"]
        case "an acquire":
            assert came_to(await store.acquire("bo#1")) == "granted 2 of bo#1"
            assert store.handovers()[-1] == (2, 1, [left])
        case _:
            assert came_to(await store.release("ana#1", 1)) == "kept 1 of ana#1"
    (lost,) = await store.transitions("leader-lost")
    assert (lost.reason, lost.uncertain) == ("drained", 1)
    assert lost.detail is not None
    assert lost.detail["ended_at_ms"] == until_ms


async def test_what_has_drained_may_still_be_handed_off_until_somebody_leads(store: Books):
    await store.leads("ana#1")
    await store.step_down("ana#1", 1, DRAIN_MS)
    await store.report("bo#1")
    assert came_to(await store.hand_off("ana#1", 1, "bo#1")) == "granted 2 of bo#1"

    await store.step_down("bo#1", 2, DRAIN_MS)
    await store.report("cy#1")
    store.clock.advance(ms=RULES.prefer_for_ms)
    await store.leads("cy#1")
    assert came_to(await store.hand_off("bo#1", 2, "ana#1")) == "not-holder"


async def test_stepping_down_again_does_not_drain_for_longer(store: Books):
    lease = await store.leads("ana#1")
    await store.admitted("k", **by(lease))
    first = await store.step_down("ana#1", 1, DRAIN_MS)
    store.clock.advance(ms=500)

    again = await store.step_down("ana#1", 1, 60_000)

    assert came_to(again) == "kept 1 of ana#1"
    assert again.answer.lease == first.answer.lease


async def test_a_step_down_and_the_writes_around_it_share_a_batch_in_order(store: Books):
    lease = await store.leads("ana#1")
    await store.report("bo#1")

    results = await store.together(
        store.ledger.admit(proposal("e-a", "a", covers="a", **by(lease))),
        store.step_down("ana#1", 1, DRAIN_MS),
        store.ledger.admit(proposal("e-b", "b", covers="b", **by(lease))),
        store.settle("e-a", Outcome.UNKNOWN),
        store.hand_off("ana#1", 1, "bo#1"),
        store.ledger.admit(proposal("e-c", "c", covers="c", **by(lease))),
    )

    assert store.watcher.batches[-1] == 6
    assert [verdict(results[at]) for at in (0, 2, 5)] == ["admit", "leader-draining", "stale-term"]
    assert came_to(results[4]) == "granted 2 of bo#1"
    assert store.handovers()[-1] == (2, 1, ["e-a"])


async def test_what_was_handed_over_is_settled_under_the_new_term_alone(store: Books):
    lease = await store.leads("ana#1")
    left = await store.admitted("k", **by(lease))
    await store.report("bo#1")
    await store.hand_off("ana#1", 1, "bo#1")
    assert await store.resolve(left, Outcome.NO_EFFECT) is Unresolved.NOT_UNKNOWN

    settled = await store.settle(left, Outcome.CONFIRMED)  # the late answer is the truth

    assert (settled.superseded, settled.highest_term) == (True, 2)
    store.clock.advance(ms=SEAL_MS)
    assert await store.ask("k", **by(await on_disk(store))) == "replay"
