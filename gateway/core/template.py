"""Templates of the policy language: `{type}/new/{effect | text 200}`.

A template names values of one request (path parts, body, query, headers) and of its effect
(mark, term, unit). It is parsed once, when the policy is loaded; rendering cannot fail but
for a value that the request does not have.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from gateway.core.errors import Malformed, PolicyError
from gateway.core.jsonpath import Path

_HOLE: Final = re.compile(r"\{([^{}]*)\}")
_WORDS: Final = frozenset({"effect", "term", "unit", "first_sent", "query", "probe"})
Encoder = Callable[[str], str]


@dataclass(slots=True)
class RequestValues:
    """What a template may speak of. `body` is parsed JSON, or None if it is not JSON."""

    parts: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    query_string: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    unit: str = ""
    term: int = 0
    effect: str = ""
    first_sent_s: int = 0
    probe: str = ""
    version: str = ""  # of the thing, where the gateway read it


@dataclass(frozen=True, slots=True)
class Hole:
    """One `{…}`: where its value comes from, and how it is encoded."""

    text: str
    source: str
    path: Path | None
    name: str
    encoders: tuple[Encoder, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; `text` is how it was written."""

    text: str
    pieces: tuple[str | Hole, ...]

    @classmethod
    def parse(cls, text: str, parts: frozenset[str] = frozenset()) -> Template:
        """Parse `text`; `parts` are the names that the route's path gives."""
        pieces: list[str | Hole] = []
        at = 0
        for hole in _HOLE.finditer(text):
            pieces.append(_literal(text, text[at : hole.start()]))
            pieces.append(_hole(text, hole.group(1), parts))
            at = hole.end()
        pieces.append(_literal(text, text[at:]))
        return cls(text, tuple(piece for piece in pieces if piece != ""))

    @property
    def sources(self) -> frozenset[str]:
        """Which kinds of value the template uses: "effect", "body", "part", …"""
        return frozenset(piece.source for piece in self.pieces if isinstance(piece, Hole))

    def render(self, values: RequestValues, *, url: bool = False) -> str:
        """Return the text for `values`; with `url`, every value is percent-encoded.

        Raises Malformed naming the value that the request does not have.
        """
        out: list[str] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                out.append(piece)
                continue
            text = _value(piece, values)
            try:
                text.encode()  # JSON may hold half a surrogate pair, which is no text
                for encode in piece.encoders:
                    text = encode(text)
            except ValueError:
                raise Malformed(
                    f"the request's value for {{{piece.text}}} is {text[:80]!r}, which cannot be "
                    "written that way; send one that can"
                ) from None
            out.append(quote(text, safe="") if url else text)
        return "".join(out)


def _literal(template: str, text: str) -> str:
    if "{" in text or "}" in text:
        raise PolicyError(f"template {template!r} has a brace that does not pair up")
    return text


def _hole(template: str, inside: str, parts: frozenset[str]) -> Hole:
    name, *encoders = (word.strip() for word in inside.split("|"))
    made = tuple(_encoder(template, word) for word in encoders)
    if name in parts:
        return Hole(inside, "part", None, name, made)
    if name in _WORDS:
        return Hole(inside, name, None, name, made)
    source, dot, rest = name.partition(".")
    if source == "body" and dot:
        return Hole(inside, "body", Path.parse(rest), rest, made)
    if source in ("query", "header") and rest:
        return Hole(inside, source + "-field", None, rest, made)
    known = [*sorted(parts | _WORDS), "body.x", "query.x", "header.X"]
    raise PolicyError(
        f"template {template!r}: {{{name}}} is not known here; known are {', '.join(known)}"
    )


def _value(hole: Hole, values: RequestValues) -> str:
    match hole.source:
        case "part":
            return values.parts[hole.name]
        case "effect":
            return values.effect
        case "term":
            return str(values.term)
        case "unit":
            return values.unit
        case "first_sent":
            return str(values.first_sent_s)
        case "probe":
            found: Any = values.probe or None
        case "query":
            return values.query_string
        case "query-field":
            found = values.query.get(hole.name)
        case "header-field":
            found = values.headers.get(hole.name.lower())
        case _:
            matches = hole.path.find(values.body) if hole.path else []
            found = matches[0] if len(matches) == 1 else None
    if found is None or isinstance(found, dict | list):
        raise Malformed(f"the request has no single value for {{{hole.text}}}")
    return found if isinstance(found, str) else json.dumps(found)


def shorten(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters; distinct texts stay distinct."""
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[: min(32, limit)]
    return text[: limit - len(digest)] + digest


def _encoder(template: str, word: str) -> Encoder:
    name, _, argument = word.partition(" ")
    if name == "text" and argument.isdecimal() and int(argument) >= 16:
        limit = int(argument)
        return lambda text: shorten(text, limit)
    if name == "minus" and (found := re.fullmatch(r"(\d+)([smh])", argument)):
        seconds = int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]
        return lambda text: str(int(text) - seconds)
    if word in _ENCODERS:
        return _ENCODERS[word]
    raise PolicyError(
        f"template {template!r}: encoder {word!r} is not known; known are "
        "text N (N at least 16), ascii, uuid4, base32hex, lower, unix, minus 60s"
    )


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _uuid4(text: str) -> str:
    raw = bytearray(hashlib.sha256(text.encode()).digest()[:16])
    raw[6] = (raw[6] & 0x0F) | 0x40
    raw[8] = (raw[8] & 0x3F) | 0x80
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _base32hex(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()[:20]
    return base64.b32hexencode(digest).decode().rstrip("=").lower()


_ENCODERS: Final[dict[str, Encoder]] = {
    "ascii": _ascii,
    "uuid4": _uuid4,
    "base32hex": _base32hex,
    "lower": str.lower,
    "unix": str,
}
