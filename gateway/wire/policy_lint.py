"""Rules between the words of one route: what is well formed, and still wrong.

Errors fail to load. Warnings fail `check --strict`. Each complaint says what would do instead.
"""

from __future__ import annotations

from typing import Final

from gateway.core.policy import Does, Is, Route
from gateway.core.template import Template
from gateway.wire.policy_complaint import Loc, Sheet
from gateway.wire.policy_lint_holes import OF_ONE_TRY, is_empty, refuse_holes
from gateway.wire.policy_lint_look import lint_look
from gateway.wire.policy_lint_sent import lint_parts, lint_sent
from gateway.wire.policy_model import RouteWords, RuleWords, SlowDownWords
from gateway.wire.policy_types import AnswerTest

_WRITE_WORDS: Final = (
    "key",
    "on_duplicate",
    "guard",
    "covers",
    "result",
    "ignore_in_fingerprint",
    "stamp",
    "stamp_form",
    "send_as",
    "native_key",
    "version",
    "look",
    "repeat_is_harmless",
)
_SETTLED: Final = frozenset({Is.CONFIRMED, Is.CONFIRMED_IF_TRIED_BEFORE})
_NOTHING_HAPPENED: Final = frozenset({Is.NO_EFFECT, Is.REJECTED})


def lint_route(sheet: Sheet, loc: Loc, words: RouteWords, route: Route) -> None:
    """Complain about what the words of one route make of each other."""
    if route.does is Does.REFUSE and not words.because:
        sheet.error((*loc, "does"), 'does: refuse needs because: "why, in words for the caller"')
    if words.when is not None and not words.when.header and not words.when.json_:
        sheet.error((*loc, "when"), "when is empty and tests nothing; remove it")
    if route.does is not Does.WRITE:
        _lint_idle_words(sheet, loc, words, route)
    if route.does is Does.READ:
        _lint_read(sheet, loc, words, route)
    if route.does is Does.WRITE:
        _lint_write(sheet, loc, words, route)
        lint_sent(sheet, loc, words, route)
    if route.key is not None:
        _lint_key(sheet, (*loc, "key"), route.key)
    if route.covers is not None:
        refuse_holes(sheet, (*loc, "covers"), "covers", route.covers, OF_ONE_TRY)
    _lint_results(sheet, (*loc, "result"), words.result, route)
    if words.look is not None and route.look is not None:
        lint_look(sheet, (*loc, "look"), words, words.look, route)


def lint_slow_down(sheet: Sheet, loc: Loc, words: SlowDownWords) -> None:
    """Rule 12: "not carried out" has to be said by the answer, not only by a broken server."""
    when = words.when
    at = (*loc, "when")
    if when.status is None and not when.json_ and not when.header:
        sheet.error(at, "slow_down: an empty when matches every answer; name a status, such as 429")
    elif when.json_:
        return
    elif when.status is None:
        sheet.error(at, "slow_down: a header alone may stand in any answer; add a status or json")
    elif bad := sorted(code for code in when.status if code >= 500 and not when.header):
        sheet.error(
            (*at, "status"),
            f"slow_down: a bare {bad[0]} does not prove that nothing happened; "
            "add a json code of the body, or a header",
        )
    elif good := sorted(code for code in when.status if code < 400):
        sheet.error(
            (*at, "status"),
            f"slow_down: {good[0]} says that it was carried out; add a json code of the body",
        )


def _lint_idle_words(sheet: Sheet, loc: Loc, words: RouteWords, route: Route) -> None:
    idle = [word for word in _WRITE_WORDS if word in words.model_fields_set]
    if idle:
        sheet.warning(
            (*loc, idle[0]),
            f"does: {route.does} keeps no record, so {' and '.join(idle)} "
            f"{'does' if len(idle) == 1 else 'do'} nothing; remove it, or write does: write",
            at_key=True,
        )


def _lint_read(sheet: Sheet, loc: Loc, words: RouteWords, route: Route) -> None:
    others = sorted(route.match.methods - {"GET", "HEAD"})
    tests_body = words.when is not None and bool(words.when.json_)
    if others and not tests_body and not words.note:
        sheet.warning(
            (*loc, "does"),
            f"does: read on {'|'.join(others)} passes unfenced; test the body with when, "
            "or say in note: why it changes nothing",
        )


def _lint_write(sheet: Sheet, loc: Loc, words: RouteWords, route: Route) -> None:
    given = words.model_fields_set
    if "guard" not in given:
        sheet.warning(
            (*loc, "does"),
            "this write has no guard, so an unknown outcome waits for a person; "
            "write guard: none if that is meant",
        )
    if "covers" not in given:
        sheet.warning(
            (*loc, "does"),
            "this write has no covers, so it covers destination and path; "
            'name the thing it touches, such as covers: "contacts/{id}"',
        )
    lint_parts(sheet, loc, words, route)
    if words.repeat_is_harmless and "POST" in route.match.methods and not words.note:
        sheet.error(
            (*loc, "repeat_is_harmless"),
            "repeat_is_harmless: true on POST needs note: why a second POST creates nothing",
        )


def _lint_key(sheet: Sheet, loc: Loc, key: Template) -> None:
    if not key.sources:
        sheet.error(
            loc,
            f"key: {key.text!r} is the same for every request; use a value of it: "
            '"{unit}/{body.email}"',
        )
    elif "effect" in key.sources:
        sheet.error(loc, f"key: {key.text!r}: {{effect}} is made from the key; use the request")
    else:
        refuse_holes(sheet, loc, "key", key, OF_ONE_TRY)


def _lint_results(sheet: Sheet, loc: Loc, words: list[RuleWords], route: Route) -> None:
    seen: list[AnswerTest] = []
    for at, rule in enumerate(words):
        here = (*loc, at)
        earlier = next((n for n, one in enumerate(seen) if is_empty(one) or one == rule.when), None)
        if earlier is not None:
            sheet.error(
                here,
                f"result {at + 1} can never match: result {earlier + 1} "
                f"(line {sheet.line((*loc, earlier))}) takes its answers; move it in front",
            )
        seen.append(rule.when)
        _lint_claim(sheet, here, rule)
        if rule.is_ == Is.LOOK and route.look is None:
            sheet.error((*here, "is"), "is: look needs look: say how to find out, or use unknown")


def _lint_claim(sheet: Sheet, loc: Loc, rule: RuleWords) -> None:
    """Rule 11: what contradicts the status needs its reason written down."""
    if rule.note:
        return
    means = Is(rule.is_)
    statuses = rule.when.status
    if statuses is None:
        if (rule.when.json_ or rule.when.same) or means not in _SETTLED | _NOTHING_HAPPENED:
            return
        statuses = frozenset({500})  # a test that does not look at the status takes these too
    first = 400 if means is Is.CONFIRMED else 500
    bad = sorted(code for code in statuses if code >= first)
    if bad and means in _SETTLED | _NOTHING_HAPPENED:
        sheet.error(
            (*loc, "is"),
            f"is: {means} for {bad[0]} goes against the status; say in note: why it is so, "
            "or use unknown",
        )
