"""How attempts add up to an effect, and when two requests are one."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core import effect
from gateway.core.effect import FREE_AGAIN, Fingerprint, Outcome, add_up, settled_attempt
from tests.core.effect_table import mistakes

attempts = st.lists(st.none() | st.sampled_from(Outcome), max_size=8)


def test_the_tables_find_no_mistake_in_the_effects():
    assert mistakes(effect) == []


@given(attempts)
@settings(max_examples=100, deadline=None, database=None)
def test_one_confirmed_attempt_confirms_the_effect_wherever_it_stands(others: list[Outcome | None]):
    for at in range(len(others) + 1):
        assert add_up([*others[:at], Outcome.CONFIRMED, *others[at:]]) is Outcome.CONFIRMED


@given(attempts)
@settings(max_examples=100, deadline=None, database=None)
def test_a_free_key_means_that_every_single_attempt_had_no_effect(
    all_of_them: list[Outcome | None],
):
    if add_up(all_of_them) in FREE_AGAIN:
        assert set(all_of_them) <= FREE_AGAIN
    elif all_of_them:
        assert not set(all_of_them) <= FREE_AGAIN


def test_an_unknown_attempt_is_hidden_by_no_later_refusal():
    for later in permutations((Outcome.REJECTED, Outcome.NO_EFFECT, Outcome.REJECTED)):
        assert add_up([Outcome.UNKNOWN, *later]) is Outcome.UNKNOWN


def test_nothing_argues_away_that_it_happened():
    for answer in Outcome:
        for decided in (False, True):
            assert settled_attempt(Outcome.CONFIRMED, answer, decided=decided) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Fingerprint(1, b"a"), Fingerprint(1, b"a"), True),
        (Fingerprint(1, b"a"), Fingerprint(1, b"b"), False),
        (Fingerprint(1, b"a", b"c"), Fingerprint(1, b"b", b"c"), True),
        (Fingerprint(1, b"a", b"c"), Fingerprint(1, b"a", b"d"), True),
        (Fingerprint(1, b"a", b"c"), Fingerprint(1, b"b", b"d"), False),
        (Fingerprint(1, b"a", b"c"), Fingerprint(1, b"b"), False),
        (Fingerprint(1, b"a"), Fingerprint(1, b"b", b"c"), False),
        (Fingerprint(1, b"a", b"b"), Fingerprint(1, b"b", b"a"), False),
        (Fingerprint(1, b"a"), Fingerprint(2, b"a"), False),
        (Fingerprint(1, b"a", b"c"), Fingerprint(2, b"a", b"c"), False),
    ],
)
def test_either_digest_proves_sameness_within_one_version(
    one: Fingerprint, other: Fingerprint, same: bool
):
    assert one.same_request(other) is same
    assert other.same_request(one) is same
