"""What is really sent: the worker's request with our marks, keys and conditions in it.

Rules of this file
------------------
1. What is not set, rewritten or dropped by a word of the route goes on byte for byte.
2. A value from a request never breaks out of its place: in a URL it is percent-encoded, in a
   header it has no control character, in JSON it is a string.
3. Whatever cannot be dressed is Malformed, before anything is recorded or sent. A write that
   went out without its mark could never be looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, unquote_plus, unquote_to_bytes

from gateway.core.errors import Malformed
from gateway.core.facts import plain_name
from gateway.core.guards import SendAs, Version
from gateway.core.jsonedit import JsonEdit
from gateway.core.jsonpath import Path
from gateway.core.policy import Route
from gateway.core.template import RequestValues, Template

Headers = list[tuple[str, str]]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SLASHES: Final = re.compile(r"[/\\]")
_FORM: Final = "application/x-www-form-urlencoded"
_OF_THE_BYTES: Final = frozenset({"content-md5", "content-digest", "digest", "repr-digest"})
"""Fields that speak of the caller's bytes; untrue once the body is another."""


@dataclass(slots=True)
class Dressed:
    """A request as it is to be sent. `condition` is the version it counts under ("" if none)."""

    method: str
    target: str
    headers: Headers
    body: bytes | None
    condition: str = ""


def dress(
    route: Route,
    *,
    method: str,
    target: str,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    values: RequestValues,
) -> Dressed:
    """Return the request with all that `route` puts into it.

    `target` is path and query at the destination, as they came. `values` has the effect's
    mark, the term under which this attempt is sent, and the effect's first sending.

    Raises:
        Malformed: the request cannot carry what has to be put into it; the text says why.
    """
    made = Dressed(method, target, list(headers), body)
    if not route.dresses:
        return made
    if route.send_as is not None:
        _rewrite(made, route.send_as, values)
    if route.native_key is not None:
        _put_key(made, route, values)
    if route.version is not None:
        _put_condition(made, route.version, values)
    if route.edits_body:
        _edit_body(made, route, values)
    return made


def render_target(template: Template, values: RequestValues) -> str:
    """Return the target that `template` says. Raises Malformed where a value would lead
    elsewhere: an empty part of the path, or one that is a dot segment."""
    target = template.render(values, url=True)
    pieces = target.partition("?")[0].split("/")[1:]
    written = re.sub(r"\{[^{}]*\}", "x", template.text).partition("?")[0].split("/")[1:]
    for piece, pattern in zip(pieces, written, strict=True):
        dots = any(part in (".", "..") for part in _SLASHES.split(unquote(piece)))
        if dots or (piece == "" and pattern != ""):
            raise Malformed(
                f"a value makes the path of {template.text!r} into {target[:120]!r}, which leads "
                "elsewhere; send one that is not empty and no dot"
            )
    return target


def with_fields(target: str, fields: Iterable[tuple[str, str]]) -> str:
    """Return `target` with these query fields, in place of any that have their names."""
    added = list(fields)
    if not added:
        return target
    names = {name for name, _ in added}
    path, _, query = target.partition("?")
    kept = [piece for piece in query.split("&") if piece and _name_of(piece) not in names]
    ours = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in added]
    return f"{path}?{'&'.join([*kept, *ours])}"


def _fields_of(target: str) -> list[tuple[str, str]]:
    pieces = target.partition("?")[2].split("&")
    return [(_name_of(piece), unquote_plus(piece.partition("=")[2])) for piece in pieces]


def _name_of(piece: str) -> str:
    return unquote_plus(piece.partition("=")[0])


def _rewrite(made: Dressed, send_as: SendAs, values: RequestValues) -> None:
    if send_as.method is not None and send_as.target is not None:
        query = made.target.partition("?")[2]
        made.method, made.target = send_as.method, render_target(send_as.target, values)
        own = {_name_of(piece) for piece in made.target.partition("?")[2].split("&")}
        kept = [piece for piece in query.split("&") if piece and _name_of(piece) not in own]
        if kept:
            joint = "&" if "?" in made.target else "?"
            made.target += joint + "&".join(kept)
    made.target = with_fields(made.target, _rendered(send_as.query, values))
    for name, value in _rendered(send_as.header, values):
        _set_header(made.headers, name, value)


