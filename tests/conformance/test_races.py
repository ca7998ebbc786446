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
    for round_ in range(count(20, 500)):
        old, new = 2 * round_ + 1, 2 * round_ + 2

        async def write(n: int, term: int) -> tuple[str, int | None]:
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            effect_id = f"e-{term}-{n}"
            ruling = await store.ledger.admit(
                proposal(effect_id, f"k-{term}-{n}", term=term, covers=f"{n}")
            )
            if ruling.n is not None and n % 3 == 0:
                await store.settle(effect_id, Outcome.CONFIRMED)
            return effect_id, ruling.n

        jobs = [write(n, old) for n in range(40)] + [write(n, new) for n in range(100, 110)]
        chance.shuffle(jobs)
        await asyncio.gather(*jobs)

        check_order(store, old, new)


def check_order(store: Books, old: int, new: int) -> None:
    """Check against the history in commit order: the rows of the attempts, and the handover."""
    order = [term for (term,) in store.rows("SELECT term FROM attempt ORDER BY seq")]
    assert order == sorted(order)
    (handover,) = [listed for term, _, listed in store.handovers() if term == new]
    unfinished_since = set(handover)
    late = "SELECT effect_id FROM attempt WHERE term = ? AND outcome IS NULL"
    still_open = {effect_id for (effect_id,) in store.rows(late, old)}
    assert still_open <= unfinished_since
    settled_later = {
        effect_id
        for (effect_id,) in store.rows("SELECT effect_id FROM attempt WHERE term = ?", old)
    }
    before = {e for term, _, listed in store.handovers() if term == old for e in listed}
    assert unfinished_since <= settled_later | before | still_open


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
