"""After a recovery: what is in doubt, what is not, and what became of terms and leases."""

from __future__ import annotations

from functools import partial

from gateway.core.effect import Outcome
from gateway.core.ids import Scope
from gateway.store import recover
from gateway.store.recover import Recovered
from gateway.store.witness import Seen
from tests.conformance.books import LEASED, SEAL_MS, Books, proposal, settlement, verdict


async def recovered(store: Books, *witnesses: Seen) -> Recovered:
    """Recover the ledger in the writer's own transaction, and let the gateway look at it."""
    turn = partial(recover.recover, witnesses=witnesses, principal="olga", reason="a backup")
    done: Recovered = await store.ledger._writer.run(turn, always=True)
    await store.ledger.beat()
    return done


async def trusted(store: Books, *names: str) -> int:
    turn = partial(recover.trust, names=names, principal="olga", reason="compared")
    _, not_before_ms = await store.ledger._writer.run(turn, always=True)
    await store.ledger.beat()
    return int(not_before_ms)


async def settled(store: Books, effect_id: str, key: str, outcome: Outcome) -> None:
    await store.ledger.admit(proposal(effect_id, key))
    await store.ledger.settle(settlement(effect_id, outcome))


async def test_a_key_that_is_not_on_record_is_held_as_unknown(store: Books):
    await settled(store, "e-0", "k-0", Outcome.CONFIRMED)
    before_ms = store.ledger.clock.now_ms()
    store.clock.advance(seconds=60.0)
    await recovered(store)

    held = await store.ledger.admit(proposal("e-1", "k-1"))
    again = await store.ledger.admit(proposal("e-2", "k-1"))

    assert (verdict(held), held.n, held.held) == ("ledger-restored", None, 1)
    assert (verdict(again), again.effect_id) == ("outcome-unknown", "e-1")
    effect = await store.effect("e-1")
    assert effect.outcome is Outcome.UNKNOWN
    (attempt,) = effect.attempts
    assert attempt.reason == "ledger-restored"
    assert attempt.created_at_ms <= before_ms  # it may have been sent from then on
    assert attempt.seal_at_ms >= store.ledger.clock.now_ms() + SEAL_MS - 1_000


async def test_a_key_that_was_free_in_the_backup_is_held_too(store: Books):
    """Rejected before; corrected and confirmed in the lost time, for all that anybody knows."""
    await settled(store, "e-1", "k-1", Outcome.REJECTED)
    store.clock.advance(seconds=1.0)
    await recovered(store)

    held = await store.ledger.admit(proposal("e-2", "k-1", body="corrected"))

    assert (verdict(held), held.effect_id, held.held) == ("ledger-restored", "e-1", 2)
    assert (await store.effect("e-1")).outcome is Outcome.UNKNOWN


async def test_what_is_on_record_as_confirmed_is_replayed(store: Books):
    await settled(store, "e-1", "k-1", Outcome.CONFIRMED)
    await recovered(store)

    assert verdict(await store.ledger.admit(proposal("e-2", "k-1"))) == "replay"


async def test_a_question_without_the_wish_to_send_writes_nothing(store: Books):
    await recovered(store)

    asked = await store.ledger.admit(proposal("e-1", "k-1").without_claim())

    assert (verdict(asked), asked.held) == ("ledger-restored", None)
    assert store.rows("SELECT count(*) FROM effect")[0][0] == 0


async def test_trust_in_a_unit_frees_that_unit_alone(store: Books):
    await recovered(store)

    await trusted(store, "report/u-1")

    free = await store.ledger.admit(proposal("e-1", "k-1", unit="u-1"))
    held = await store.ledger.admit(proposal("e-2", "k-1", unit="u-2"))
    assert (verdict(free), verdict(held)) == ("admit", "ledger-restored")


async def test_trust_waits_until_the_last_lost_attempt_is_sealed(store: Books):
    await settled(store, "e-1", "k-1", Outcome.CONFIRMED)
    await recovered(store)

    assert await trusted(store, "*") > 0
    store.clock.advance(seconds=SEAL_MS / 1000 + 1)
    assert await trusted(store, "*") == 0

    assert verdict(await store.ledger.admit(proposal("e-2", "k-2"))) == "admit"


async def test_terms_given_out_go_above_all_that_was_seen_and_nobody_leads(store: Books):
    ana = await store.acquire("ana#1")
    assert ana.record.lease is not None
    seen = Seen(scopes={Scope("report"): (5, 5), Scope("gone", "u-1"): (9, 9)}, rest={"old": 40})

    await recovered(store, seen)

    rules = proposal("e-1", term=5, holder="bo#1", rules=LEASED)
    assert verdict(await store.ledger.admit(rules)) == "stale-term"
    next_one = await store.acquire("cid#1")
    assert next_one.record.lease is not None
    assert next_one.record.lease.term > 40
    assert store.scope("gone", "u-1") is not None


async def test_terms_from_outside_stay_where_none_was_lost(store: Books):
    await store.ledger.admit(proposal("e-1", "k-1", term=7, function="kept"))
    await store.ledger.admit(proposal("e-2", "k-1", term=7, function="lost"))

    await recovered(store, Seen(scopes={Scope("kept"): (7, 7), Scope("lost"): (8, 8)}))

    asked = {
        (function, term): verdict(
            await store.ledger.admit(proposal(f"e-{term}", "k-2", term=term, function=function))
        )
        for function, term in (("kept", 7), ("lost", 7), ("lost", 8), ("lost", 9))
    }
    assert asked == {
        ("kept", 7): "ledger-restored",
        ("lost", 7): "stale-term",
        ("lost", 8): "term-contested",
        ("lost", 9): "ledger-restored",
    }


async def test_what_was_in_flight_is_unknown_and_sealed_anew(store: Books):
    await store.ledger.admit(proposal("e-1", "k-1"))
    store.clock.advance(seconds=3.0)

    done = await recovered(store)

    assert done.effects_unknown == 1
    effect = await store.effect("e-1")
    assert (effect.outcome, effect.attempts[0].reason) == (Outcome.UNKNOWN, "ledger-restored")
    assert effect.attempts[0].seal_at_ms >= store.ledger.clock.now_ms() + SEAL_MS - 1_000


async def test_each_scope_has_its_recovery_in_the_journal(store: Books):
    await store.acquire("ana#1")
    await recovered(store)

    told = await store.transitions("ledger-recovered")

    assert [(one.function, one.principal, one.reason) for one in told] == [
        ("report", "olga", "a backup"),
        ("", "olga", "a backup"),
    ]


async def test_a_second_recovery_takes_all_trust_back(store: Books):
    await recovered(store)
    await trusted(store, "*")
    await recovered(store)

    held = await store.ledger.admit(proposal("e-1", "k-1"))

    assert verdict(held) == "ledger-restored"
