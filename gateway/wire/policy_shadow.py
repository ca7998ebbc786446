"""Which routes and rules can never have their turn (lint rule 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.core.match import Match, Segment
from gateway.wire.policy_complaint import Loc, Sheet


@dataclass(frozen=True, slots=True)
class Turn:
    """When a route has its turn; `when` is its test as written, None if it has none."""

    loc: Loc
    name: str
    match: Match
    when: Any


def covers(earlier: Sequence[Segment], later: Sequence[Segment]) -> bool:
    """Whether every path that fits `later` fits `earlier` too."""
    for at, mine in enumerate(earlier):
        if mine.rest:
            return True
        if at >= len(later) or later[at].rest or not _segment_covers(mine, later[at]):
            return False
    return len(earlier) == len(later)


def _segment_covers(mine: Segment, other: Segment) -> bool:
    if mine.literal is not None:
        return other.literal == mine.literal or other.only == frozenset({mine.literal})
    if mine.only is None:
        return other.literal != ""
    if other.literal is not None:
        return other.literal in mine.only
    return other.only is not None and other.only <= mine.only


def complain_of_shadows(sheet: Sheet, turns: Sequence[Turn]) -> None:
    for at, turn in enumerate(turns):
        _complain_of(sheet, turn, turns[:at])


def _complain_of(sheet: Sheet, turn: Turn, before: Sequence[Turn]) -> None:
    """A route is shadowed when for each of its methods an earlier one takes its every path."""
    takers: list[Turn] = []
    for method in sorted(turn.match.methods):
        taker = next((one for one in before if _takes(one, turn, method)), None)
        if taker is None:
            return
        if taker not in takers:
            takers.append(taker)
    named = " and ".join(f"{one.name!r} (line {sheet.line(one.loc)})" for one in takers)
    same = len(takers) == 1 and takers[0].match.text == turn.match.text
    why = "has the same match and no other test" if same else "takes all its requests"
    sheet.error(
        (*turn.loc, "match"),
        f"route {turn.name!r} can never match: {named} {why}; "
        "move it in front, give it a when, or remove it",
    )


def _takes(earlier: Turn, turn: Turn, method: str) -> bool:
    if earlier.when is not None and earlier.when != turn.when:
        return False
    return method in earlier.match.methods and covers(earlier.match.segments, turn.match.segments)