def _rendered(
    fields: Iterable[tuple[str, Template]], values: RequestValues
) -> list[tuple[str, str]]:
    return [(name, template.render(values)) for name, template in fields]


def _set_header(headers: Headers, name: str, value: str) -> None:
    """Set one field, dropping its namesakes."""
    if _CONTROL.search(value) or not value.strip():
        raise Malformed(
            f"header {name} would be {value[:80]!r}, which no header can carry; it must not be "
            "empty or hold control characters"
        )
    headers[:] = [field for field in headers if plain_name(field[0]) != plain_name(name)]
    headers.append((name, value))


def _put_key(made: Dressed, route: Route, values: RequestValues) -> None:
    key = route.native_key
    if key is None or key.body is not None:
        return  # a key in the body is set with the stamps
    value = key.value.render(values)
    if key.header is not None:
        _set_header(made.headers, key.header, value)
    elif key.query is not None:
        made.target = with_fields(made.target, [(key.query, value)])


def _put_condition(made: Dressed, version: Version, values: RequestValues) -> None:
    if version.header is None:
        fields = _rendered(version.query, values)
        theirs = {_name_of(piece) for piece in made.target.partition("?")[2].split("&")}
        for name, value in fields:
            if name in theirs and (name, value) not in _fields_of(made.target):
                # Put in its place, ours would let the write touch what theirs kept it from.
                raise Malformed(
                    f"the query has a field {name!r} already, where the policy puts its condition; "
                    "say the same in another way"
                )
        made.target = with_fields(made.target, fields)
        made.condition = "&".join(f"{name}={value}" for name, value in fields)
        return
    name = version.header
    if version.read is not None:
        if not values.version:
            raise Malformed(f"the version for {name} has not been read; it is sent with one only")
        _set_header(made.headers, name, values.version)
        made.condition = values.version
        return
    found = [
        value.strip() for field, value in made.headers if plain_name(field) == plain_name(name)
    ]
    if len(found) != 1 or found[0] in ("", "*"):
        given = "has none" if not found else f"has {', '.join(found)[:80]!r}"
        raise Malformed(
            f"this route is written under a version, and the request {given} in {name}; read "
            "the record, and send the one version that you read"
        )
    made.condition = found[0]


def _edit_body(made: Dressed, route: Route, values: RequestValues) -> None:
    if any(plain_name(name) == "content-encoding" for name, _ in made.headers):
        raise Malformed(
            "the body is coded (Content-Encoding), and something has to be set in it on its way; "
            "send it uncoded"
        )
    if route.stamp is not None and route.stamp.form:
        _edit_form(made, _rendered(route.stamp.form, values))
    else:
        _edit_json(made, route, values)
    made.headers = [field for field in made.headers if plain_name(field[0]) not in _OF_THE_BYTES]


def _edit_json(made: Dressed, route: Route, values: RequestValues) -> None:
    edit = JsonEdit(made.body)
    for path in route.send_as.drop if route.send_as is not None else ():
        edit.drop(path)
    marks: list[tuple[Path, Template]] = []
    if route.stamp is not None:
        marks += route.stamp.json
    if route.native_key is not None and route.native_key.body is not None:
        marks.append((route.native_key.body, route.native_key.value))
    for path, template in marks:
        edit.set(path, template.render(values))
    made.body = edit.body


def _edit_form(made: Dressed, fields: list[tuple[str, str]]) -> None:
    kinds = [value for name, value in made.headers if plain_name(name) == "content-type"]
    essence = kinds[0].partition(";")[0].strip().lower() if kinds else ""
    if essence != _FORM and (made.body or kinds):
        raise Malformed(
            f"the body is {essence or 'of no content type'!r}, and fields have to be set in a "
            f"form on its way; send {_FORM}"
        )
    if not kinds:
        made.headers.append(("Content-Type", _FORM))
    names = {name.encode() for name, _ in fields}
    kept = [
        piece
        for piece in (made.body or b"").split(b"&")
        if piece and unquote_to_bytes(piece.partition(b"=")[0].replace(b"+", b" ")) not in names
    ]
    ours = [f"{quote(name, safe='')}={quote(value, safe='')}".encode() for name, value in fields]
    made.body = b"&".join([*kept, *ours])
