"""How the ledger's statements are said to PostgreSQL. All that differs is in this file.

The statements are written for both; what SQLite alone understands is a handful of words, and
each has one translation. Lists of rows go over as arrays, one for each column, so that a
statement has one text however many rows it is about, and is planned once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from gateway.store.locks import columns

_WORDS: Final = (
    (re.compile(r" INDEXED BY \w+"), ""),  # the planner is told otherwise: see postgres.py
    (re.compile(r"json_group_array\(json_array\("), "json_agg(json_build_array("),
    (
        # As an array, each value is looked up by the index; as a join it would be either way.
        re.compile(r"(?<!NOT )IN \(SELECT value FROM json_each\(\?\)\)"),
        "= ANY (ARRAY(SELECT json_array_elements_text(CAST(? AS json))))",
    ),
    (
        re.compile(r"SELECT value FROM json_each\(\?\)"),
        "SELECT json_array_elements_text(CAST(? AS json))",
    ),
    (
        re.compile(r"json_extract\((\w+), '\$\.(\w+)\.(\w+)'\)"),
        r"(CAST(\1 AS json) #>> '{\2,\3}')",
    ),
    (re.compile(r"\bIN \(\)"), "IN (NULL)"),
    (re.compile(r"\bmax\((\w+), \?\)"), r"greatest(\1, ?)"),
)
_MARK: Final = re.compile(r"('(?:[^']|'')*')|\?(\d*)")
_HEAD: Final = re.compile(r"INSERT INTO (\w+) \(([^)]*)\)\Z")
_TYPES: Final = {"t": "text", "i": "bigint"}


@lru_cache(maxsize=4096)
def translate(text: str) -> str:
    """Return `text` with PostgreSQL's words and `$1` for `?`."""
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    count = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal count
        if found[1]:
            return found[1]
        count += 1
        return f"${found[2] or count}"

    return _MARK.sub(mark, text)


class PostgresDialect:
    """Lists of rows as arrays. `types` are those of the ledger's columns, by table and name."""

    name = "postgres"

    def __init__(self, types: Mapping[tuple[str, str], str]) -> None:
        self._types = types
        self._inserts: dict[tuple[str, str], str] = {}
        self._lists: dict[tuple[str, str], str] = {}

    def inserting(
        self, head: str, rows: Sequence[Sequence[Any]], tail: str = ""
    ) -> tuple[str, Sequence[Any]]:
        text = self._inserts.get((head, tail))
        if text is None:
            found = _HEAD.match(head)
            if found is None:
                raise ValueError(f"{head!r} is no INSERT of named columns")
            arrays = ", ".join(
                f"CAST(? AS {self._types[found[1], name]}[])" for name in found[2].split(", ")
            )
            text = f"{head} SELECT * FROM unnest({arrays}){tail}"
            self._inserts[head, tail] = text
        return text, columns(map(tuple, rows), 0)

    def listing(
        self, text: str, types: str, rows: Sequence[Sequence[Any]], more: Sequence[Any] = ()
    ) -> tuple[str, Sequence[Any]]:
        whole = self._lists.get((text, types))
        if whole is None:
            arrays = ", ".join(f"CAST(? AS {_TYPES[letter]}[])" for letter in types)
            names = ", ".join(f"column{n}" for n in range(1, len(types) + 1))
            whole = text.format(f"SELECT * FROM unnest({arrays}) AS l({names})")
            self._lists[text, types] = whole
        return whole, [*columns(map(tuple, rows), len(types)), *more]
