"""A person's word on an unknown effect: when it is taken, and what it does."""

from __future__ import annotations

import pytest

from gateway.core.effect import Outcome, ResolvedBy
from gateway.store.records import Unresolved
from tests.conformance.books import SEAL_MS, TIMEOUT_MS, Books


async def test_it_happened_may_be_said_at_any_time(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN)

    assert await store.resolve(effect_id, Outcome.CONFIRMED) is None

    effect = await store.effect(effect_id)
    assert (effect.outcome, effect.resolved_by) == (Outcome.CONFIRMED, ResolvedBy.OPERATOR)
    assert effect.attempts[0].reason == "operator"
    assert await store.ask() == "replay"
    journal = store.rows(
        "SELECT effect_id, principal, reason, detail FROM transition WHERE kind = 'effect-resolved'"
    )
    assert journal == [(effect_id, "operator", "looked it up", '{"as":"confirmed"}')]


async def test_it_did_not_happen_may_not_be_said_before_the_seal(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN)
    store.clock.advance(ms=SEAL_MS - 1)
    assert await store.resolve(effect_id, Outcome.NO_EFFECT) is Unresolved.BEFORE_SEAL
    assert await store.ask() == "outcome-unknown"

    store.clock.advance(ms=1)

    assert await store.resolve(effect_id, Outcome.NO_EFFECT) is None
    again = await store.admit()
    assert (again.effect_id, again.n, again.tried_before) == (effect_id, 2, False)


async def test_a_confirmation_before_the_seal_keeps_the_barrier_until_the_seal(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN, term=7)
    await store.resolve(effect_id, Outcome.CONFIRMED)
    assert await store.ask("k-2", term=8) == "wait"
    assert store.handovers()[-1] == (8, 7, [])  # nothing is unfinished all the same

    store.clock.advance(ms=SEAL_MS - 1)
    await store.ledger.strand()
    assert await store.ask("k-2", term=8) == "wait"

    store.clock.advance(ms=1)
    await store.ledger.strand()
    assert store.rows("SELECT open FROM attempt") == [(0,)]
    assert await store.ask("k-2", term=8) == "admit"


async def test_the_attempts_own_answer_lifts_the_barrier_behind_an_operators_word(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN, term=7)
    await store.resolve(effect_id, Outcome.CONFIRMED)

    after = await store.settle(effect_id, Outcome.REJECTED)

    assert (after.outcome, after.disagrees) == (Outcome.CONFIRMED, True)
    assert (await store.effect(effect_id)).outcome is Outcome.CONFIRMED
    assert await store.ask("k-2", term=8) == "admit"


async def test_late_truth_corrects_an_operator_who_said_that_nothing_happened(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN)
    store.clock.advance(ms=SEAL_MS)
    await store.resolve(effect_id, Outcome.NO_EFFECT)

    after = await store.settle(effect_id, Outcome.CONFIRMED)

    assert (after.outcome, after.late) == (Outcome.CONFIRMED, True)
    effect = await store.effect(effect_id)
    assert (effect.outcome, effect.resolved_by) == (Outcome.CONFIRMED, ResolvedBy.ANSWER)
    assert await store.ask() == "replay"


@pytest.mark.parametrize("outcome", [Outcome.CONFIRMED, Outcome.REJECTED, Outcome.NO_EFFECT])
async def test_only_an_unknown_effect_is_for_a_person_to_decide(store: Books, outcome: Outcome):
    settled = await store.settled(outcome)
    in_flight = await store.admitted("k-2")

    assert await store.resolve(settled, Outcome.CONFIRMED) is Unresolved.NOT_UNKNOWN
    assert await store.resolve(in_flight, Outcome.CONFIRMED) is Unresolved.NOT_UNKNOWN
    assert await store.resolve("e-404", Outcome.CONFIRMED) is Unresolved.NOT_FOUND


async def test_a_stranded_intent_is_for_a_person_although_no_keeper_came_by(store: Books):
    effect_id = await store.admitted()
    store.clock.advance(ms=TIMEOUT_MS + 1001)

    assert await store.resolve(effect_id, Outcome.CONFIRMED) is None


async def test_a_decision_about_an_older_version_is_not_taken(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN)
    version = (await store.effect(effect_id)).version

    conflict = await store.resolve(effect_id, Outcome.CONFIRMED, version - 1)

    assert conflict is Unresolved.VERSION_CONFLICT
    assert (await store.effect(effect_id)).outcome is Outcome.UNKNOWN
    assert await store.resolve(effect_id, Outcome.CONFIRMED, version) is None
    assert (await store.effect(effect_id)).version == version + 1


async def test_an_observed_effect_can_be_resolved_too(store: Books):
    await store.settled(Outcome.CONFIRMED, "k-1", term=9)
    seen = await store.admitted("k-2", term=3, observe=True)
    await store.settle(seen, Outcome.UNKNOWN)

    assert await store.resolve(seen, Outcome.CONFIRMED) is None
    assert (await store.effect(seen)).outcome is Outcome.CONFIRMED
