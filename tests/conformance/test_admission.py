"""Admit, refuse, replay: what the ledger decides and writes down for one key."""

from __future__ import annotations

import pytest

from gateway.core.effect import Outcome
from gateway.core.fence import FunctionRules, OnDuplicate, Refuse
from tests.conformance.books import SEAL_MS, TIMEOUT_MS, Books, answer, proposal, verdict

FREE = [Outcome.REJECTED, Outcome.NO_EFFECT]


async def test_an_admitted_write_is_on_record_before_it_is_sent(store: Books):
    ruling = await store.admit(term=7, item="item-1")

    effect = await store.effect(ruling.effect_id)
    assert (verdict(ruling), ruling.n, ruling.highest_term) == ("admit", 1, 7)
    assert (effect.outcome, effect.key, effect.item) == (None, "k-1", "item-1")
    (attempt,) = effect.attempts
    assert (attempt.n, attempt.term, attempt.holder) == (1, 7, "leader#7")
    assert attempt.deadline_at_ms == ruling.now_ms + TIMEOUT_MS
    assert attempt.seal_at_ms == ruling.now_ms + SEAL_MS
    assert store.scope() == (7, "leader#7")


async def test_a_key_in_flight_is_not_admitted_again(store: Books):
    first = await store.admitted()

    again = await store.admit()

    assert verdict(again) == "in-flight"
    assert again.effect_id == first
    assert len((await store.effect(first)).attempts) == 1


async def test_a_confirmed_key_is_replayed_with_the_answer_as_it_came(store: Books):
    effect_id = await store.admitted()
    await store.settle(effect_id, Outcome.CONFIRMED, status=201, answer=answer())

    replays = [await store.admit() for _ in range(3)]

    assert [verdict(replay) for replay in replays] == ["replay"] * 3
    assert [replay.answer for replay in replays] == [answer()] * 3
    assert {replay.effect_id for replay in replays} == {effect_id}


async def test_a_successor_meets_the_record_of_its_predecessor(store: Books):
    await store.settled(Outcome.CONFIRMED, term=7)

    assert await store.ask(term=8) == "replay"
    assert store.scope() == (8, "leader#8")
    assert await store.ask(term=7) == "stale-term"


async def test_a_duplicate_is_refused_where_the_route_wants_no_replay(store: Books):
    await store.settled(Outcome.CONFIRMED)

    assert await store.ask(on_duplicate=OnDuplicate.REJECT) == "duplicate"


@pytest.mark.parametrize("spent", [None, Outcome.UNKNOWN, Outcome.CONFIRMED])
async def test_another_request_under_a_spent_key_is_refused(store: Books, spent: Outcome | None):
    effect_id = await store.admitted()
    if spent is not None:
        await store.settle(effect_id, spent)

    assert await store.ask(body="another request") == "key-reused"


async def test_an_unknown_key_is_never_admitted_again_however_late(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN)
    store.clock.advance(seconds=30 * 86_400)

    again = await store.admit(term=8)

    assert verdict(again) == "outcome-unknown"
    assert again.effect_id == effect_id


@pytest.mark.parametrize("outcome", FREE)
async def test_a_key_without_effect_is_free_for_a_corrected_request(store: Books, outcome: Outcome):
    effect_id = await store.settled(outcome, body="with a mistake")

    again = await store.admit(body="corrected", covers="crm /other", term=8)

    effect = await store.effect(effect_id)
    assert (again.effect_id, again.n, again.tried_before) == (effect_id, 2, False)
    assert [attempt.outcome for attempt in effect.attempts] == [outcome, None]
    assert (effect.covers, effect.outcome, effect.settled_at_ms) == ("crm /other", None, None)
    assert effect.resolved_by is None
    # from now on it is the corrected request that counts
    assert await store.ask(body="with a mistake", term=8) == "key-reused"


async def test_rejections_exhaust_a_key_and_what_had_no_effect_does_not(store: Books):
    for outcome in (Outcome.REJECTED, Outcome.NO_EFFECT, Outcome.NO_EFFECT, Outcome.REJECTED):
        await store.settled(outcome, max_attempts=2)

    assert await store.ask(max_attempts=2) == "attempts-exhausted"
    assert await store.ask(max_attempts=3) == "admit"


