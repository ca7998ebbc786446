"""Which requests a route is for: `METHOD|METHOD /path/{part}/{rest*}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

_SEGMENT: Final = re.compile(
    r"\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<rest>\*)?(?::(?P<only>[^{}]*))?\}\Z"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a path pattern: a literal, `{name}`, `{name:a|b}` or `{rest*}`."""

    literal: str | None = None
    name: str = ""
    rest: bool = False
    only: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """`METHOD|METHOD /path/{part}/{rest*}`; `text` is how it was written."""

    text: str
    methods: frozenset[str]
    segments: tuple[Segment, ...]

    @property
    def parts(self) -> frozenset[str]:
        return frozenset(segment.name for segment in self.segments if segment.name)

    def parts_of(self, method: str, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the path's named parts, or None if this is another route's request.

        `segments` is the raw path split on "/", each piece decoded after the split, so that
        an encoded slash stays inside its part.
        """
        if method not in self.methods:
            return None
        parts: dict[str, str] = {}
        for at, segment in enumerate(self.segments):
            if segment.rest:
                parts[segment.name] = "/".join(segments[at:])
                return parts
            if at >= len(segments):
                return None
            text = segments[at]
            if segment.literal is not None:
                if text != segment.literal:
                    return None
            elif text == "" or (segment.only is not None and text not in segment.only):
                return None
            else:
                parts[segment.name] = text
        return parts if len(segments) == len(self.segments) else None


def split_path(raw_path: str) -> list[str]:
    """Split a raw path on "/" first and decode each piece after, for matching."""
    return [unquote(piece) for piece in raw_path.removeprefix("/").split("/")]


def parse_segment(text: str) -> Segment | None:
    """Return the segment that one piece of a pattern says, or None if it says none."""
    if "{" not in text and "}" not in text:
        return Segment(literal=unquote(text))
    found = _SEGMENT.match(text)
    if found is None or (found["rest"] and found["only"] is not None):
        return None
    only = None if found["only"] is None else frozenset(found["only"].split("|"))
    return Segment(name=found["name"], rest=bool(found["rest"]), only=only)
