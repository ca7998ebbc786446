"""How a drill is told: one line a scenario, then what was off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.drill.figures import Figures
from gateway.drill.run import Played

HEADS: Final = (
    "scenario", "units", "effects", "terms", "no leader", "resumed from", "transitions",
    "exc.", "reconciled", "dup.", "",
)  # fmt: skip
WIDTHS: Final = (23, 5, 7, 5, 9, 18, 14, 4, 15, 4, 2)


def header() -> str:
    return _line(HEADS)


def line_of(played: Played) -> str:
    found = played.figures
    cells = ["-"] * 9 if found is None else _cells(found)
    return _line([played.scenario.name, *cells, "no" if played.faults else "ok"])


def _cells(found: Figures) -> list[str]:
    return [
        str(found.units),
        f"{found.effects}/{found.intended}",
        ">".join(map(str, found.terms)),
        f"{found.without_leader_s:.1f} s",
        _resumed(found),
        " > ".join(found.transitions),
        str(found.exceptions),
        _reconciled(found),
        str(found.duplicates),
    ]


def _resumed(found: Figures) -> str:
    first, *more = found.resumed
    return f"{first} +{len(more)}" if more else first


def _reconciled(found: Figures) -> str:
    if found.uncertain:
        return f"no: {found.uncertain} open"
    how = ", ".join(f"{count} {who}" for who, count in sorted(found.settled_by.items()))
    return f"yes: {how}" if how else "yes"


def _line(cells: Sequence[str]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def last_words(played: Sequence[Played], seconds: float) -> list[str]:
    """Say whether all went as promised, and what did not."""
    bad = [one for one in played if one.faults]
    if not bad:
        return [
            f"ALL {len(played)} AS PROMISED ({seconds:.0f} s): every intended effect is in the CRM "
            "once, none twice,",
            "none under a term that was over; every change of leader is on record.",
        ]
    lines = [f"{len(bad)} OF {len(played)} NOT AS PROMISED ({seconds:.0f} s)"]
    for one in bad:
        lines += [f"{one.scenario.name}: {one.scenario.says}", *(f"   !! {f}" for f in one.faults)]
    return lines
