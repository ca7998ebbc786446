"""Fingerprints: what tells a retry from a reused key.

SHA-256 over length-prefixed fields. Agents re-serialise their JSON between tries, so a
lossless canonical form counts as well: members sorted, number lexemes verbatim, no duplicate
names. Where a canonical form might make two different requests equal, there is none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Final

from gateway.core.effect import Fingerprint
from gateway.core.jsonpath import Path

VERSION: Final = 1
CANONICAL_MAX_BYTES: Final = 1024 * 1024
_MAX_DEPTH: Final = 64
_VERSION_PART: Final = b"\0\0\0\3fp1"  # like all parts: its length in four bytes, and itself
_BOUNDARY: Final = re.compile(r';\s*boundary\s*=\s*("[^"]*"|[^;\s]+)', re.IGNORECASE)

CONDITIONAL_FIELDS: Final = (
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "content-range",
    "prefer",
)
"""Request fields that change what the request means, beside any API version field."""

_VERSION_FIELD: Final = re.compile(r"[a-z0-9-]*-version\Z")
_WAIT: Final = re.compile(r"(?:^|,)\s*wait\s*=[^,]*", re.IGNORECASE)


class AmbiguousJson(ValueError):
    """The body names a member twice: readers disagree about which one counts."""


class Hasher:
    """Takes the body in pieces, so that a spooled body is hashed without being loaded."""

    def __init__(self) -> None:
        self._body = hashlib.sha256()

    def update(self, piece: bytes) -> None:
        self._body.update(piece)

    def digest(self) -> bytes:
        return self._body.digest()


class _Role(IntEnum):
    """What a header field has to do with the fingerprint."""

    NONE = 0
    CONTENT_TYPE = 1
    CODING = 2
    COUNTED = 3
    PREFER = 4


_ROLES: Final[dict[str, _Role]] = {}
_ROLES_MAX: Final = 2048


def _role(name: str) -> _Role:
    """Find out what `name` (in whatever case) is; remembered, since names repeat."""
    lower = name.lower()
    if lower == "content-type":
        role = _Role.CONTENT_TYPE
    elif lower == "content-encoding":
        role = _Role.CODING
    elif lower == "prefer":
        role = _Role.PREFER
    elif lower in CONDITIONAL_FIELDS or _VERSION_FIELD.match(lower):
        role = _Role.COUNTED
    else:
        role = _Role.NONE
    if len(_ROLES) >= _ROLES_MAX:  # callers choose names, so what is remembered is bounded
        _ROLES.clear()
    _ROLES[name] = role
    return role


def fingerprint(
    *,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body_digest: bytes,
    body: bytes | None,
    ignore: Sequence[Path] = (),
) -> Fingerprint:
    """Return the fingerprint of one request.

    `target` is path and query as received; `body` is None when it is too large to be looked
    into (then only the raw digest can match).
    """
    content_type, coding = "", ""
    counted: list[str] = []
    for name, value in headers:
        role = _ROLES.get(name)
        if role is None:
            role = _role(name)
        if not role:
            continue
        if role is _Role.CONTENT_TYPE:
            content_type = content_type or value
        elif role is _Role.CODING:
            coding = f"{coding},{value}" if coding else value
        else:
            # How long the caller waits is between it and us: a retry may wait longer.
            kept = _WAIT.sub("", value).strip(", ") if role is _Role.PREFER else value
            if kept:
                counted.append(f"{name.lower()}:{kept}")
    essence = _BOUNDARY.sub("", content_type) if ";" in content_type else content_type
    counted.sort()
    parts = [_VERSION_PART]
    for part in (method, target, essence, coding, "\n".join(counted)):
        raw = part.encode("utf-8", "surrogateescape")
        parts += (len(raw).to_bytes(4, "big"), raw)
    head = hashlib.sha256(b"".join(parts))
    canonical = None if body is None or coding else _canonical_body(content_type, body, ignore)
    canonical_digest = None
    if canonical is not None:
        whole = head.copy()
        whole.update(hashlib.sha256(canonical).digest())
        canonical_digest = whole.digest()
    head.update(body_digest)
    return Fingerprint(VERSION, head.digest(), canonical_digest)


def _canonical_body(content_type: str, body: bytes, ignore: Sequence[Path]) -> bytes | None:
    if not body or len(body) > CANONICAL_MAX_BYTES:
        return None
    essence = content_type.partition(";")[0].strip().lower()
    if essence == "application/json" or essence.endswith("+json"):
        return canonical_json(body, ignore)
    if essence == "multipart/form-data":
        return _canonical_multipart(content_type, body)
    return None


def strict_json(body: bytes) -> Any:
    """Parse JSON the way two honest parsers agree on: UTF-8, no BOM, no name twice.

    Raises AmbiguousJson for a name that is there twice, ValueError for other damage.
    """
    try:
        return _STRICT.decode(body.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def canonical_json(body: bytes, ignore: Sequence[Path] = ()) -> bytes | None:
    """Return the canonical form of a JSON text, or None where it has none.

    Numbers keep their lexemes: they travel as strings behind a NUL, which no string of a
    text without the escape \\u0000 can begin with.
    """
    if b"\\u0000" in body:
        return None
    try:
        value = _LEXEMES.decode(body.decode("utf-8"))
        opened = body.count(b"{") + body.count(b"[")
        if opened >= _MAX_DEPTH and _depth(value) > _MAX_DEPTH:
            return None
        for path in ignore:
            _forget(value, path.steps)
        return _SORTED.encode(value).encode()
    except (ValueError, RecursionError):
        return None


def _lexeme(text: str) -> str:
    return "\0" + text


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise AmbiguousJson(f"the member {name[:80]!r} is there twice")
        members[name] = value
    return members


def _number(text: str) -> int | float:
    """Python refuses to convert very long digits; that must not make a text less of a JSON."""
    return int(text) if len(text) <= 400 else float(text)


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_number, parse_constant=_constant
)
_LEXEMES: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_lexeme, parse_float=_lexeme, parse_constant=_constant
)
_SORTED: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            break
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level = below
    return depth


def _forget(value: Any, steps: tuple[Any, ...]) -> None:
    """Take out what the route says not to count (a client's timestamp, say)."""
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict) and isinstance(step, str) and step in value:
        if rest:
            _forget(value[step], rest)
        else:
            del value[step]
    elif isinstance(value, list):
        chosen = [value[step]] if isinstance(step, int) and step < len(value) else []
        for item in value if not isinstance(step, int | str) else chosen:
            if rest:
                _forget(item, rest)


def _canonical_multipart(content_type: str, body: bytes) -> bytes | None:
    """Digest the parts, not the boundaries: clients draw a new boundary for every try."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        return None
    delimiter = b"--" + found.group(1).strip('"').encode("utf-8", "surrogateescape")
    pieces = (b"\r\n" + body).split(b"\r\n" + delimiter)
    if len(pieces) < 3 or pieces[0] or pieces[-1] not in (b"--", b"--\r\n"):
        return None
    out: list[bytes] = []
    for piece in pieces[1:-1]:
        if not piece.startswith(b"\r\n"):
            return None
        out.append(len(piece).to_bytes(8, "big") + hashlib.sha256(piece).digest())
    return b"multipart" + b"".join(out)
