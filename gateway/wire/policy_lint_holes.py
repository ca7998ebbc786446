"""Which values may stand in which template, and tests that test nothing."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from gateway.core.template import Hole, Template
from gateway.wire.policy_complaint import Loc, Sheet
from gateway.wire.policy_types import AnswerTest

OF_ONE_TRY: Final = frozenset({"term", "first_sent", "probe"})
_OF_ONE_TRY_HEADERS: Final = frozenset({"fence-term", "fence-holder", "date"})


def refuse_holes(
    sheet: Sheet, loc: Loc, word: str, template: Template, sources: AbstractSet[str]
) -> None:
    """Complain about a value of `sources`, which is another at the next try."""
    for hole in template.pieces:
        if not isinstance(hole, Hole):
            continue
        by_header = hole.source == "header-field" and hole.name.lower() in _OF_ONE_TRY_HEADERS
        if hole.source in sources or (by_header and "term" in sources):
            sheet.error(
                loc,
                f"{word}: {template.text!r}: {{{hole.text}}} changes between tries; "
                "use a value that stays",
            )
            return


def refuse_probe(sheet: Sheet, loc: Loc, word: str, template: Template) -> None:
    if "probe" in template.sources:
        sheet.error(
            loc, f"{word}: {template.text!r}: {{probe}} is for a look alone; nothing probes here"
        )


def is_empty(test: AnswerTest) -> bool:
    return test.status is None and not (test.header or test.json_ or test.same)
