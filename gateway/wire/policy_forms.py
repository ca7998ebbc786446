"""The forms of single values in a policy file: each checks itself and says how to write it.

A form takes the plain value and returns what core uses, or raises ValueError with a message
that shows the value. It never sees its neighbours; rules between words are in policy_lint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from gateway.core.candidates import VersionRange
from gateway.core.errors import Malformed, PolicyError
from gateway.core.facts import Expect, plain_name
from gateway.core.ids import parse_name
from gateway.core.jsonpath import Path
from gateway.core.measures import parse_duration_ms, parse_size_bytes
from gateway.wire.policy_complaint import kind_of, show

HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_NOT_FOR_LOGIN: Final = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_TO_SEND: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
TEMPLATE_LIKE: Final = re.compile(r"\{[A-Za-z_][A-Za-z0-9_.\[\]*-]*(?:\s*\|[^{}]*)?\}")
_NOT_RE2: Final = re.compile(r"\(\?(?:[=!>(]|<[=!])|\\[1-9]|\(\?P=")
_NESTED_REPEAT: Final = re.compile(r"\([^()]*(?:[*+]|\{\d+,\d*\})[^()]*\)(?:[*+]|\{\d+,?\d*\})")


class Form:
    """The form of one word, as pydantic metadata: `Annotated[int, Form(duration, schema)]`."""

    def __init__(
        self, check: Callable[..., Any], schema: Mapping[str, Any], *, in_route: bool = False
    ) -> None:
        self._check = check
        self._schema = dict(schema)
        self._in_route = in_route

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        if self._in_route:
            return core_schema.with_info_plain_validator_function(self._check)
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(self._schema)


class OneOf(Form):
    """The form of a word from a closed list; words in `later` are known, but not built."""

    def __init__(self, *words: str, later: Mapping[str, str] | None = None) -> None:
        super().__init__(self._one_of, {"enum": list(words)})
        self._words = words
        self._later = later or {}

    def _one_of(self, value: Any) -> str:
        if isinstance(value, str) and value in self._later:
            raise ValueError(self._later[value])
        if not isinstance(value, str) or value not in self._words:
            raise ValueError(f"{show(value)} is not known here; write {' or '.join(self._words)}")
        return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        quoted = f"; put it in quotes: '{show(value)}'" if isinstance(value, int | float) else ""
        raise ValueError(f"{show(value)} is {kind_of(value)}, and text is wanted{quoted}")
    if not value.strip():
        raise ValueError(f"{show(value)} is empty; write some text or remove the word")
    return value


def secret_text(value: Any) -> str:
    """Like text, but its messages never show the value."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError('text is wanted (the value is not shown); write "${env:NAME}" in quotes')
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{show(value)} is {kind_of(value)}; write true or false")
    return value


def count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{show(value)} is not a count; write a whole number from 1")
    return value


def duration(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError(f"{show(value)} has no unit; write 500ms, 2s, 5m, 4h or 30d")
    return parse_duration_ms(value)


def some_duration(value: Any) -> int:
    found = duration(value)
    if found == 0:
        raise ValueError(f"{show(value)} leaves no time at all; write at least 1ms")
    return found


def size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{show(value)} is not a size; write 1024, 256KiB, 64MiB or 1GiB")
    return parse_size_bytes(str(value))


def iso_date(value: Any) -> date:
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError(f"{show(value)} is not a date; write YYYY-MM-DD")


def name(value: Any) -> str:
    try:
        return parse_name("the name", text(value))
    except Malformed as error:
        raise ValueError(str(error)) from None


def worker_name(value: Any) -> str:
    """A worker of any incarnation, so that its preference outlives a restart."""
    worker, mark, _ = name(value).partition("#")
    if mark:
        way_out = f"write {worker}" if worker else "write a worker's name"
        raise ValueError(f"{show(value)} is one incarnation, gone at a restart; {way_out}")
    return worker


def region(value: Any) -> str:
    if value == "*":
        raise ValueError("'*' is no region; remove regions, and all are eligible")
    return name(value)


def version_range(value: Any) -> VersionRange:
    if not isinstance(value, str):
        raise ValueError(
            f"{show(value)} is {kind_of(value)}, which loses zeros at its end; "
            'write a range in quotes: ">=2026.10"'
        )
    try:
        return VersionRange.parse(text(value))
    except Malformed as error:
        raise ValueError(str(error)) from None


def destination_name(value: Any) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text(value)) is None:
        raise ValueError(
            f"{show(value)} cannot stand in /d/NAME/; use letters, digits and . _ -, at most 100"
        )
    return str(value)


