"""Three gateways on one database do everything at once; what is on record afterwards adds up."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from gateway.core.effect import Outcome
from gateway.core.lease import Granted
from gateway.store.homes import PostgresHome
from gateway.store.ledger import Ledger
from tests.conformance.books import LEASED, RULES, Books, proposal, settlement, verdict
from tests.conformance.shelves import PostgresShelf
from tests.postgres_server import Server
from tests.simulation.chance import SEED, count

SETTLED = [Outcome.CONFIRMED, Outcome.CONFIRMED, Outcome.REJECTED, Outcome.NO_EFFECT]


async def lead_and_write(books: Books, name: str, turns: int, chance: random.Random) -> None:
    """Take the lead, write under it, settle some of it, lose it to others, and so on."""
    term = 0
    for turn in range(turns):
        pick = chance.random()
        if term == 0 or pick < 0.06:
            answer = await books.acquire(f"w#{name}-{turn}", supersede=True)
            lease = answer.record.lease
            if not isinstance(answer.answer, Granted):  # better candidates go first for a while
                books.clock.advance(ms=RULES.prefer_for_ms)
            assert lease is not None
            holder, term = lease.holder, lease.term
        elif pick < 0.1:
            await books.renew(holder, term)
        elif pick < 0.12:
            await books.release(holder, term)
        elif pick < 0.14:
            await books.ledger.strand()
        else:
            effect_id = f"e-{name}-{turn}"
            key = f"k-{chance.randrange(turns)}"
            ruling = await books.ledger.admit(
                proposal(
                    effect_id, key, term=term, holder=holder, principal="w", rules=LEASED,
                    covers=f"c-{chance.randrange(30)}",
                )
            )  # fmt: skip
            if ruling.n is not None and chance.random() < 0.8:
                outcome = chance.choice(SETTLED)
                await books.ledger.settle(settlement(ruling.effect_id, outcome, ruling.n))
            elif verdict(ruling) == "stale-term":  # several hands of the one who leads by now
                lease = (await books.lease()).lease
                assert lease is not None
                holder, term = lease.holder, lease.term


async def test_what_three_gateways_did_at_once_adds_up(postgres_server: Server, postgres_url: str):
    print(f"seed {SEED}")
    one = await Books.open_at(PostgresShelf(postgres_url))
    where = PostgresShelf(postgres_url).where
    gateways = [one]
    try:
        for n in (1, 2):
            home = PostgresHome(where, own_clock=True)
            ledger = await Ledger.open_at(home, one.clock)
            gateways.append(Books(PostgresShelf(postgres_url), one.clock, ledger, born=n * 1000))
        async with asyncio.TaskGroup() as tasks:
            for n, books in enumerate(gateways):
                for at in range(4):
                    chance = random.Random(SEED + 10 * n + at)
                    work = lead_and_write(books, f"{n}{at}", count(60, 2000), chance)
                    tasks.create_task(work)
        check(one)
        said = postgres_server.said()
        print(f"{said.count('deadlock detected')} deadlocks")
    finally:
        for books in reversed(gateways):
            await books.close()


def check(books: Books) -> None:
    """Each attempt was made under the term of its time, and each handover lists what the older
    terms had left unfinished. The journal's numbers are the order of commits."""
    order = books.rows("SELECT term FROM transition WHERE kind = 'leader-acquired' ORDER BY id")
    terms = [term for (term,) in order]
    assert terms == list(range(1, len(terms) + 1))
    assert [term for term, _, _ in books.handovers()] == terms
    effects = {row[0]: row for row in books.rows("SELECT id, outcome, attempts, key FROM effect")}
    assert max(Counter(key for _, _, _, key in effects.values()).values()) == 1
    tries: dict[str, list[tuple[int, int, int]]] = {}
    for effect_id, n, term, is_open in books.rows(
        "SELECT effect_id, n, term, open FROM attempt ORDER BY effect_id, n"
    ):
        tries.setdefault(effect_id, []).append((n, term, is_open))
    assert tries.keys() == effects.keys()
    assert min(len(effects), len(terms)) > 10  # else there was nothing to contend for
    for effect_id, made in tries.items():
        assert [n for n, _, _ in made] == list(range(1, effects[effect_id][2] + 1))
        assert [term for _, term, _ in made] == sorted(term for _, term, _ in made)
    listed: dict[str, list[int]] = {}
    for term, previous, left in books.handovers():
        assert previous == term - 1
        for effect_id in left:
            listed.setdefault(effect_id, []).append(term)
            assert tries[effect_id][0][1] < term
    for effect_id, made in tries.items():
        if made[-1][2]:  # never settled: every later leader was told
            assert set(range(made[-1][1] + 1, terms[-1] + 1)) <= set(listed.get(effect_id, []))
    assert {error for up, error in books.watcher.up if not up} == set()
