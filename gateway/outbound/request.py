"""A request's head as bytes, built once and written once.

What is written here is all that the destination sees: nothing is invented in the caller's name
(no User-Agent, Accept or Content-Type), and nothing from outside can add a line to it. Callers'
values were checked on their way in; they are checked again here, because here is the last place
where a smuggled line break would cost nothing.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.core.errors import InvariantError, Malformed
from gateway.outbound.headers import Headers

_TARGET: Final = re.compile(r"[!\"$-~]*\Z")
_METHOD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NAME_MAX: Final = 2048
_ODD_IN_NAME: Final = re.compile(r"[\x00-\x20\x7f:]")
_WRITTEN_HERE: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"}
)
_safe_names: set[str] = set()


class Unwritable(Exception):
    """The head cannot be put into bytes."""


def request_head(
    *,
    method: str,
    target: str,
    host: str,
    headers: Headers,
    length_bytes: int | None,
    closes: bool,
) -> bytes:
    """The request line and all fields. `target` is sent byte for byte, behind a slash if it has
    none; `length_bytes` None leaves the request without body framing.

    Raises:
        Malformed: the target has bytes that a request line cannot carry.
        Unwritable: a method, name or value cannot stand in a head.
        InvariantError: a field would frame the request anew.
    """
    if not _TARGET.match(target):
        raise Malformed(f"The target {target[:200]!r} has bytes that must be percent-encoded.")
    if not _METHOD.match(method) or method == "CONNECT":
        raise Unwritable(f"the method {method[:40]!r}")
    slash = "" if target.startswith("/") else "/"
    lines = [f"{method} {slash}{target} HTTP/1.1", f"Host: {host}"]
    if length_bytes is not None:
        lines.append(f"Content-Length: {length_bytes}")
    if closes:
        lines.append("Connection: close")
    for name, value in headers:
        if name not in _safe_names:
            _check_name(name)
        lines.append(f"{name}: {value}")
    breaks = len(lines) + 1
    lines += ("", "")
    text = "\r\n".join(lines)
    # Each line break is one of ours, or the head would have more lines than fields.
    if text.count("\r") != breaks or text.count("\n") != breaks or "\0" in text:
        raise Unwritable("a line break or NUL in a field")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Unwritable("a character without UTF-8 form in a field") from None


def _check_name(name: str) -> None:
    """Check a name; remembered, since names repeat."""
    if not name or _ODD_IN_NAME.search(name):
        raise Unwritable(f"the field name {name[:80]!r}")
    if name.lower() in _WRITTEN_HERE:
        raise InvariantError(f"the field {name} is written here alone; it came from outside")
    if len(_safe_names) >= _NAME_MAX:
        _safe_names.clear()
    _safe_names.add(name)
