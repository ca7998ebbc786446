"""Many items at once: ten thousand are claimed, checkpointed and reported, and all add up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.core.work import ItemState, may_be_claimed
from tests.conformance.books import Books
from tests.conformance.working import Site

ITEMS = 10_000
WORKERS = 4
BITE = 500


@contextmanager
def timed(what: str, count: int) -> Iterator[None]:
    began_s = time.perf_counter()
    yield
    lasted_s = time.perf_counter() - began_s
    print(f"\n{what}: {count} in {lasted_s:.2f} s, {count / lasted_s:,.0f} a second", end="")


async def test_ten_thousand_items_are_claimed_checkpointed_and_reported(store: Books):
    site = Site(store)
    with timed("created", ITEMS):
        await site.create(f"lead-{n:05}" for n in range(ITEMS))
    claimed: dict[str, list[str]] = {}

    async def claim(worker: str) -> None:
        mine: list[str] = []
        for n in range(ITEMS // WORKERS // BITE):
            found = await site.claim(f"{worker}-{n}", limit=BITE)
            claimed[f"{worker}-{n}"] = found
            mine += found

    with timed("claimed", ITEMS):
        await asyncio.gather(*(claim(f"w#{n}") for n in range(WORKERS)))
    everything = [item for items in claimed.values() for item in items]
    assert len(everything) == len(set(everything)) == ITEMS

    checkpoints = [(worker, items[n]) for worker, items in claimed.items() for n in range(50)]
    with timed("checkpointed", len(checkpoints)):
        answers = await asyncio.gather(
            *(site.checkpoint(worker, item, 0, {"page": 1}) for worker, item in checkpoints)
        )
    assert {answer.version for answer in answers} == {1}

    with timed("reported", ITEMS):
        for worker, items in claimed.items():
            answer = await site.report(worker, *((item, "done", 1) for item in items))
            assert answer.turned == {}

    with timed("tallied", 1):
        shown = await site.shown()
    assert shown.tally.items == {ItemState.DONE: ITEMS}
    assert (await site.complete()).ended


async def test_the_store_hands_out_what_the_rule_says(store: Books):
    """All that `may_be_claimed` lets be claimed, and nothing else, in every state."""
    site = Site(store)
    await site.create(f"i-{n}" for n in range(12))
    await site.claim("w#1", limit=3, ttl_ms=1000)
    await site.claim("w#2", limit=4, ttl_ms=9000)
    await site.report("w#2", ("i-3", "done", 1), ("i-4", "failed", 1), ("i-5", "uncertain", 1))
    store.clock.advance(ms=1000)

    for there in (site, site.under(8)):
        await there.create("")
        now_ms = store.ledger.clock.now_ms()
        records = await there.items()
        reader = await store.ledger.reader()
        expected = [r.item for r in records if may_be_claimed(r, there.term, now_ms)]
        assert len(await reader.items("october", limit=100)) == 12
        assert await there.claim(f"new#{there.term}", limit=100) == expected
