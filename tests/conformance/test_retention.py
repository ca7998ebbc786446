"""What is forgotten with time, and what never is."""

from __future__ import annotations

from gateway.core.effect import Outcome
from gateway.store.upkeep import Kept
from tests.conformance.books import Books, answer

DAY_MS = 86_400_000
KEPT = Kept(bodies_ms=30 * DAY_MS, refusals_ms=7 * DAY_MS, limit=3)


async def forget_all(store: Books) -> tuple[int, int]:
    bodies = refusals = 0
    while True:
        done = await store.ledger.forget(KEPT)
        bodies, refusals = bodies + done.bodies, refusals + done.refusals
        if not done.more:
            return bodies, refusals


async def test_bodies_go_after_their_time_and_the_facts_stay(store: Books):
    old = [await store.settled(Outcome.CONFIRMED, f"old-{n}") for n in range(7)]
    store.clock.advance(ms=20 * DAY_MS)
    await store.settled(Outcome.CONFIRMED, "young")
    store.clock.advance(ms=10 * DAY_MS + 1)

    assert await forget_all(store) == (len(old), 0)
    assert await forget_all(store) == (0, 0)

    gone, there = await store.admit("old-3"), await store.admit("young")
    assert gone.answer is not None
    assert (gone.answer.body, gone.answer.headers, gone.answer.state) == (None, (), "expired")
    assert gone.answer.status == 201
    assert there.answer == answer()
    assert await store.ask("old-3", body="another request") == "key-reused"


async def test_unknowns_keep_their_evidence_and_their_request(store: Books):
    effect_id = await store.admitted(request_file="spool-1")
    await store.settle(effect_id, Outcome.UNKNOWN, answer=answer(b"oops", state="evidence"))
    store.clock.advance(ms=400 * DAY_MS)

    assert await forget_all(store) == (0, 0)

    assert store.rows("SELECT body, state FROM answer") == [(b"oops", "evidence")]
    assert store.rows("SELECT request_body, request_file FROM attempt") == [
        (b"the request", "spool-1")
    ]
    assert await store.ask() == "outcome-unknown"


async def test_counted_refusals_go_after_their_time(store: Books):
    await store.settled(Outcome.CONFIRMED, term=7)
    await store.ask(term=5)
    store.clock.advance(ms=5 * DAY_MS)
    await store.ask(term=6)
    store.clock.advance(ms=2 * DAY_MS + 1)

    assert await forget_all(store) == (0, 1)
    assert store.rows("SELECT term FROM refusal") == [(6,)]
