"""Races: many at once for one key, and the raise of a term against admissions of the old one."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from gateway.core.effect import Outcome
from tests.conformance.books import Books, proposal, verdict
from tests.simulation.chance import SEED, count

AT_ONCE = 64


async def test_of_many_at_once_under_one_key_exactly_one_is_admitted(store: Books):
    for round_ in range(count(40, 1000)):
        key = f"k-{round_}"
        rulings = await asyncio.gather(
            *(store.admit(key, term=7, holder="leader#7") for _ in range(AT_ONCE))
        )

        assert Counter(map(verdict, rulings)) == {"admit": 1, "in-flight": AT_ONCE - 1}
        (admitted,) = [ruling for ruling in rulings if ruling.n is not None]
        assert {ruling.effect_id for ruling in rulings} == {admitted.effect_id}
    attempts = store.rows("SELECT effect_id, n FROM attempt")
    assert len(attempts) == len(set(attempts)) == round_ + 1


async def test_a_key_that_is_freed_while_many_ask_is_admitted_once_for_each_freeing(store: Books):
    async def ask(key: str) -> int:
        sent = 0
        for _ in range(6):
            ruling = await store.admit(key)
            if ruling.n is not None:
                sent += 1
                await store.settle(ruling.effect_id, Outcome.NO_EFFECT, ruling.n)
        return sent

    for round_ in range(count(5, 100)):
        sent = sum(await asyncio.gather(*(ask(f"k-{round_}") for _ in range(16))))

        ((effect_id, attempts),) = store.rows(
            "SELECT id, attempts FROM effect WHERE key = ?", f"k-{round_}"
        )
        assert attempts == sent
        assert store.rows("SELECT count(*) FROM attempt WHERE effect_id = ?", effect_id) == [
            (sent,)
        ]


async def test_nothing_of_an_old_term_is_admitted_after_a_newer_one(store: Books):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    # Futures end in the order of their commits, so what the callers note is the history.
    history: list[tuple[str, str, int]] = []

    async def write(effect_id: str, term: int, pauses: int, settles: bool) -> None:
        for _ in range(pauses):
            await asyncio.sleep(0)
        ruling = await store.ledger.admit(
            proposal(effect_id, f"key-{effect_id}", term=term, covers=effect_id)
        )
        history.append((verdict(ruling), effect_id, term))
        if ruling.n is not None and settles:
            await store.settle(effect_id, Outcome.CONFIRMED)
            history.append(("settled", effect_id, term))

    for round_ in range(count(20, 500)):
        jobs = [
            write(f"e-{term}-{n}", term, chance.randrange(6), chance.random() < 0.8)
            for term, number in ((2 * round_ + 1, 40), (2 * round_ + 2, 10))
            for n in range(number)
        ]
        chance.shuffle(jobs)
        await asyncio.gather(*jobs)

    check_history(store, history)


def check_history(store: Books, history: list[tuple[str, str, int]]) -> None:
    """No admission goes back in term, and each raise lists what is unfinished at that moment."""
    highest = 0
    unfinished: set[str] = set()
    expected = []
    for what, effect_id, term in history:
        if what == "stale-term":
            assert term < highest
        elif what == "settled":
            unfinished.discard(effect_id)
        else:
            assert what == "admit"
            assert term >= highest
            if term > highest:
                expected.append((term, highest, sorted(unfinished)))
                highest = term
            unfinished.add(effect_id)
    assert store.handovers() == expected
    admitted = {effect_id: term for what, effect_id, term in history if what == "admit"}
    assert dict(store.rows("SELECT effect_id, term FROM attempt")) == admitted


async def test_a_raise_and_the_admissions_around_it_share_a_batch_in_order(store: Books):
    for round_ in range(count(10, 200)):
        base = 2 * round_ + 1
        terms = [base] * 20 + [base + 1] + [base] * 20 + [base + 1] * 5
        rulings = await store.together(
            *(
                store.ledger.admit(
                    proposal(f"e-{base}-{n}", f"k-{base}-{n}", term=term, covers=f"{base}-{n}")
                )
                for n, term in enumerate(terms)
            )
        )

        assert [verdict(ruling) for ruling in rulings] == (
            ["admit"] * 21 + ["stale-term"] * 20 + ["admit"] * 5
        )
        (listed,) = [effects for term, _, effects in store.handovers() if term == base + 1]
        assert {f"e-{base}-{n}" for n in range(20)} == {
            one for one in listed if one.startswith(f"e-{base}-")
        }
        for n in (*range(21), *range(41, 46)):
            await store.settle(f"e-{base}-{n}", Outcome.CONFIRMED)
