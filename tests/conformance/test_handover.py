"""The raise of a term, and the handover that goes with it; the barrier, and the seal."""

from __future__ import annotations

import pytest

from gateway.core.effect import Outcome
from gateway.core.fence import Wait
from gateway.store.upkeep import Kept
from tests.conformance.books import SEAL_MS, Books, proposal, verdict

KEEP_NOTHING = Kept(bodies_ms=0, refusals_ms=0, limit=10)


async def test_a_handover_lists_exactly_the_older_unfinished_effects(store: Books):
    in_flight = await store.admitted("in-flight", term=7, covers="a")
    unknown = await store.settled(Outcome.UNKNOWN, "unknown", term=7, covers="b")
    for outcome in (Outcome.CONFIRMED, Outcome.REJECTED, Outcome.NO_EFFECT):
        await store.settled(outcome, f"{outcome}", term=7, covers="c")
    by_person = await store.settled(Outcome.UNKNOWN, "by-person", term=7, covers="d")
    await store.resolve(by_person, Outcome.CONFIRMED)
    await store.admitted("elsewhere", term=7, function="sweep")
    older = await store.ledger.admit(proposal("e-observed", "seen", term=5, observe=True))
    assert older.observed == "stale-term"

    await store.admitted("new", term=9, covers="z")

    assert store.handovers() == [
        (7, 0, []), (7, 0, []), (9, 7, sorted([in_flight, unknown, "e-observed"])),
    ]  # fmt: skip


async def test_a_handover_lists_what_the_same_batch_had_admitted_before_it(store: Books):
    old = await store.settled(Outcome.UNKNOWN, "old", term=6, covers="z")

    rulings = await store.together(
        store.ledger.admit(proposal("e-a", "a", term=7, covers="a")),
        store.ledger.admit(proposal("e-b", "b", term=8, covers="b")),
        store.ledger.admit(proposal("e-c", "c", term=7, covers="c")),
        store.ledger.admit(proposal("e-d", "d", term=9, covers="d")),
    )

    assert store.watcher.batches[-1] == 4
    assert [verdict(ruling) for ruling in rulings] == ["admit", "admit", "stale-term", "admit"]
    assert store.handovers() == [
        (6, 0, []), (7, 6, [old]), (8, 7, [old, "e-a"]), (9, 8, [old, "e-a", "e-b"]),
    ]  # fmt: skip


async def test_a_settlement_in_the_batch_of_the_raise_is_not_listed(store: Books):
    effect_id = await store.admitted("a", term=7)

    await store.together(
        store.settle(effect_id, Outcome.CONFIRMED),
        store.ledger.admit(proposal("e-b", "b", term=8)),
    )

    assert store.handovers()[-1] == (8, 7, [])


async def test_a_new_leader_that_has_to_wait_shuts_the_old_one_out(store: Books):
    await store.admitted("a", term=7)

    assert await store.ask("b", term=8) == "wait"

    assert store.scope() == (8, "leader#8")
    assert await store.ask("c", term=7, covers="crm /untouched") == "stale-term"


async def test_a_refused_key_under_a_higher_term_raises_it_all_the_same(store: Books):
    await store.admitted("a", term=7)

    assert await store.ask("a", term=8, body="another request") == "key-reused"
    assert store.scope() == (8, "leader#8")


async def test_the_raise_of_a_term_is_in_the_journal(store: Books):
    left = await store.admitted("a", term=7)
    await store.ask("b", term=8)

    found = store.rows(
        "SELECT term, holder, reason, detail FROM transition WHERE kind = 'leader-acquired' "
        "ORDER BY id DESC LIMIT 1"
    )
    assert left
    assert found == [
        (8, "leader#8", "higher-term-seen", '{"previous_term":7,"unfinished":1}')
    ]  # fmt: skip


async def test_the_record_of_a_scope_is_never_deleted(store: Books):
    await store.settled(Outcome.CONFIRMED, term=7)
    store.clock.advance(seconds=400 * 86_400)
    await store.reopen()
    while (await store.ledger.forget(KEEP_NOTHING)).more:
        pass

    assert store.scope() == (7, "leader#7")
    assert await store.ask("k-2", term=6) == "stale-term"


@pytest.mark.parametrize("settled", [None, Outcome.UNKNOWN])
async def test_a_new_term_waits_for_an_older_write_to_the_same_thing(
    store: Books, settled: Outcome | None
):
    effect_id = await store.admitted("a", term=7)
    if settled is not None:
        await store.settle(effect_id, settled)

    ruling = await store.admit("b", term=8)

    assert isinstance(ruling.decision, Wait)
    assert ruling.decision.predecessor.effect_id == effect_id
    assert await store.ask("c", term=8, covers="crm /other") == "admit"
    assert await store.ask("d", term=8, destination="mail") == "admit"


async def test_a_leader_does_not_wait_for_its_own_writes(store: Books):
    await store.admitted("a", term=7)

    assert await store.ask("b", term=7) == "admit"


async def test_the_barrier_falls_at_the_seal_and_not_a_moment_before(store: Books):
    await store.admitted("a", term=7)

    store.clock.advance(ms=SEAL_MS - 1)
    assert await store.ask("b", term=8) == "wait"

    store.clock.advance(ms=1)
    assert await store.ask("b", term=8) == "admit"


@pytest.mark.parametrize("outcome", [Outcome.CONFIRMED, Outcome.REJECTED, Outcome.NO_EFFECT])
async def test_the_barrier_falls_with_the_older_writes_own_answer(store: Books, outcome: Outcome):
    effect_id = await store.admitted("a", term=7)
    assert await store.ask("b", term=8) == "wait"

    await store.settle(effect_id, outcome)

    assert await store.ask("b", term=8) == "admit"


async def test_the_seal_frees_the_thing_but_not_the_key(store: Books):
    await store.admitted("a", term=7)
    store.clock.advance(ms=SEAL_MS + 5_000)

    assert await store.ask("b", term=8) == "admit"
    assert await store.ask("a", term=8) == "outcome-unknown"


async def test_the_barrier_holds_across_a_restart(store: Books):
    await store.admitted("a", term=7)
    await store.reopen()

    assert await store.ask("a", term=7) == "outcome-unknown"
    assert await store.ask("b", term=8) == "wait"


async def test_a_handover_may_be_about_any_number_of_effects(store: Books):
    text = "WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < 40000) "
    first = await store.settled(Outcome.UNKNOWN, "a", term=7, covers="a")
    copy_rows(store, first, text)

    await store.admitted("b", term=8, covers="z")

    assert len(store.handovers()[-1][2]) == 40_001


def copy_rows(store: Books, effect_id: str, numbers: str) -> None:
    """Copy an effect and its attempt many times, behind the gateway's back."""
    for table, name in (("effect", "id"), ("attempt", "effect_id")):
        kept = [c for c in store.shelf.columns(table) if c not in (name, "key")]
        store.shelf.change(
            f"{numbers} INSERT INTO {table} ({name}, {', '.join(kept)}) "
            f"SELECT 'copy-' || x, {', '.join(kept)} FROM i, {table} WHERE {name} = '{effect_id}'"
        )
