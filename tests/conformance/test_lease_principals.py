"""A lease is its principal's: the holder's name and term in another's mouth open nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.effect import Outcome
from gateway.core.fence import Authority, Callers, FunctionRules
from gateway.core.lease import Lease
from gateway.store.claims import asking
from gateway.store.probes import RECONCILER, Resending
from gateway.store.records import Proposal
from tests.conformance.books import RULES, SEAL_MS, Books, by, came_to, proposal, verdict
from tests.conformance.working import Site, outcome

EVE = {"principal": "eve"}


def site_of(store: Books, lease: Lease, callers: Callers = Callers.LEADER) -> Site:
    rules = FunctionRules(authority=Authority.LEASE, callers=callers)
    return Site(store, term=lease.term, rules=rules, principal=lease.principal)


async def test_the_holders_name_is_not_enough_to_be_admitted(store: Books):
    lease = await store.leads("ana#1")

    assert await store.ask("k", **(by(lease) | EVE)) == "not-holder"

    assert store.rows("SELECT count(*) FROM effect") == [(0,)]
    counted = store.rows("SELECT principal, holder, reason, count FROM refusal")
    assert counted == [("eve", "ana#1", "not-holder", 1)]
    assert await store.ask("k", **by(lease)) == "admit"


async def test_another_principal_is_not_told_the_answer_that_the_leader_got(store: Books):
    lease = await store.leads("ana#1")
    await store.settled(Outcome.CONFIRMED, **by(lease))

    assert await store.ask(**(by(lease) | EVE)) == "not-holder"
    assert await store.ask(**by(lease)) == "replay"


async def test_the_leases_principal_outlives_a_restart(store: Books):
    lease = await store.leads("ana#1")
    await store.reopen()

    assert await store.ask("k", **(by(lease) | EVE)) == "not-holder"
    assert await store.ask("k", **by(lease)) == "admit"


async def test_after_a_handoff_the_lease_is_the_principals_of_the_one_who_takes_it(store: Books):
    old = await store.leads("ana#1")
    await store.report("bo#1")
    assert came_to(await store.hand_off("ana#1", 1, "bo#1")) == "granted 2 of bo#1"

    taken = by(old) | {"term": 2, "holder": "bo#1"}
    assert await store.ask("k", **taken) == "not-holder"
    assert await store.ask("k", **(taken | {"principal": "bo"})) == "admit"


async def test_a_name_that_changes_hands_is_its_new_principals(store: Books):
    await store.leads("ana#1")
    store.clock.advance(ms=RULES.ttl_ms)
    await store.ledger.withdraw("report", "ana#1", "ana")
    lease = await store.leads("ana#1", principal="eve")

    assert await store.ask("k", **(by(lease) | {"principal": "ana"})) == "not-holder"
    assert await store.ask("k", **by(lease)) == "admit"


async def test_observe_mode_notes_another_principal_and_lets_it_through(store: Books):
    lease = await store.leads("ana#1")

    seen = await store.admit("k", observe=True, **(by(lease) | EVE))

    assert (seen.n, seen.observed) == (1, "not-holder")


async def test_an_authority_outside_knows_no_principals(store: Books):
    assert await store.ask("a") == "admit"
    assert await store.ask("b", covers="b", **EVE) == "admit"


async def resending(store: Books, effect_id: str, lease: Lease, holder: str = "") -> Resending:
    """The gateway's own attempt at an effect, in the lease holder's name."""
    version = (await store.effect(effect_id)).version
    who = by(lease) | {"principal": RECONCILER, "holder": holder or lease.holder}
    asked: Proposal = proposal(store.next_id(), **who)
    assert asked.attempt is not None
    asked = replace(asked, attempt=replace(asked.attempt, resend=True))
    return Resending(asked, effect_id, version)


async def test_the_gateway_sends_again_in_the_name_of_whoever_holds_the_lease(store: Books):
    lease = await store.leads("ana#1")
    effect_id = await store.settled(Outcome.UNKNOWN, **by(lease))
    await store.report("bo#1")
    await store.hand_off("ana#1", 1, "bo#1")
    store.clock.advance(ms=SEAL_MS)
    now = (await store.lease()).lease
    assert now is not None

    gone = await store.ledger.resend(await resending(store, effect_id, now, "ana#1"))
    again = await store.ledger.resend(await resending(store, effect_id, now))

    assert gone is not None
    assert again is not None
    assert (verdict(gone), verdict(again), again.n) == ("not-holder", "admit", 2)


async def test_units_hear_the_leader_from_its_own_principal_alone(store: Books):
    site = site_of(store, await store.leads("leader#1"))
    eve = replace(site, principal="eve")
    assert outcome(await eve.create()) == "not-holder"
    assert outcome(await site.create()) == "taken"
    await site.claim()

    refused = [
        await eve.work(eve.claiming()),
        await eve.checkpoint(eve.leader, "a", 0, {"page": 1}),
        await eve.report(eve.leader, ("a", "done", 1)),
        await eve.complete(),
        await eve.abandon(),
    ]

    assert {outcome(answer) for answer in refused} == {"not-holder"}
    assert set((await site.states()).values()) == {"claimed"}
    assert outcome(await site.checkpoint(site.leader, "a", 0, {"page": 1})) == "taken"


async def test_a_claimant_of_another_principal_works_under_its_own_name_alone(store: Books):
    site = site_of(store, await store.leads("leader#1"), Callers.LEADER_OR_CLAIMANT)
    await site.create("abc")
    helper = replace(site, principal="bo")
    assert await helper.claim("bo#1", limit=1) == ["a"]
    assert await site.claim(limit=1) == ["b"]

    async def sent(key: str, item: str, holder: str) -> str:
        return verdict(await store.ledger.admit(helper.effect(key, item, holder)))

    assert await sent("k-1", "a", "bo#1") == "admit"
    assert await sent("k-2", "b", site.leader) == "not-holder"
    assert outcome(await helper.report(site.leader, ("b", "done", 1))) == "not-holder"
    assert outcome(await helper.work(helper.claiming(site.leader))) == "not-holder"
    assert (await helper.report("bo#1", ("a", "done", 1))).turned == {}


async def test_asking_the_fence_writes_nothing_and_counts_what_it_refuses(store: Books):
    site = site_of(store, await store.leads("leader#1"))
    eve = replace(site, principal="eve")

    answers = [await one.work(asking(one.speech())) for one in (site, eve)]

    assert [outcome(answer) for answer in answers] == ["taken", "not-holder"]
    assert store.rows("SELECT principal, reason, count FROM refusal") == [("eve", "not-holder", 1)]
    assert store.rows("SELECT count(*) FROM unit") == [(0,)]


@pytest.mark.parametrize(("principal", "settles"), [("leader", True), ("eve", False)])
async def test_where_anybody_may_call_only_the_leases_principal_settles_what_others_left(
    store: Books, principal: str, settles: bool
):
    site = site_of(store, await store.leads("leader#1"), Callers.ANY)
    await site.create("a")
    await site.claim("w#1")
    await site.report("w#1", ("a", "uncertain", 1))
    speaker = replace(site, principal=principal)

    answer = await speaker.report(site.leader, ("a", "done", 1))

    assert answer.refusal is None
    assert (answer.turned == {}) is settles
