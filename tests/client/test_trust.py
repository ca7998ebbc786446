"""Trust counts from the question, less what clocks may be wrong by, less the margin."""

from __future__ import annotations

import random
import time

import pytest

from gateway.client.trust import Backoff, SystemClock, jittered, trusted_until_s


@pytest.mark.parametrize(
    ("asked_s", "remaining_ms", "margin_s", "until_s"),
    [
        (100.0, 20_000, 3.0, 116.98),  # both clocks may be wrong by 500 ppm
        (100.0, 20_000, 0.0, 119.98),
        (100.0, 2_000, 3.0, 100.0),  # shorter than the margin: never trusted
        (100.0, 0, 0.0, 100.0),
    ],
)
def test_a_grant_is_trusted_from_the_moment_it_was_asked_for(
    asked_s: float, remaining_ms: float, margin_s: float, until_s: float
):
    assert trusted_until_s(asked_s, remaining_ms, margin_s) == pytest.approx(until_s)


def test_pauses_grow_to_a_limit_and_differ():
    backoff = Backoff(random.Random(1), first_s=0.2, most_s=5)

    pauses = [backoff.next_s() for _ in range(40)]

    assert 0.1 <= pauses[0] <= 0.2
    assert all(2.5 <= pause <= 5 for pause in pauses[6:])
    assert len(set(pauses)) == 40
    backoff.reset()
    assert backoff.next_s() <= 0.2


def test_jitter_is_a_tenth_either_way():
    chance = random.Random(1)

    drawn = [jittered(10, chance) for _ in range(1000)]

    assert 9 <= min(drawn) < 9.2
    assert 10.8 < max(drawn) <= 11


def test_the_clock_counts_the_time_that_the_machine_slept():
    before = time.clock_gettime(time.CLOCK_BOOTTIME)

    assert before <= SystemClock().boot_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_where_boottime_is_missing_the_monotonic_clock_serves(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")

    assert SystemClock().boot_s() == pytest.approx(time.monotonic(), abs=1)
