"""Durations and sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.measures import parse_duration_ms, parse_size_bytes, show_duration


@pytest.mark.parametrize(
    ("text", "value_ms"),
    [
        ("0s", 0),
        ("500ms", 500),
        ("2s", 2_000),
        ("1.5s", 1_500),
        ("0.25m", 15_000),
        ("5m", 300_000),
        ("4h", 14_400_000),
        ("30d", 2_592_000_000),
        ("1.10s", 1_100),
    ],
)
def test_a_duration_is_a_number_and_its_unit(text: str, value_ms: int):
    assert parse_duration_ms(text) == value_ms


@pytest.mark.parametrize(
    "text",
    ["", "5", "s", "5 s", "-5s", "+5s", "5S", "5sec", ".5s", "5.s", "1e3s", "5s\n", "\u0665s", "1w",
     "1m30s"],
)  # fmt: skip
def test_a_duration_of_another_form_is_refused_and_shown(text: str):
    with pytest.raises(ValueError) as refused:
        parse_duration_ms(text)

    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", ["0.5ms", "1.0001s"])
def test_nothing_is_finer_than_a_millisecond(text: str):
    with pytest.raises(ValueError, match="finer than a millisecond"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "value_bytes"),
    [
        ("0", 0),
        ("1024", 1024),
        ("7B", 7),
        ("256KiB", 262_144),
        ("64 MiB", 67_108_864),
        ("1GiB", 1_073_741_824),
        ("2kB", 2_000),
        ("2KB", 2_000),
        ("3MB", 3_000_000),
        ("1GB", 1_000_000_000),
    ],
)
def test_a_size_is_a_number_and_perhaps_a_unit(text: str, value_bytes: int):
    assert parse_size_bytes(text) == value_bytes


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.5MB", "1TB", "1kib", "1  MB", "1MB "])
def test_a_size_of_another_form_is_refused_and_shown(text: str):
    with pytest.raises(ValueError) as refused:
        parse_size_bytes(text)

    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [(0, "0ms"), (999, "999ms"), (1_000, "1s"),
     (90_000, "90s"), (120_000, "2m"), (86_400_000, "1d")],
)  # fmt: skip
def test_a_duration_is_shown_in_the_largest_unit_that_says_it(value_ms: int, text: str):
    assert show_duration(value_ms) == text


@given(st.integers(0, 999_999_999))
@settings(max_examples=100, deadline=None, database=None)
def test_a_duration_that_is_shown_is_read_back(value_ms: int):
    assert parse_duration_ms(show_duration(value_ms)) == value_ms