@pytest.mark.parametrize(
    "elsewhere",
    [{"function": "sweep"}, {"unit": "u-2"}, {"destination": "mail"}, {"key": "K-1"}],
    ids=lambda changes: next(iter(changes)),
)
async def test_a_key_is_unique_in_its_place_alone(store: Books, elsewhere: dict[str, str]):
    await store.admitted("k-1", unit="u-1")

    assert await store.ask(**({"key": "k-1", "unit": "u-1"} | elsewhere)) == "admit"
    assert await store.ask("k-1", unit="u-1") == "in-flight"


async def test_units_with_leaders_of_their_own_have_terms_of_their_own(store: Books):
    await store.admitted(term=9, unit="u-1", scope_unit="u-1")

    assert await store.ask(term=2, unit="u-2", scope_unit="u-2") == "admit"
    assert await store.ask("k-2", term=8, unit="u-1", scope_unit="u-1") == "stale-term"


async def test_asking_for_ones_own_intent_again_gives_it_again(store: Books):
    mine = proposal("e-mine", "k-1", term=7)
    await store.ledger.admit(mine)
    await store.ask("k-2", term=8)

    again = await store.ledger.admit(mine)

    assert (verdict(again), again.effect_id, again.n) == ("admit", "e-mine", 1)
    assert store.rows("SELECT count(*) FROM attempt WHERE effect_id = 'e-mine'") == [(1,)]


async def test_a_later_attempt_of_somebody_else_is_not_ones_own_intent(store: Books):
    mine = proposal("e-mine", "k-1")
    await store.ledger.admit(mine)
    await store.settle("e-mine", Outcome.REJECTED)
    await store.admitted("k-1")  # the second attempt of the same effect

    assert verdict(await store.ledger.admit(mine)) == "in-flight"


async def test_asking_without_a_claim_writes_no_intent(store: Books):
    ruling = await store.ledger.admit(proposal("e-1").without_claim())

    assert verdict(ruling) == "would-admit"
    assert store.rows("SELECT count(*) FROM effect") == [(0,)]
    assert store.rows("SELECT count(*) FROM attempt") == [(0,)]


async def test_refusals_change_nothing_but_their_counters(store: Books):
    await store.settled(Outcome.CONFIRMED, term=7)
    tables = ("effect", "attempt", "answer", "scope", "handover", "transition")
    before = {table: store.rows(f"SELECT * FROM {table}") for table in tables}

    assert [
        await store.ask("k-9", term=6),
        await store.ask("k-9", term=6),
        await store.ask("k-9", term=7, holder="impostor#1"),
        await store.ask("k-1", body="another request"),
    ] == ["stale-term", "stale-term", "term-contested", "key-reused"]

    assert {table: store.rows(f"SELECT * FROM {table}") for table in tables} == before
    counted = store.rows("SELECT reason, term, holder, count FROM refusal ORDER BY reason")
    assert counted == [
        ("key-reused", 7, "leader#7", 1),
        ("stale-term", 6, "leader#6", 2),
        ("term-contested", 7, "impostor#1", 1),
    ]


async def test_a_refused_jump_does_not_raise_the_term(store: Books):
    await store.settled(Outcome.CONFIRMED, term=7)

    ruling = await store.admit("k-2", term=500, rules=FunctionRules(max_term_jump=100))

    assert isinstance(ruling.decision, Refuse)
    assert verdict(ruling) == "term-jump"
    assert store.scope() == (7, "leader#7")
    assert store.handovers() == [(7, 0, [])]


async def test_a_key_that_moved_to_another_scope_is_guarded_there(store: Books):
    effect_id = await store.settled(Outcome.REJECTED, unit="u-1", scope_unit="")
    # the function's policy now gives each unit a leader of its own
    await store.admitted(unit="u-1", scope_unit="u-1", term=3)

    assert await store.ask("k-2", unit="u-1", scope_unit="u-1", term=4) == "wait"
    assert (4, 3, [effect_id]) in store.handovers()
    after = await store.settle(effect_id, Outcome.CONFIRMED, 2)
    assert (after.highest_term, after.superseded) == (4, True)
