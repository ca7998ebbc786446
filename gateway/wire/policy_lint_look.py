"""Rules about a look: that it can find our effect, and nothing else's (lint rules 3 and 4)."""

from __future__ import annotations

from typing import Final

from gateway.core.guards import Look, sent_templates, templates_in
from gateway.core.measures import show_duration
from gateway.core.policy import Guard, Route
from gateway.core.template import Hole, RequestValues, Template
from gateway.wire.policy_complaint import Loc, Sheet
from gateway.wire.policy_lint_holes import is_empty, refuse_holes
from gateway.wire.policy_model import RouteWords
from gateway.wire.policy_sent import LookWords

_OF_ONE_SENDING: Final = frozenset({"term"})
_SAMPLE: Final = RequestValues(parts={}, effect="0123456789abcdef" * 2)


def lint_look(sheet: Sheet, loc: Loc, words: RouteWords, given: LookWords, route: Route) -> None:
    """Complain about what makes a look find too much, too little, or too soon."""
    look = route.look
    if look is None:
        return
    for word, test in (("found", given.found), ("missing", given.missing)):
        if is_empty(test):
            sheet.error((*loc, word), f"{word} is empty and holds for every answer; add a status")
    if look.reads == "index" and look.settle_ms < route.limits.timeout_ms:
        sheet.error(
            (*loc, "settle"),
            f"settle: {show_duration(look.settle_ms)} is under the timeout of "
            f"{show_duration(route.limits.timeout_ms)}, and an index lags; write more",
        )
    _lint_question(sheet, loc, look)
    if not is_empty(given.found):
        _lint_mark(sheet, loc, words, look, route)
    if route.guard is Guard.NONE:
        sheet.warning(
            loc,
            "look: guard none never looks; write guard: look_first, or remove the look",
            at_key=True,
        )


def _lint_question(sheet: Sheet, loc: Loc, look: Look) -> None:
    refuse_holes(sheet, (*loc, "request"), "request", look.target, frozenset({"term", "probe"}))
    for template in templates_in(look.body):
        refuse_holes(sheet, (*loc, "body"), "body", template, _OF_ONE_SENDING)
    for word, test in (("found", look.found), ("missing", look.missing)):
        for path, template in test.same:
            at = (*loc, word, "same", path.text)
            refuse_holes(sheet, at, path.text, template, _OF_ONE_SENDING)
    if look.method == "HEAD" and (look.found.reads_body or look.each is not None):
        sheet.error((*loc, "found"), "found reads a body, and HEAD has none; ask with GET")
    if look.body is not None and look.method != "POST":
        sheet.error((*loc, "body"), f"body: {look.method} sends none; ask with POST", at_key=True)
    if look.each is not None and not _filters(look) and not _says_end(look):
        sheet.warning(
            (*loc, "missing"),
            "missing cannot tell a full page from the end of the list, so only an empty list is "
            "missing; test what says that there is no more: json: {has_more: false}",
        )


def _filters(look: Look) -> bool:
    """Whether the destination is asked for our mark, so that its list holds nothing else."""
    asked = [look.target, *templates_in(look.body)]
    return any("effect" in template.sources for template in asked)


def _says_end(look: Look) -> bool:
    return bool(look.missing.header) or any(path != look.each for path, _ in look.missing.json)


def _lint_mark(sheet: Sheet, loc: Loc, words: RouteWords, look: Look, route: Route) -> None:
    if not look.asks_for_mark:
        sheet.error(
            (*loc, "found"),
            "found can be true without our mark; ask for {effect} in the request, "
            'or add same: {path: "{effect}"}',
        )
        return
    sent = _marks(sent_templates(route.native_key, route.stamp, route.send_as, route.version))
    asked = _marks(look.templates)
    if not sent and route.guard is Guard.UNIQUE_FIELD:
        if route.stamp is not None or route.send_as is not None:
            sheet.error(
                loc,
                "look: guard unique_field rests on our mark, and nothing that is sent carries it; "
                "put {effect} into stamp or send_as",
                at_key=True,
            )
        return
    if not sent:
        if not words.note:
            sheet.warning(
                loc,
                "look: nothing that is sent carries our mark, so {effect} is found only if the "
                "worker puts it there; stamp it, or say in note: that the worker does",
                at_key=True,
            )
        return
    for text, made in asked.items():
        if made not in sent.values():
            sheet.error(
                loc,
                f"look: asks for {{{text}}}, and what is sent carries "
                f"{' and '.join(f'{{{one}}}' for one in sent)}; use the same encoders",
                at_key=True,
            )
            return


def _marks(templates: list[Template]) -> dict[str, str]:
    """Return each `{effect …}` as written, and what it makes of a mark."""
    holes = [piece for one in templates for piece in one.pieces if isinstance(piece, Hole)]
    return {
        hole.text: Template(hole.text, (hole,)).render(_SAMPLE)
        for hole in holes
        if hole.source == "effect"
    }
