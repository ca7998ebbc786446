"""Durations and sizes as people write them: `500ms`, `30d`, `256KiB`.

Here rather than in wire because both wire and settings, which may not see each other, need it.
"""

from __future__ import annotations

import re
from typing import Final

_MS_PER: Final[dict[str, int]] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES_PER: Final[dict[str, int]] = {
    "": 1,
    "B": 1,
    "kB": 1_000,
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 1_000_000_000,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)\Z")
_SIZE: Final = re.compile(r"([0-9]{1,15})\s?([A-Za-z]{0,3})\Z")


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds that `text` says (`500ms`, `2s`, `1.5s`, `5m`, `4h`, `30d`).

    Raises ValueError, with the value and the forms that would do.
    """
    found = _DURATION.match(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is not a duration; write 500ms, 2s, 5m, 4h or 30d")
    number, unit = found.groups()
    whole, _, fraction = number.partition(".")
    value_ms: int
    value_ms, rest = divmod(int(whole + fraction) * _MS_PER[unit], 10 ** len(fraction))
    if rest:
        raise ValueError(f"{text[:40]!r} is finer than a millisecond; write whole milliseconds")
    return value_ms


def parse_size_bytes(text: str) -> int:
    """Return the bytes that `text` says (`1024`, `256KiB`, `64MiB`, `1GB`).

    Raises ValueError, with the value and the forms that would do.
    """
    found = _SIZE.match(text)
    if found is None or found.group(2) not in _BYTES_PER:
        raise ValueError(f"{text[:40]!r} is not a size; write 1024, 256KiB, 64MiB or 1GB")
    return int(found.group(1)) * _BYTES_PER[found.group(2)]


def show_duration(value_ms: int) -> str:
    """Return `value_ms` in the largest unit that says it exactly."""
    for unit in ("d", "h", "m", "s"):
        if value_ms and value_ms % _MS_PER[unit] == 0:
            return f"{value_ms // _MS_PER[unit]}{unit}"
    return f"{value_ms}ms"
