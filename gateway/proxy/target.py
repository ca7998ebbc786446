"""The request's target: which destination, and the path and query as they came.

Path and query go on byte for byte. What two readers could read differently (dot segments,
backslashes, control characters) is refused: policy would judge one path and the destination
serve another.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote_plus, unquote_to_bytes

from gateway.core.errors import Malformed

PREFIX: Final = "/d/"
_TARGET: Final = re.compile(r"/d/([^/?#]+)([^#]*)\Z")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PLAIN: Final = re.compile(r"(?:/[A-Za-z0-9_~!$&'()*+,;=:@-][A-Za-z0-9._~!$&'()*+,=:@-]*)*/?\Z")
_FORBIDDEN: Final = re.compile(rb"[\x00\r\n\\]")
_SPLIT: Final = re.compile(rb"[/\\]")
_METHOD_FIELDS: Final = frozenset({"_method", "_httpmethod"})
_QUERY_SPLIT: Final = re.compile("[&;]")


class Target(NamedTuple):
    """`path` begins with "/" or is empty; `query` is None without a "?", "" behind a bare one."""

    destination: str
    path: str
    query: str | None

    @property
    def text(self) -> str:
        """Path and query as they go on."""
        path = self.path or "/"
        return path if self.query is None else f"{path}?{self.query}"


def parse_target(raw: str) -> Target:
    """Return what the request line's target says. Raises Malformed for one that is unsafe."""
    found = _TARGET.match(raw)
    if found is None or _NAME.match(found[1]) is None:
        raise Malformed(f"{raw[:120]!r} is not /d/{{destination}}/{{path}}; see /v1/destinations")
    path, mark, query = found[2].partition("?")
    if _PLAIN.match(path) is None:
        _check_path(path)
    if mark and _changes_method(query):
        raise Malformed("a query field changes the method behind the route that was matched")
    return Target(found[1], path, query if mark else None)


def _changes_method(query: str) -> bool:
    """Whether a field says which method is meant, in any spelling that a server may read so."""
    if "method" not in query.lower() and "%" not in query:
        return False
    names = (field.partition("=")[0] for field in _QUERY_SPLIT.split(query))
    return any(unquote_plus(name).strip().lower() in _METHOD_FIELDS for name in names)


def _check_path(path: str) -> None:
    if _BAD_ESCAPE.search(path):
        raise Malformed(f"path {path[:120]!r} has a broken percent escape")
    decoded = unquote_to_bytes(path)
    if _FORBIDDEN.search(decoded):
        raise Malformed(f"path {path[:120]!r} has a backslash or a control character in it")
    for piece in _SPLIT.split(decoded):
        if piece.partition(b";")[0] in (b".", b".."):
            raise Malformed(f"path {path[:120]!r} has a dot segment; send the path it leads to")
