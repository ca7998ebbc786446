"""Observe mode: everything goes through, outside the uniqueness of keys, seen by the barrier."""

from __future__ import annotations

from gateway.core.effect import Outcome
from tests.conformance.books import SEAL_MS, Books, unfenced


async def test_what_would_be_refused_is_recorded_and_let_through(store: Books):
    first = await store.settled(Outcome.UNKNOWN)

    again = await store.admit(observe=True)

    assert (again.n, again.observed) == (1, "outcome-unknown")
    assert again.effect_id != first
    effect = await store.effect(again.effect_id)
    assert (effect.key, effect.observed) == (None, "outcome-unknown")
    assert store.rows("SELECT count(*) FROM refusal") == [(0,)]


async def test_what_would_be_admitted_counts_in_observe_mode_too(store: Books):
    ruling = await store.admit(observe=True)

    assert (ruling.n, ruling.observed) == (1, None)
    assert await store.ask() == "in-flight"


async def test_observations_do_not_spend_their_key(store: Books):
    await store.settled(Outcome.CONFIRMED, "k-1", term=9)
    for _ in range(2):
        assert (await store.admit("k-2", term=3, observe=True)).observed == "stale-term"

    assert await store.ask("k-2", term=9) == "wait"  # for the older write on the wire
    store.clock.advance(ms=SEAL_MS)
    assert await store.ask("k-2", term=9) == "admit"


async def test_the_barrier_sees_observations(store: Books):
    await store.settled(Outcome.CONFIRMED, "k-1", term=9)
    seen = await store.admitted("k-2", term=3, observe=True)
    assert await store.ask("k-3", term=9) == "wait"

    await store.settle(seen, Outcome.REJECTED)

    assert await store.ask("k-3", term=9) == "admit"


async def test_an_observed_duplicate_is_sent_and_gets_no_replay(store: Books):
    await store.settled(Outcome.CONFIRMED)

    again = await store.admit(observe=True)

    assert (again.n, again.observed, again.answer) == (1, "duplicate", None)


async def test_observations_do_not_raise_the_term_by_an_impostor(store: Books):
    await store.settled(Outcome.CONFIRMED, term=9)

    ruling = await store.admit("k-2", term=9, holder="impostor#1", observe=True)

    assert ruling.observed == "term-contested"
    assert store.scope() == (9, "leader#9")


async def test_a_write_without_a_fence_is_an_observation(store: Books):
    ruling = await store.ledger.admit(unfenced("e-1"))

    assert (ruling.decision, ruling.n, ruling.observed) == (None, 1, "fence-missing")
    after = await store.settle("e-1", Outcome.CONFIRMED)
    assert (after.outcome, after.superseded) == (Outcome.CONFIRMED, False)
    assert (await store.effect("e-1")).function == ""
