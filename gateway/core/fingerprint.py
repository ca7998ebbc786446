"""Fingerprints: what tells a retry from a reused key (DESIGN 6.3).

SHA-256 over length-prefixed fields. Agents re-serialise their JSON between tries, so a
lossless canonical form counts as well: members sorted, number lexemes verbatim, no duplicate
names. Where a canonical form might make two different requests equal, there is none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gateway.core.effect import Fingerprint
from gateway.core.jsonpath import Path

VERSION: Final = 1
CANONICAL_MAX_BYTES: Final = 1024 * 1024
_MAX_DEPTH: Final = 64
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

    `target` is path and query as received; header names are in lower case; `body` is None
    when it is too large to be looked into (then only the raw digest can match).
    """
    fields = list(headers)
    content_type = next((value for name, value in fields if name == "content-type"), "")
    coding = ",".join(value for name, value in fields if name == "content-encoding")
    essence = _BOUNDARY.sub("", content_type)
    counted = sorted(
        f"{name}:{value}"
        for name, value in map(_without_wait, fields)
        if value and (name in CONDITIONAL_FIELDS or _VERSION_FIELD.match(name))
    )
    head = [f"fp{VERSION}", method, target, essence, coding, "\n".join(counted)]
    raw = _digest(head, body_digest)
    canonical = None if body is None or coding else _canonical_body(content_type, body, ignore)
    if canonical is None:
        return Fingerprint(VERSION, raw)
    return Fingerprint(VERSION, raw, _digest(head, hashlib.sha256(canonical).digest()))


def _without_wait(field: tuple[str, str]) -> tuple[str, str]:
    """How long the caller waits is between it and us: a retry may wait longer."""
    name, value = field
    return (name, _WAIT.sub("", value).strip(", ")) if name == "prefer" else field


def _digest(head: Sequence[str], body_digest: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in head:
        raw = part.encode("utf-8", "surrogateescape")
        digest.update(len(raw).to_bytes(4, "big") + raw)
    digest.update(body_digest)
    return digest.digest()


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
        return json.loads(body.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant)
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
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_pairs,
            parse_int=_lexeme,
            parse_float=_lexeme,
            parse_constant=_constant,
        )
        if _depth(value) > _MAX_DEPTH:
            return None
        for path in ignore:
            _forget(value, path.steps)
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
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
