"""What stands behind the ? of a control plane path: every word known, given once, in its form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from multidict import MultiMapping

from gateway.control.turn import TurnedAway

MAX_PAGE: Final = 500
ID: Final = re.compile(r"[0-9a-z]{26}\Z")
"""The form of a cursor that is the id of an effect or an exception."""
_NUMBER: Final = re.compile(r"[0-9]{1,16}\Z")
_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?\Z")
_LIMIT: Final = re.compile(r"[0-9]{1,4}\Z")


def check_words(query: MultiMapping[str], known: Sequence[str]) -> None:
    """Turn away a word that is not known, and one that is given more than once."""
    unknown = sorted(set(query) - set(known))
    if unknown:
        raise TurnedAway("malformed", f"{unknown[0][:40]!r} is no filter; known are {known}.")
    for name in known:
        given = query.getall(name, [])
        if len(given) > 1:
            raise TurnedAway("malformed", f"{name} is given {len(given)} times; give it once.")


def read_limit(query: MultiMapping[str], otherwise: int) -> int:
    limit = query.get("limit", str(otherwise))
    if _LIMIT.match(limit) is None or not 1 <= int(limit) <= MAX_PAGE:
        raise TurnedAway("malformed", f"limit is {limit[:20]!r}; it is 1 to {MAX_PAGE}.")
    return int(limit)


def read_cursor(query: MultiMapping[str], form: re.Pattern[str]) -> str | None:
    cursor = query.get("cursor")
    if cursor is not None and form.match(cursor) is None:
        raise TurnedAway(
            "malformed", f"cursor is {cursor[:40]!r}; take it from 'next' of the page before."
        )
    return cursor


def read_word(query: MultiMapping[str], name: str, known: Sequence[str]) -> str | None:
    word = query.get(name)
    if word is not None and word not in known:
        raise TurnedAway("malformed", f"{name} is {word[:40]!r}; it may be one of {known}.")
    return word


def read_number(what: str, text: str, most: int) -> int:
    """Return the whole number that `text` says, 0 to `most`."""
    if _NUMBER.match(text) is None or int(text) > most:
        raise TurnedAway("malformed", f"{what} is {text[:20]!r}; it is a whole number to {most}.")
    return int(text)


def read_seconds(what: str, text: str) -> float:
    """Return the seconds that `text` says, in plain decimal digits."""
    if _SECONDS.match(text) is None:
        raise TurnedAway("malformed", f"{what} is {text[:20]!r}; it is a number of seconds.")
    return float(text)
