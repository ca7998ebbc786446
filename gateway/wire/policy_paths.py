"""The forms of a policy's paths: matches, templates, and what a look asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationInfo

from gateway.core.errors import PolicyError
from gateway.core.match import Match, Segment, parse_segment
from gateway.core.template import Hole, Template
from gateway.wire.policy_complaint import show
from gateway.wire.policy_forms import TEMPLATE_LIKE, text

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_UUID_LENGTH: Final = 36
RESERVED_PARTS: Final = frozenset(
    {"effect", "term", "unit", "first_sent", "query", "probe", "body", "header"}
)


@dataclass(frozen=True, slots=True)
class RouteContext:
    """What a route's words need to know of its match. None: the match itself is wrong."""

    parts: frozenset[str] | None = frozenset()


def template(value: Any, info: ValidationInfo) -> Template:
    return _template(text(value), info)


def _template(written: str, info: ValidationInfo) -> Template:
    parts = info.context.parts if isinstance(info.context, RouteContext) else frozenset()
    if parts is None:  # the match is wrong and has its own complaint
        return Template(written, (written,))
    try:
        found = Template.parse(written, parts)
    except PolicyError as error:
        raise ValueError(str(error)) from None
    for piece in found.pieces:
        if isinstance(piece, Hole):
            _check_encoders(piece)
    return found


def _check_encoders(hole: Hole) -> None:
    """Refuse encoders that undo what an earlier one promised: a length, or a form."""
    _, *words = (word.strip() for word in hole.text.split("|"))
    limit: int | None = None
    uuid = False
    for word in words:
        name, _, argument = word.partition(" ")
        if name in ("minus", "unix") and hole.source != "first_sent":
            raise ValueError(f"{{{hole.text}}}: {name} is for first_sent alone; remove it")
        if name == "minus" and limit is not None:
            raise ValueError(f"{{{hole.text}}}: minus counts; write it before text")
        if name == "ascii" and limit is not None:
            raise ValueError(
                f"{{{hole.text}}}: ascii makes a text longer than text {limit} allows; "
                "write ascii before text"
            )
        if name == "text" and uuid and int(argument) < _UUID_LENGTH:
            raise ValueError(
                f"{{{hole.text}}}: a UUID has {_UUID_LENGTH} characters, and {word} cuts it; "
                "remove it"
            )
        if name == "uuid4" and limit is not None and limit < _UUID_LENGTH:
            raise ValueError(
                f"{{{hole.text}}}: a UUID has {_UUID_LENGTH} characters, more than text {limit} "
                "allows; remove one of them"
            )
        limit = int(argument) if name == "text" else None if name == "uuid4" else limit
        uuid = name == "uuid4" or (uuid and name in ("lower", "ascii", "text"))


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """`METHOD /path?query` of a look, or of what is sent instead."""

    method: str
    target: Template


def look_request(value: Any, info: ValidationInfo) -> AskedRequest:
    method, _, target = text(value).partition(" ")
    if method not in {"GET", "HEAD", "POST"}:
        raise ValueError(f"{show(value)}: a look only reads; write GET /path, or POST")
    return AskedRequest(method, _target(target, value, info, "GET"))


def send_request(value: Any, info: ValidationInfo) -> AskedRequest:
    method, _, target = text(value).partition(" ")
    if method not in {"POST", "PUT", "PATCH", "DELETE"}:
        raise ValueError(f"{show(value)} sends no write; write POST, PUT, PATCH or DELETE /path")
    return AskedRequest(method, _target(target, value, info, "PUT"))


def _target(target: str, value: Any, info: ValidationInfo, method: str) -> Template:
    around = re.sub(r"\{[^{}]*\}", "", target)
    if not target.startswith("/") or re.search(r"[^!-~]|[\\#\"]", around):
        raise ValueError(
            f"{show(value)} has no path of its own; write {method} /path?query, with other "
            "characters encoded (%20)"
        )
    _refuse_dots(target.partition("?")[0], value)
    return _template(target, info)


def look_body(value: Any, info: ValidationInfo) -> Any:
    """Any JSON; texts with a hole of ours become templates, other braces stay as they are."""
    if isinstance(value, Mapping):
        return {word: look_body(inner, info) for word, inner in value.items()}
    if isinstance(value, list):
        return [look_body(inner, info) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    written = str(value) if isinstance(value, str) else text(value)
    pieces: list[str | Hole] = []
    at = 0
    for hole in TEMPLATE_LIKE.finditer(written):
        pieces += [written[at : hole.start()], *_template(hole.group(), info).pieces]
        at = hole.end()
    if at == 0:
        return written
    pieces.append(written[at:])
    return Template(written, tuple(piece for piece in pieces if piece != ""))


def match(value: Any) -> Match:
    """`METHOD|METHOD /path/{part}/{rest*}`."""
    listed, _, path = text(value).partition(" ")
    if not path.startswith("/"):
        raise ValueError(f"{show(value)} is not METHOD /path; write GET|HEAD /contacts/{{id}}")
    methods = listed.split("|")
    for method in methods:
        if method not in METHODS:
            upper = method.upper()
            hint = upper if upper in METHODS else ", ".join(METHODS)
            raise ValueError(f"{show(value)}: the method {show(method)} is not known; use {hint}")
    if len(set(methods)) != len(methods):
        raise ValueError(f"{show(value)} names a method twice; name it once")
    if re.search(r"[\s\\]", path):
        raise ValueError(f"{show(value)}: the path holds a space or a backslash; encode it (%20)")
    if set("?#") & set(path):
        raise ValueError(f"{show(value)}: a route matches the path alone; take ? and # out")
    _refuse_dots(path, value)
    pieces = path.removeprefix("/").split("/")
    segments = tuple(_segment(piece, value) for piece in pieces)
    names = [segment.name for segment in segments if segment.name]
    for at, part in enumerate(names):
        if part in RESERVED_PARTS:
            raise ValueError(f"{show(value)}: {{{part}}} is a word of templates; rename the part")
        if part in names[:at]:
            raise ValueError(f"{show(value)} has {{{part}}} twice; give each part its own name")
    if any(segment.rest for segment in segments[:-1]):
        raise ValueError(f"{show(value)}: {{…*}} takes the rest of the path; put it last")
    return Match(str(value), frozenset(methods), segments)


def _segment(piece: str, value: Any) -> Segment:
    found = parse_segment(piece)
    if found is None or (found.only is not None and "" in found.only):
        raise ValueError(
            f"{show(value)}: {piece!r} is not understood; a part is a text, {{name}}, "
            "{name:a|b} or {rest*}"
        )
    return found


def _refuse_dots(path: str, value: Any) -> None:
    if any(re.fullmatch(r"(?:\.|%2e){1,2}", piece, re.IGNORECASE) for piece in path.split("/")):
        raise ValueError(f"{show(value)} has a . or .. segment, which never arrives; remove it")
