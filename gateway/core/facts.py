"""Conditions: what a policy asks of an answer or of a request, and whether it is so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.errors import Malformed
from gateway.core.jsonpath import Path
from gateway.core.template import RequestValues, Template


@dataclass(frozen=True, slots=True)
class Expect:
    """What one value must be. Exactly one of the four is set."""

    values: tuple[Any, ...] | None = None
    present: bool | None = None
    absent: bool | None = None
    matches: re.Pattern[str] | None = None

    def holds(self, found: Sequence[Any]) -> bool:
        if self.present:
            return bool(found)
        if self.absent:
            return not found
        if self.matches is not None:
            return any(isinstance(value, str) and self.matches.search(value) for value in found)
        return any(_same(value, wanted) for value in found for wanted in self.values or ())


def _same(found: Any, wanted: Any) -> bool:
    """Equality in which types matter: true is neither "true" nor 1."""
    return type(found) is type(wanted) and bool(found == wanted)


def plain_name(name: str) -> str:
    """Return a header's name in the one spelling that all of its spellings have: many servers
    read X_Name as X-Name."""
    return name.lower().replace("_", "-")


NOT_JSON: Final = object()
"""Stands for a body that is not JSON; every `json` test on it is false."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a test looks at: an answer, or a request. Header names in lower case."""

    status: int | None
    headers: Mapping[str, Sequence[str]]
    body: Any = NOT_JSON


@dataclass(frozen=True, slots=True)
class Test:
    """A condition on an answer or a request. All parts given must hold."""

    __test__ = False  # the word of the language, not a pytest class

    status: frozenset[int] | None = None
    header: tuple[tuple[str, Expect], ...] = ()
    json: tuple[tuple[Path, Expect], ...] = ()
    same: tuple[tuple[Path, Template], ...] = ()

    @property
    def reads_body(self) -> bool:
        return bool(self.json or self.same)

    def holds(self, facts: Facts, values: RequestValues) -> bool:
        return self.holds_apart(facts) and (not self.same or bool(self.ours(facts.body, values)))

    def holds_apart(self, facts: Facts) -> bool:
        """Whether all holds but `same`, which may be about one entry of a list."""
        if self.status is not None and facts.status not in self.status:
            return False
        if not all(expect.holds(facts.headers.get(name, ())) for name, expect in self.header):
            return False
        if not self.json:
            return True
        if facts.body is NOT_JSON:
            return False
        return all(expect.holds(path.find(facts.body)) for path, expect in self.json)

    def ours(self, document: Any, values: RequestValues) -> int:
        """How often our values stand in `document`: 0 unless each stands where `same` says."""
        if document is NOT_JSON:
            return 0
        try:
            counts: list[int] = [
                path.find(document).count(t.render(values)) for path, t in self.same
            ]
        except Malformed:  # the request has no such value, so nothing equals it
            return 0
        return max(counts) if all(counts) and counts else 0
