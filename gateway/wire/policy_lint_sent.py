"""Rules about what is sent beside the worker's request (lint rules 2 and 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from gateway.core.facts import plain_name
from gateway.core.jsonpath import Path
from gateway.core.policy import Guard, Route
from gateway.core.template import Template
from gateway.wire.policy_complaint import Loc, Sheet
from gateway.wire.policy_lint_holes import OF_ONE_TRY, is_empty, refuse_holes, refuse_probe
from gateway.wire.policy_model import RouteWords
from gateway.wire.policy_sent import NativeKeyWords, SendAsWords, VersionWords

_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


def lint_sent(sheet: Sheet, loc: Loc, words: RouteWords, route: Route) -> None:
    """Complain about what is set, rewritten and asked for in what is sent."""
    if words.native_key is not None:
        _lint_key(sheet, (*loc, "native_key"), words.native_key, route)
    if words.send_as is not None:
        _lint_send_as(sheet, (*loc, "send_as"), words.send_as)
    if words.version is not None:
        _lint_version(sheet, (*loc, "version"), words.version)
    _lint_stamps(sheet, loc, words, route)
    for at, word, template in _templates(loc, words):
        refuse_probe(sheet, at, word, template)


def lint_parts(sheet: Sheet, loc: Loc, words: RouteWords, route: Route) -> None:
    """Rule 2: a guard without the parts that it needs."""
    given = words.model_fields_set
    at = (*loc, "guard")
    match route.guard:
        case Guard.NATIVE_KEY:
            if "native_key" not in given:
                sheet.error(at, "guard native_key needs native_key: say where the key goes")
        case Guard.UNIQUE_FIELD:
            if not given & {"stamp", "stamp_form", "send_as"}:
                sheet.error(
                    at, "guard unique_field needs stamp or send_as: say where our mark goes"
                )
            elif "look" not in given:
                sheet.error(at, "guard unique_field needs look: say how to find our mark")
        case Guard.VERSION:
            if "version" not in given:
                sheet.error(at, "guard version needs version: say which condition is sent")
        case Guard.LOOK_FIRST:
            if "look" not in given:
                sheet.error(at, "guard look_first needs look: say how to find out, or use none")
        case Guard.REPEAT:
            if not words.repeat_is_harmless:
                sheet.error(
                    at,
                    "guard repeat needs repeat_is_harmless: true; "
                    "use guard: none if the same bytes twice do harm",
                )
        case Guard.NONE:
            pass
    if words.native_key is not None and route.guard is not Guard.NATIVE_KEY:
        sheet.warning(
            (*loc, "native_key"),
            f"native_key is sent, but guard {route.guard} never relies on it; "
            "write guard: native_key",
            at_key=True,
        )


def lint_login_header(sheet: Sheet, routes: Sequence[Route], login_header: str) -> None:
    """A route must not set the header that carries the destination's credential."""
    for route in routes:
        names = [name for name, _ in route.send_as.header] if route.send_as is not None else []
        if route.native_key is not None and route.native_key.header is not None:
            names.append(route.native_key.header)
        if route.version is not None and route.version.header is not None:
            names.append(route.version.header)
        for name in names:
            if plain_name(name) == plain_name(login_header):
                sheet.error_at(
                    (route.line, 1),
                    f"route {route.name!r} sets {name!r}, which carries the login; remove it",
                )


def _lint_key(sheet: Sheet, loc: Loc, words: NativeKeyWords, route: Route) -> None:
    places = [w for w in ("header", "body", "query") if getattr(words, w) is not None]
    if len(places) != 1:
        found = " and ".join(places) if places else "none of them"
        sheet.error(loc, f"native_key goes into one of header, body and query; this has {found}")
    if "effect" not in words.value.sources:
        sheet.error(
            (*loc, "value"),
            f"value: {words.value.text!r} is not made from the effect, so two effects could "
            'share it; write "{effect}"',
        )
    refuse_holes(sheet, (*loc, "value"), "value", words.value, OF_ONE_TRY - {"probe"})
    for word in ("replayed_when", "busy_when", "misuse_when", "supported_when"):
        test = getattr(words, word)
        if test is not None and is_empty(test):
            sheet.error((*loc, word), f"{word} is empty and holds for every answer; add a test")
    if words.body is not None and route.stamp is not None and route.stamp.form:
        sheet.error((*loc, "body"), "body: the key would go into JSON, and stamp_form into a form")


def _lint_send_as(sheet: Sheet, loc: Loc, words: SendAsWords) -> None:
    if words.request is None and not (words.query or words.header or words.drop):
        sheet.error(loc, "send_as is empty and rewrites nothing; remove it")


def _lint_version(sheet: Sheet, loc: Loc, words: VersionWords) -> None:
    if (words.send is None) == (not words.send_query):
        found = "both" if words.send_query else "neither"
        sheet.error(loc, f"version is sent by one of send and send_query; this has {found}")
    if words.from_ is not None:
        sheet.error(
            (*loc, "from"),
            "reading the version before a write is not available in this version; write from: "
            "worker, and let the worker send it",
        )
    if is_empty(words.lost_when):
        sheet.error(
            (*loc, "lost_when"), "lost_when is empty and holds for every answer; add a test"
        )


def _lint_stamps(sheet: Sheet, loc: Loc, words: RouteWords, route: Route) -> None:
    for word in ("stamp", "stamp_form"):
        if word in words.model_fields_set and not getattr(words, word):
            sheet.error((*loc, word), f"{word} is empty and sets nothing; remove it")
    if words.stamp and words.stamp_form:
        sheet.error(
            (*loc, "stamp_form"), "a body is JSON or a form; write stamp or stamp_form", at_key=True
        )
    bare = sorted(route.match.methods & _WITHOUT_BODY)
    if bare and route.edits_body:
        word = next((w for w in ("stamp", "stamp_form", "send_as") if getattr(words, w)), "match")
        sheet.error(
            (*loc, word),
            f"{bare[0]} has no body to set anything in; give it a route of its own",
            at_key=True,
        )
    for (one, at), (other, _) in combinations(_edited(loc, words), 2):
        if one.is_within(other) or other.is_within(one):
            sheet.error(
                at, f"{one.text} and {other.text} are in each other's way; keep one", at_key=True
            )
            return


def _edited(loc: Loc, words: RouteWords) -> list[tuple[Path, Loc]]:
    """Return the places that are set in a JSON body. Dropping comes first and may overlap."""
    places = [(path, (*loc, "stamp", path.text)) for path in words.stamp]
    if words.native_key is not None and words.native_key.body is not None:
        places.append((words.native_key.body, (*loc, "native_key", "body")))
    return places


def _templates(loc: Loc, words: RouteWords) -> Iterator[tuple[Loc, str, Template]]:
    for path, template in words.stamp.items():
        yield (*loc, "stamp", path.text), path.text, template
    for name, template in words.stamp_form.items():
        yield (*loc, "stamp_form", name), name, template
    if words.native_key is not None:
        yield (*loc, "native_key", "value"), "value", words.native_key.value
    if words.send_as is not None:
        for word in ("query", "header"):
            for name, template in getattr(words.send_as, word).items():
                yield (*loc, "send_as", word, name), name, template
        if words.send_as.request is not None:
            yield (*loc, "send_as", "request"), "request", words.send_as.request.target
    if words.version is not None:
        for name, template in words.version.send_query.items():
            yield (*loc, "version", "send_query", name), name, template
