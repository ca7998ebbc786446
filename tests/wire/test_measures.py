"""Durations and sizes as people write them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from gateway.core.measures import show_duration
from gateway.wire.measures import DurationMs, SizeBytes, parse_duration_ms, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("0s", 0),
        ("2s", 2_000),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("4h", 14_400_000),
        ("30d", 2_592_000_000),
    ],
)
def test_a_duration_has_a_unit(text, ms):
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "-1s", "5 s", "5S", "1e3s", "1w", "0.5ms", "٣s", "1s\n"])
def test_another_duration_is_refused_with_its_value(text):
    with pytest.raises(ValueError, match="write"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1024", 1024), ("256KiB", 262_144), ("64 MiB", 67_108_864), ("1GB", 10**9)],
)
def test_a_size_may_have_a_unit(text, size):
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "KiB", "-1", "1.5MiB", "1kib", "1TB", "1MiB\n"])
def test_another_size_is_refused_with_its_value(text):
    with pytest.raises(ValueError, match="is not a size"):
        parse_size_bytes(text)


@pytest.mark.parametrize("text", ["500ms", "2s", "5m", "4h", "30d", "1500ms", "0ms"])
def test_a_duration_is_shown_as_it_would_be_written(text):
    assert show_duration(parse_duration_ms(text)) == text


def test_fields_of_a_file_take_them():
    assert TypeAdapter(DurationMs).validate_python("2s") == 2000
    assert TypeAdapter(SizeBytes).validate_python(5) == 5
    assert TypeAdapter(SizeBytes).validate_python("1KiB") == 1024
    for wrong in (5, None, True):
        with pytest.raises(ValidationError, match="no unit"):
            TypeAdapter(DurationMs).validate_python(wrong)
    for wrong in (True, 1.5, None, -1):
        with pytest.raises(ValidationError, match="not a size"):
            TypeAdapter(SizeBytes).validate_python(wrong)
