"""Settling: compare-and-set, late truth, what is kept of requests and answers."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.errors import InvariantError
from gateway.store.records import AnswerState
from gateway.store.settling import StreamEnd
from tests.conformance.books import SEAL_MS, TIMEOUT_MS, Books, answer

FINAL = [Outcome.CONFIRMED, Outcome.REJECTED, Outcome.NO_EFFECT]
BODIES = "SELECT request_head, request_body, request_file FROM attempt WHERE effect_id = ?"


@pytest.mark.parametrize("outcome", list(Outcome))
async def test_an_outcome_is_recorded_with_its_reason_and_status(store: Books, outcome: Outcome):
    effect_id = await store.admitted()
    store.clock.advance(ms=40)

    after = await store.settle(effect_id, outcome, status=299, resource={"id": "n-1"})

    effect = await store.effect(effect_id)
    (attempt,) = effect.attempts
    assert (after.outcome, after.late, after.disagrees) == (outcome, False, False)
    assert (effect.outcome, effect.resolved_by) == (outcome, ResolvedBy.ANSWER)
    assert effect.resource == {"id": "n-1"}
    assert (attempt.outcome, attempt.reason, attempt.status) == (outcome, f"said-{outcome}", 299)
    assert attempt.ended_at_ms == attempt.created_at_ms + 40


async def test_a_settlement_under_an_older_term_counts_and_says_that_it_was_superseded(
    store: Books,
):
    effect_id = await store.admitted(term=7)
    await store.ask("k-2", term=8)

    after = await store.settle(effect_id, Outcome.CONFIRMED)

    assert (after.outcome, after.superseded, after.highest_term) == (Outcome.CONFIRMED, True, 8)
    other = await store.admitted("k-3", term=8, covers="crm /other")
    assert not (await store.settle(other, Outcome.CONFIRMED)).superseded


@pytest.mark.parametrize("first", FINAL)
@pytest.mark.parametrize("second", list(Outcome))
async def test_what_is_settled_stays_settled(store: Books, first: Outcome, second: Outcome):
    effect_id = await store.admitted()
    await store.settle(effect_id, first, answer=answer(b"first"))
    before = await store.effect(effect_id)

    after = await store.settle(effect_id, second, answer=answer(b"second"), resource={"x": 1})

    assert after.outcome is first
    assert after.disagrees is (second not in (first, Outcome.UNKNOWN))
    assert await store.effect(effect_id) == before
    kept = store.rows("SELECT body FROM answer WHERE effect_id = ?", effect_id)
    assert kept == ([(b"first",)] if first is Outcome.CONFIRMED else [])


async def test_a_settlement_told_twice_is_no_late_answer(store: Books):
    effect_id = await store.admitted()
    await store.settle(effect_id, Outcome.CONFIRMED)

    again = await store.settle(effect_id, Outcome.CONFIRMED)

    assert (again.late, again.disagrees) == (False, False)
    assert store.rows("SELECT count(*) FROM transition WHERE kind = 'late-answer'") == [(0,)]


async def test_of_many_settlements_at_once_the_first_wins(store: Books):
    effect_id = await store.admitted()

    results = await asyncio.gather(*(store.settle(effect_id, one) for one in FINAL * 5))

    assert {result.outcome for result in results} == {Outcome.CONFIRMED}
    assert (await store.effect(effect_id)).outcome is Outcome.CONFIRMED


@pytest.mark.parametrize("truth", FINAL)
async def test_a_late_answer_settles_an_unknown_attempt(store: Books, truth: Outcome):
    effect_id = await store.settled(Outcome.UNKNOWN)
    await store.ask("k-2", term=9)
    store.clock.advance(seconds=600)

    after = await store.settle(effect_id, truth)

    assert (after.outcome, after.late, after.disagrees) == (truth, True, False)
    assert (await store.effect(effect_id)).outcome is truth
    expected = "replay" if truth is Outcome.CONFIRMED else "admit"
    assert await store.ask(term=9) == expected


async def test_an_attempt_that_is_not_on_record_cannot_be_settled(store: Books):
    effect_id = await store.admitted()

    with pytest.raises(InvariantError, match="attempt 2 of effect e-001 is not on record"):
        await store.settle(effect_id, Outcome.CONFIRMED, 2)
    with pytest.raises(InvariantError, match="e-404"):
        await store.settle("e-404", Outcome.CONFIRMED)


async def test_a_settlement_told_again_after_the_next_attempt_began_changes_nothing(store: Books):
    effect_id = await store.settled(Outcome.REJECTED)
    await store.settled(Outcome.REJECTED)
    await store.admitted()
    before = await store.effect(effect_id)

    again = await store.settle(effect_id, Outcome.REJECTED, 1)

    assert (again.outcome, again.disagrees) == (None, False)
    assert await store.effect(effect_id) == before


@pytest.mark.parametrize("second", [None, Outcome.REJECTED, Outcome.CONFIRMED])
async def test_the_late_truth_about_an_attempt_counts_although_it_has_a_successor(
    store: Books, second: Outcome | None
):
    effect_id = await store.settled(Outcome.UNKNOWN)
    store.clock.advance(ms=SEAL_MS)
    await store.resolve(effect_id, Outcome.NO_EFFECT)  # the operator was wrong
    await store.admitted()
    if second is not None:
        await store.settle(effect_id, second, 2, answer=answer(b"second"))

    after = await store.settle(effect_id, Outcome.CONFIRMED, 1, answer=answer(b"first"))

    assert (after.outcome, after.late) == (Outcome.CONFIRMED, True)
    replay = await store.admit()
    assert replay.answer == answer(b"second" if second is Outcome.CONFIRMED else b"first")


async def test_an_effect_confirmed_twice_replays_one_answer_for_ever(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN)
    store.clock.advance(ms=SEAL_MS)
    await store.resolve(effect_id, Outcome.NO_EFFECT)  # the operator was wrong
    await store.admitted()
    await store.settle(effect_id, Outcome.CONFIRMED, 1, answer=answer(b"first"))
    before = await store.admit()

    await store.settle(effect_id, Outcome.CONFIRMED, 2, answer=answer(b"second"))

    assert (await store.admit()).answer == before.answer == answer(b"first")


@pytest.mark.parametrize(
    ("outcome", "state", "kept"),
    [
        (Outcome.CONFIRMED, "complete", 1),
        (Outcome.UNKNOWN, "evidence", 1),
        (Outcome.REJECTED, "complete", 0),
        (Outcome.NO_EFFECT, "complete", 0),
    ],
)
async def test_answers_are_kept_for_what_happened_or_may_have(
    store: Books, outcome: Outcome, state: str, kept: int
):
    effect_id = await store.admitted()

    await store.settle(effect_id, outcome, answer=answer(state=state, status=500))

    found = await (await store.ledger.reader()).evidence(effect_id)
    assert [(one["n"], one["status"], one["state"]) for one in found] == [(1, 500, state)] * kept


async def test_evidence_is_never_replayed(store: Books):
    effect_id = await store.admitted()
    evidence = answer(b"502 from a proxy on the way", state="evidence")
    await store.settle(effect_id, Outcome.UNKNOWN, answer=evidence)
    await store.resolve(effect_id, Outcome.CONFIRMED)

    replay = await store.admit()

    assert replay.answer is None


async def test_the_end_of_a_stream_is_noted(store: Books):
    effect_id = await store.admitted()
    streamed = answer(None, state="streamed")
    await store.settle(effect_id, Outcome.CONFIRMED, answer=streamed)

    await store.ledger.end_stream(
        StreamEnd(effect_id, 1, AnswerState.INCOMPLETE, b"sum", 1_000_000)
    )

    kept = (await store.admit()).answer
    assert kept is not None
    assert (kept.state, kept.body_sha256, kept.body_bytes) == ("incomplete", b"sum", 1_000_000)


@pytest.mark.parametrize("outcome", FINAL)
async def test_a_request_is_kept_until_its_attempt_is_final(store: Books, outcome: Outcome):
    effect_id = await store.admitted(request_file="spool-1")
    whole = [('[["A","b"]]', b"the request", "spool-1")]
    assert store.rows(BODIES, effect_id) == whole
    await store.settle(effect_id, Outcome.UNKNOWN)
    assert store.rows(BODIES, effect_id) == whole
    assert await store.ledger.kept_files() == {"spool-1"}

    await store.settle(effect_id, outcome)

    assert store.rows(BODIES, effect_id) == [(None, None, None)]
    assert await store.ledger.kept_files() == set()


async def test_an_intent_is_stranded_a_second_after_its_deadline_and_not_before(store: Books):
    effect_id = await store.admitted()
    store.clock.advance(ms=TIMEOUT_MS + 1000)
    assert await store.ledger.strand() == 0
    assert await store.ask() == "in-flight"

    store.clock.advance(ms=1)

    assert await store.ask() == "outcome-unknown"  # whoever meets it first
    (attempt,) = (await store.effect(effect_id)).attempts
    assert (attempt.outcome, attempt.reason) == (Outcome.UNKNOWN, "stranded")


async def test_the_keeper_strands_what_nobody_meets(store: Books):
    fenced = await store.admitted()
    seen = await store.admitted("k-2", term=3, observe=True)
    store.clock.advance(ms=TIMEOUT_MS + 1001)

    assert await store.ledger.strand() == 2
    assert await store.ledger.strand() == 0

    for effect_id in (fenced, seen):
        assert (await store.effect(effect_id)).outcome is Outcome.UNKNOWN


async def test_what_an_earlier_run_left_in_flight_is_unknown_at_once(store: Books):
    effect_id = await store.admitted(request_file="spool-1")

    await store.reopen()

    assert (await store.effect(effect_id)).outcome is Outcome.UNKNOWN
    assert await store.ledger.kept_files() == {"spool-1"}
    after = await store.settle(effect_id, Outcome.CONFIRMED)  # the truth comes in late
    assert (after.outcome, after.late) == (Outcome.CONFIRMED, True)
