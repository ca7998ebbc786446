"""Terms that the gateway grants: they only grow, and a grant shuts the older ones out."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.effect import Outcome
from gateway.core.fence import FunctionRules
from gateway.core.lease import Ended, Granted
from gateway.store.upkeep import Identity
from tests.conformance.books import (
    LEASED,
    RULES,
    Books,
    by,
    came_to,
    proposal,
    settlement,
    verdict,
)

HOUR_S = 3600
FUNCTION = Identity("function", "report", "lease, function")


async def expire(store: Books) -> None:
    """Let the lease expire, and the time pass for which a better candidate is waited for."""
    store.clock.advance(ms=RULES.ttl_ms + RULES.prefer_for_ms)


async def test_terms_start_at_one_and_grow_with_each_grant(store: Books):
    assert came_to(await store.acquire("ana#1")) == "granted 1 of ana#1"
    assert came_to(await store.release("ana#1", 1)) == "changed 1 of ana#1"
    assert came_to(await store.acquire("ana#1")) == "granted 2 of ana#1"
    await expire(store)
    assert came_to(await store.acquire("ana#1")) == "granted 3 of ana#1"

    found = await store.lease()
    assert (found.last_term, found.transitions) == (3, 3)
    assert store.scope() == (3, "ana#1")


async def test_each_scope_has_terms_of_its_own(store: Books):
    await store.leads("ana#1")
    await store.release("ana#1", 1)
    await store.leads("ana#1")

    assert (await store.leads("ana#1", unit="october")).term == 1
    assert (await store.lease("october")).last_term == 1
    assert (await store.lease()).last_term == 2


@pytest.mark.parametrize("reboot", [False, True], ids=["restart", "reboot"])
@pytest.mark.parametrize("step_s", [-HOUR_S, 0, HOUR_S])
async def test_terms_survive_restarts_whatever_the_wall_clock_says(
    store: Books, reboot: bool, step_s: int
):
    for term in range(1, 5):
        lease = await store.leads("ana#1")
        assert lease.term == term
        await (store.release("ana#1", term) if term % 2 else expire(store))
        await store.reopen(reboot=reboot, step_wall_s=step_s)
        assert came_to(await store.renew("ana#1", term)) == "lease-gone"
        store.clock.advance(ms=RULES.prefer_for_ms)


async def test_a_live_lease_lives_on_across_a_restart(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms - 1000)
    await store.reopen(step_wall_s=-HOUR_S)

    assert came_to(await store.acquire("bo#1")) == "lease-held"
    assert came_to(await store.renew("ana#1", 1)) == "changed 1 of ana#1"
    assert came_to(await store.acquire("ana#1")) == "kept 1 of ana#1"


@pytest.mark.parametrize("step_s", [-HOUR_S, 0, HOUR_S])
async def test_an_expired_lease_does_not_live_again_after_a_reboot(store: Books, step_s: int):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms)
    await store.ledger.beat()  # the time that has come is on record
    await store.reopen(reboot=True, step_wall_s=step_s)

    assert came_to(await store.renew("ana#1", 1)) == "lease-gone"
    assert (await store.ask("k", **by(await store.leads("ana#1")))) == "admit"
    assert await store.ask("k-2", term=1, holder="ana#1", rules=LEASED) == "stale-term"


async def test_a_term_that_the_fence_has_seen_is_never_granted(store: Books):
    await store.admitted(term=40, holder="elsewhere#1", rules=FunctionRules())

    assert (await store.leads("ana#1")).term == 41
    assert store.handovers()[-1][:2] == (41, 40)


async def test_a_grant_raises_the_fence_before_the_new_leader_has_written_anything(store: Books):
    old = await store.leads("ana#1")
    left = await store.admitted("left", **by(old), covers="a")
    await store.settled(Outcome.CONFIRMED, "done", **by(old), covers="b")
    unknown = await store.settled(Outcome.UNKNOWN, "unknown", **by(old), covers="c")
    await expire(store)

    new = await store.leads("bo#1")

    assert store.scope() == (new.term, "bo#1")
    assert await store.ask("late", **by(old), covers="z") == "stale-term"
    assert store.handovers() == [(1, 0, []), (2, 1, sorted([left, unknown]))]


async def test_admissions_around_a_grant_share_its_batch_in_order(store: Books):
    old = await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms - 1)
    before = await store.admitted("before", **by(old), covers="a")
    new = {"term": 2, "holder": "ana#2"}

    results = await store.together(
        store.ledger.admit(proposal("e-a", "a", covers="a", **by(old))),
        store.acquire("ana#2", supersede=True),
        store.ledger.admit(proposal("e-b", "b", covers="b", **by(old))),
        store.ledger.admit(proposal("e-c", "c", covers="a", **(by(old) | new))),
        store.ledger.admit(proposal("e-d", "d", covers="d", **(by(old) | new))),
        store.ledger.settle(settlement("e-a", Outcome.CONFIRMED)),
    )

    assert store.watcher.batches[-1] == 6
    assert came_to(results[1]) == "granted 2 of ana#2"
    assert [verdict(results[at]) for at in (0, 2, 3, 4)] == [
        "admit", "stale-term", "wait", "admit",
    ]  # fmt: skip
    assert store.handovers()[-1] == (2, 1, sorted([before, "e-a"]))


@pytest.mark.parametrize("first", ["settles", "takes over"])
async def test_a_settlement_counts_in_a_handover_from_its_place_in_the_batch(
    store: Books, first: str
):
    old = await store.leads("ana#1")
    effect_id = await store.admitted("a", **by(old))
    work = [
        store.settle(effect_id, Outcome.CONFIRMED),
        store.acquire("ana#2", supersede=True),
    ]

    await store.together(*(work if first == "settles" else reversed(work)))

    assert store.watcher.batches[-1] == 2
    assert store.handovers()[-1] == (2, 1, [] if first == "settles" else [effect_id])


# -- admission under a lease


async def test_a_term_that_was_never_granted_is_refused(store: Books):
    assert await store.ask("k", term=1, holder="ana#1", rules=LEASED) == "term-never-issued"
    lease = await store.leads("ana#1")

    for term in (2, 2**53 - 1):
        asked = by(lease) | {"term": term}
        assert await store.ask("k", **asked) == "term-never-issued"
    assert store.scope() == (1, "ana#1")
    assert await store.ask("k", **by(lease)) == "admit"


async def test_only_the_very_holder_of_the_lease_is_admitted(store: Books):
    lease = await store.leads("ana#1")

    for holder in ("bo#1", "ana#2", "ana"):
        assert await store.ask("k", **(by(lease) | {"holder": holder})) == "not-holder"
    assert await store.ask("k", **by(lease)) == "admit"


async def test_a_lease_admits_until_its_expiry_and_not_at_it(store: Books):
    lease = await store.leads("ana#1")
    effect_id = await store.settled(Outcome.CONFIRMED, "done", **by(lease))

    store.clock.advance(ms=RULES.ttl_ms - 1)
    assert await store.ask("last", **by(lease), covers="z") == "admit"
    store.clock.advance(ms=1)
    assert await store.ask("late", **by(lease), covers="z") == "lease-expired"
    assert await store.ask("done", **by(lease)) == "replay"  # it happened; nothing new is sent

    assert (await store.effect(effect_id)).outcome is Outcome.CONFIRMED


async def test_a_renewal_counts_for_the_next_admission_of_its_batch(store: Books):
    lease = await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms - 1)
    await store.renew("ana#1", 1)
    store.clock.advance(ms=RULES.ttl_ms - 1)

    results = await store.together(
        store.renew("ana#1", 1), store.ledger.admit(proposal("e-a", "a", **by(lease)))
    )

    assert verdict(results[1]) == "admit"
    store.clock.advance(ms=2)
    assert await store.ask("b", **by(lease)) == "admit"


async def test_a_released_lease_admits_nothing_more(store: Books):
    lease = await store.leads("ana#1")
    await store.release("ana#1", 1)

    assert await store.ask("k", **by(lease)) == "lease-expired"


# -- renewals


async def test_a_renewal_extends_and_its_answer_may_be_lost(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.renew_every_ms)
    first = await store.renew("ana#1", 1)
    again = await store.renew("ana#1", 1)

    assert first.answer.lease == again.answer.lease
    assert again.record.lease.expires_at_ms == first.record.now_ms + RULES.ttl_ms
    assert again.record.version == (await store.acquire("ana#1")).record.version


async def test_a_renewal_at_the_expiry_comes_too_late(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms - 1)
    assert came_to(await store.renew("ana#1", 1)) == "changed 1 of ana#1"

    store.clock.advance(ms=RULES.ttl_ms)
    assert came_to(await store.renew("ana#1", 1)) == "lease-gone"


@pytest.mark.parametrize("first", ["renews", "takes over"])
async def test_a_renewal_that_waits_beside_a_takeover_resurrects_nothing(store: Books, first: str):
    await store.leads("ana#1")
    await expire(store)
    work = {"renews": store.renew("ana#1", 1), "takes over": store.acquire("bo#1")}
    order = [first, *(work.keys() - {first})]

    results = await store.together(*(work[name] for name in order))

    assert store.watcher.batches[-1] == 2
    said = {name: came_to(one) for name, one in zip(order, results, strict=True)}
    assert said == {"renews": "lease-gone", "takes over": "granted 2 of bo#1"}
    ended = (await store.lease()).lease
    assert ended is not None
    assert (ended.term, ended.ended) == (2, None)


async def test_of_two_hundred_that_ask_at_once_one_is_granted(store: Books):
    answers = await store.together(*(store.acquire(f"w{n:03}#1") for n in range(200)))

    assert store.watcher.batches[-1] == 200
    said = [came_to(one) for one in answers]
    assert said == ["granted 1 of w000#1"] + ["lease-held"] * 199
    assert store.handovers() == [(1, 0, [])]
    assert store.rows("SELECT count(*) FROM transition WHERE kind = 'follower'") == [(199,)]


async def test_many_takeovers_in_one_batch_each_have_a_term_and_a_handover(store: Books):
    answers = await store.together(*(store.acquire(f"ana#{n}", supersede=True) for n in range(20)))

    terms = [one.answer.lease.term for one in answers if isinstance(one.answer, Granted)]
    assert terms == list(range(1, 21))
    assert [(term, previous) for term, previous, _ in store.handovers()] == [
        (term, term - 1) for term in terms
    ]
    ends = store.rows("SELECT term, reason FROM transition WHERE kind = 'leader-lost' ORDER BY id")
    assert ends == [(term, "superseded") for term in terms[:-1]]


async def test_a_grant_stands_whose_asker_has_left(store: Books):
    asked = asyncio.ensure_future(store.acquire("ana#1"))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked

    assert came_to(await store.acquire("bo#1")) == "lease-held"
    assert came_to(await store.acquire("ana#1")) == "kept 1 of ana#1"


async def test_the_policy_does_not_change_who_grants_while_a_lease_is_live(store: Books):
    assert await store.ledger.adopt([FUNCTION], {}) == []
    await store.leads("ana#1")
    changed = Identity("function", "report", "external, function")

    (complaint,) = await store.ledger.adopt([changed], {})
    assert "'report'" in complaint
    assert "1 of its leases" in complaint
    assert await store.ledger.adopt([FUNCTION], {}) == []

    store.clock.advance(ms=RULES.ttl_ms)
    assert await store.ledger.adopt([changed], {}) == []


async def test_a_released_lease_is_not_in_the_way_of_another_policy(store: Books):
    await store.ledger.adopt([FUNCTION], {})
    await store.leads("ana#1")
    await store.release("ana#1", 1)

    assert await store.ledger.adopt([Identity("function", "report", "lease, unit")], {}) == []


async def test_a_lease_on_disk_is_read_as_it_is(store: Books):
    lease = await store.leads("ana#1")
    await store.admitted("k", **by(lease))
    found = await store.lease()

    assert (found.lease, found.in_flight, found.transitions) == (lease, 1, 1)
    never = await store.lease("another unit")
    assert (never.lease, never.version, never.last_term, never.in_flight) == (None, 0, 0, 0)

    await store.release("ana#1", 1)
    ended = (await store.lease()).lease
    assert ended is not None
    assert ended.ended is Ended.RELEASED