def statuses(value: Any) -> frozenset[int]:
    listed = value if isinstance(value, list) else [value]
    for one in listed:
        if isinstance(one, bool) or not isinstance(one, int) or not 100 <= one <= 599:
            raise ValueError(f"{show(one)} is not a status; write 409, or a list: [409, 412]")
    if not listed:
        raise ValueError("[] is an empty list, which no status is in; write 409 or [409, 412]")
    return frozenset(listed)


def json_path(value: Any) -> Path:
    try:
        return Path.parse(text(value))
    except PolicyError as error:
        raise ValueError(str(error)) from None


def ignored_path(value: Any) -> Path:
    if not text(value).startswith("body."):
        raise ValueError(f"{show(value)} is not in the body; write it as body.sent_at")
    return json_path(value.removeprefix("body."))


def header_name(value: Any) -> str:
    if HEADER_NAME.match(text(value)) is None:
        raise ValueError(f"{show(value)} is not a header name; write one such as Retry-After")
    return str(value)


def login_header_name(value: Any) -> str:
    lower = header_name(value).lower()
    if lower in _NOT_FOR_LOGIN or lower.startswith("fence-"):
        raise ValueError(f"{show(value)} is not for a credential; name the header it travels in")
    return str(value)


def sent_header_name(value: Any) -> str:
    lower = plain_name(header_name(value))
    if lower in _NOT_TO_SEND or lower.startswith(("fence-", "proxy-")):
        raise ValueError(
            f"{show(value)} is not set by a route; it frames the request, or carries a credential"
        )
    return str(value)


def stamp_path(value: Any) -> Path:
    found = json_path(value)
    if not found.points:
        raise ValueError(f"{show(value)} points at many places; name one: a.b, a[0].b")
    if not isinstance(found.steps[-1], str):
        raise ValueError(f"{show(value)} ends in a list; name a member: a[0].b")
    if not isinstance(found.steps[0], str):
        raise ValueError(f"{show(value)} begins in a list; a body that is set in is an object")
    return found


def window(value: Any) -> int | None:
    if value == "unknown":
        return None
    if not isinstance(value, str):
        raise ValueError(f"{show(value)} has no unit; write 30m, 24h, or unknown")
    return some_duration(value)


def just_one(value: Any) -> int:
    if isinstance(value, bool) or value != 1 or not isinstance(value, int):
        raise ValueError(f"{show(value)} cannot be kept to; write 1, or remove it for any number")
    return value


def version_from(value: Any) -> Path | None:
    return None if value == "worker" else json_path(value)


def language_version(value: Any) -> int:
    if isinstance(value, bool) or value != 1 or not isinstance(value, int):
        raise ValueError(f"{show(value)} is not a version that is known; write 1 or remove it")
    return value


def expect(value: Any) -> Expect:
    """A scalar, a list of scalars, or one of {present, absent, any, matches}."""
    if isinstance(value, Mapping):
        return _expect_words(value)
    listed = value if isinstance(value, list) else [value]
    for one in listed:
        if one is not None and not isinstance(one, str | int | float):
            raise ValueError(
                f"{show(one)} is {kind_of(one)}; compare with a text, number, truth or null, "
                "or write {present: true}, {absent: true} or {matches: …}"
            )
        if isinstance(one, str) and TEMPLATE_LIKE.search(one):
            raise ValueError(f"{show(one)} is compared as it stands; use same for a template")
    if not listed:
        raise ValueError("[] is an empty list, which nothing equals; list the values")
    return Expect(values=tuple(listed))


def header_expect(value: Any) -> Expect:
    found = expect(value)
    for one in found.values or ():
        if not isinstance(one, str):
            raise ValueError(
                f"{show(one)} is {kind_of(one)}; a header is text: write '{show(one)}'"
            )
    return found


def _expect_words(words: Mapping[str, Any]) -> Expect:
    if len(words) != 1 or (word := next(iter(words))) not in {
        "present",
        "absent",
        "any",
        "matches",
    }:
        raise ValueError(
            f"{{{', '.join(words)}}} is not a test; write one of {{present: true}}, "
            "{absent: true}, {any: true}, {matches: …}"
        )
    value = words[word]
    if word == "matches":
        return Expect(matches=_pattern(value))
    if value is not True:
        raise ValueError(f"{{{word}: {show(value)}}} is not a test; write {{{word}: true}}")
    return Expect(absent=True) if word == "absent" else Expect(present=True)


def _pattern(value: Any) -> re.Pattern[str]:
    pattern = text(value)
    # Answers are not ours: what a pattern costs must grow with their length and no faster.
    if _NOT_RE2.search(pattern) or _NESTED_REPEAT.search(pattern) or len(pattern) > 500:
        raise ValueError(
            f"the pattern {show(pattern)} looks around, refers back or repeats a repetition; "
            "write a plain one"
        )
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the pattern {show(pattern)} is wrong: {error}; mend it") from None
