"""The reader: lists, filters, pages, and single effects."""

from __future__ import annotations

import asyncio

from gateway.core.effect import Outcome
from gateway.store.records import EffectFilter
from tests.conformance.books import SEAL_MS, Books


async def listed(store: Books, **wanted: object) -> list[str]:
    reader = await store.ledger.reader()
    found, _ = await reader.effects(EffectFilter(**wanted))
    return [effect.id for effect in found]


async def test_effects_are_listed_page_by_page_newest_first(store: Books):
    made = [await store.admitted(f"k-{n}") for n in range(5)]
    reader = await store.ledger.reader()
    pages: list[list[str]] = []
    cursor: str | None = None
    while not pages or cursor is not None:
        found, cursor = await reader.effects(EffectFilter(limit=2, cursor=cursor))
        pages.append([effect.id for effect in found])

    assert [len(page) for page in pages] == [2, 2, 1]
    assert [one for page in pages for one in page] == made[::-1]


async def test_a_full_last_page_has_no_next_one(store: Books):
    for n in range(2):
        await store.admitted(f"k-{n}")

    _, cursor = await (await store.ledger.reader()).effects(EffectFilter(limit=2))

    assert cursor is None
    assert await listed(store, cursor="e-001") == []


async def test_filters_narrow_the_list_and_add_up(store: Books):
    a = await store.settled(Outcome.CONFIRMED, "a", unit="u-1", term=7)
    b = await store.settled(Outcome.UNKNOWN, "b", unit="u-2", term=7)
    c = await store.admitted("c", unit="u-2", term=8, destination="mail")
    d = await store.settled(Outcome.REJECTED, "d", function="sweep", term=2)

    assert await listed(store, function="report") == [c, b, a]
    assert await listed(store, unit="u-2") == [c, b]
    assert await listed(store, unit="u-2", destination="crm") == [b]
    assert await listed(store, term=7) == [b, a]
    assert await listed(store, outcome="confirmed") == [a]
    assert await listed(store, outcome="unknown") == [b]
    assert await listed(store, outcome="in-flight") == [c]
    assert await listed(store, outcome="rejected") == [d]
    assert await listed(store, outcome="no-effect") == []


async def test_an_asker_sees_only_what_it_may(store: Books):
    a = await store.admitted("a")
    b = await store.admitted("b", destination="mail")
    await store.admitted("c", function="sweep")

    assert await listed(store, only_functions=frozenset({"report"})) == [b, a]
    assert await listed(
        store, only_functions=frozenset({"report"}), only_destinations=frozenset({"mail", "x"})
    ) == [b]
    assert await listed(store, only_functions=frozenset()) == []


async def test_an_attempt_that_is_resolved_but_not_sealed_is_not_listed_as_unknown(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN)
    await store.resolve(effect_id, Outcome.CONFIRMED)

    assert await listed(store, outcome="unknown") == []
    assert await listed(store, outcome="confirmed") == [effect_id]


async def test_unknowns_are_counted_with_the_age_of_the_oldest(store: Books):
    reader = await store.ledger.reader()
    assert (await reader.unknowns()).oldest_at_ms is None
    first = await store.admit("a")
    await store.settle(first.effect_id, Outcome.UNKNOWN)
    store.clock.advance(ms=SEAL_MS)
    await store.settled(Outcome.UNKNOWN, "b")
    await store.admitted("c")

    unknowns = await reader.unknowns()

    assert (unknowns.count, unknowns.oldest_at_ms, unknowns.in_flight) == (2, first.now_ms, 1)


async def test_an_effect_is_shown_with_its_attempts_in_order(store: Books):
    effect_id = await store.settled(Outcome.REJECTED, term=7)
    await store.settled(Outcome.NO_EFFECT, term=8)
    await store.settled(Outcome.CONFIRMED, term=9)

    effect = await store.effect(effect_id)

    assert [(one.n, one.term, one.outcome) for one in effect.attempts] == [
        (1, 7, Outcome.REJECTED), (2, 8, Outcome.NO_EFFECT), (3, 9, Outcome.CONFIRMED),
    ]  # fmt: skip
    assert (effect.state, (await store.effect(effect_id)).outcome) == ("settled", "confirmed")
    assert await (await store.ledger.reader()).effect("e-404") is None


async def test_many_that_ask_at_once_share_one_reader(store: Books):
    readers = await asyncio.gather(*(store.ledger.reader() for _ in range(20)))

    assert len(set(map(id, readers))) == 1
