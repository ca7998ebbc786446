"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line a row, columns as wide as they have to be. The first row is the head."""
    shown = [[printable(text) for text in row] for row in rows]
    widths = [max(len(row[at]) for row in shown) for at in range(len(shown[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]


def printable(text: str) -> str:
    """Return `text` without what would move the cursor or change the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
