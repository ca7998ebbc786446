"""Durations and sizes as fields of files and bodies; the parsing is core's."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from gateway.core.measures import parse_duration_ms, parse_size_bytes

__all__ = ["DurationMs", "SizeBytes", "parse_duration_ms", "parse_size_bytes"]


def _duration(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} has no unit; write 500ms, 2s, 5m, 4h or 30d")
    return parse_duration_ms(value)


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a size; write 1024, 256KiB, 64MiB or 1GB")
    return parse_size_bytes(str(value))


DurationMs = Annotated[int, BeforeValidator(_duration)]
"""Milliseconds, written with a unit."""

SizeBytes = Annotated[int, BeforeValidator(_size)]
"""Bytes, written as a number or with a unit."""
