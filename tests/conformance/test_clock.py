"""The store's clock never goes back, and no jump of it opens a seal before its time."""

from __future__ import annotations

import pytest

from gateway.core.effect import Outcome
from gateway.store.clock import WRITTEN_EVERY_MS
from gateway.store.records import Unresolved
from tests.conformance.books import SEAL_MS, Books

HOUR_S = 3600


@pytest.mark.parametrize("step_s", [-HOUR_S, HOUR_S])
async def test_a_step_of_the_wall_clock_is_not_felt(store: Books, step_s: int):
    before = (await store.admit("k-1")).now_ms

    store.clock.step_wall(seconds=step_s)
    store.clock.advance(ms=250)

    assert (await store.admit("k-2")).now_ms == before + 250


@pytest.mark.parametrize("step_s", [-HOUR_S, HOUR_S])
async def test_a_restart_on_the_same_boot_goes_on_by_the_boot_clock(store: Books, step_s: int):
    before = (await store.admit("k-1")).now_ms

    store.clock.step_wall(seconds=step_s)
    store.clock.advance(seconds=10)
    await store.reopen()

    assert (await store.admit("k-2")).now_ms == before + 10_000


async def test_after_a_reboot_the_wall_clock_counts_forwards(store: Books):
    before = (await store.admit("k-1")).now_ms

    await store.reopen(reboot=True, step_wall_s=HOUR_S)

    assert (await store.admit("k-2")).now_ms == before + HOUR_S * 1000


async def test_after_a_reboot_with_a_wall_clock_in_the_past_time_stands_and_goes_on(store: Books):
    before = (await store.admit("k-1")).now_ms

    await store.reopen(reboot=True, step_wall_s=-HOUR_S)

    after = (await store.admit("k-2")).now_ms
    assert before <= after <= before + WRITTEN_EVERY_MS
    store.clock.advance(ms=70)
    assert (await store.admit("k-3")).now_ms == after + 70


async def test_a_jump_of_the_clock_extends_the_open_seals_by_the_jump(store: Books):
    effect_id = await store.admitted("k-1", term=7)
    store.clock.advance(ms=1000)
    await store.ledger.beat()

    await store.reopen(reboot=True, step_wall_s=HOUR_S)

    # the destination has had one second, whatever the wall clock says
    store.clock.advance(ms=SEAL_MS - 1001)
    assert await store.ask("k-2", term=8) == "wait"
    assert await store.resolve(effect_id, Outcome.NO_EFFECT) is Unresolved.BEFORE_SEAL
    store.clock.advance(ms=1)
    assert await store.ask("k-2", term=8) == "admit"
    assert await store.resolve(effect_id, Outcome.NO_EFFECT) is None


async def test_a_seal_that_was_reached_before_a_jump_stays_reached(store: Books):
    await store.admitted("k-1", term=7)
    store.clock.advance(ms=SEAL_MS)
    await store.ledger.beat()

    await store.reopen(reboot=True, step_wall_s=HOUR_S)

    assert await store.ask("k-2", term=8) == "admit"


async def test_recorded_times_never_go_back_over_any_restarts(store: Books):
    seen = []
    for at, step_s in enumerate([0, -HOUR_S, 7, HOUR_S, -2 * HOUR_S, 0]):
        await store.reopen(reboot=bool(at % 2), step_wall_s=step_s)
        store.clock.advance(ms=5)
        seen.append((await store.admit(f"k-{at}")).now_ms)

    assert seen == sorted(seen)
    journal = [at_ms for (at_ms,) in store.rows("SELECT at_ms FROM transition ORDER BY id")]
    assert journal == sorted(journal)
