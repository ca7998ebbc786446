"""Which header fields go through, each way (RFC 9110 section 7.6, RFC 9112).

The names that come by are few and always the same, so what is to be done with a name is found
out once and remembered by its exact bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from gateway.core.errors import Malformed
from gateway.core.facts import plain_name

RawHeaders = Sequence[tuple[bytes, bytes]]
Headers = list[tuple[str, str]]

HOP_BY_HOP: Final = frozenset(
    {
        "connection", "proxy-connection", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
    }
)  # fmt: skip
CREDENTIALS: Final = frozenset({"authorization", "cookie", "fence-authorization"})
SET_BY_US: Final = frozenset({"host", "content-length", "expect", "idempotency-key"})
FORWARDING: Final = frozenset({"forwarded", "via", "x-real-ip"})

_NEVER_OUT: Final = HOP_BY_HOP | CREDENTIALS | SET_BY_US | FORWARDING
_NOT_TO_NOMINATE: Final = (
    CREDENTIALS
    | {"host", "content-length", "content-type", "content-encoding", "idempotency-key"}
    | {"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"}
)
_NOT_STORED: Final = (
    HOP_BY_HOP
    | {"set-cookie", "set-cookie2", "www-authenticate", "authentication-info"}
    | {"proxy-authentication-info", "clear-site-data", "content-length", "date", "age", "server"}
    | {"via", "alt-svc", "strict-transport-security", "nel", "report-to", "reporting-endpoints"}
    | {"server-timing", "retry-after", "traceparent", "tracestate", "baggage"}
    | {"sforce-limit-info", "x-shopify-shop-api-call-limit"}
)

_USUAL: Final = frozenset({b"keep-alive", b"close", b"Keep-Alive", b"Close"})  # Connection's

_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_NOMINATED: Final = re.compile(r"[^\s,]+")
_PREFERENCE: Final = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*"?)+')
_WAIT: Final = re.compile(r"\s*wait\s*(?:[=;]|$)", re.IGNORECASE)


class _Name(NamedTuple):
    """A field name, and what becomes of the field."""

    text: str
    lower: str
    plain: str  # as plain_name makes it
    kept: bool
    special: bool = False  # connection, prefer, content-length: the value matters


class _Names:
    """Remembers what was found out about a name. Callers choose names, so it is bounded."""

    def __init__(self, learn: Callable[[bytes], _Name], most: int = 2048) -> None:
        self._learn = learn
        self._most = most
        self.known: dict[bytes, _Name] = {}

    def learn(self, name: bytes) -> _Name:
        if len(self.known) >= self._most:
            self.known.clear()
        found = self.known[name] = self._learn(name)
        return found


def _learn_request(name: bytes) -> _Name:
    if not _TOKEN.fullmatch(name):
        raise Malformed(f"{name[:80]!r} is not a header name; send letters, digits and - only.")
    text = name.decode("ascii")
    lower = text.lower()
    plain = plain_name(text)
    ours = plain in _NEVER_OUT or plain.startswith(("fence-", "x-forwarded-"))
    return _Name(text, lower, plain, not ours, special=lower in ("connection", "prefer"))


def _learn_reply(name: bytes) -> _Name:
    text = name.decode("latin-1")
    lower = text.lower()
    plain = plain_name(text)
    ours = lower in HOP_BY_HOP or plain.startswith("fence-")
    kept = bool(_TOKEN.fullmatch(name)) and not ours
    return _Name(text, lower, plain, kept, special=lower in ("connection", "content-length"))


_REQUEST: Final = _Names(_learn_request)
_REPLY: Final = _Names(_learn_reply)


def request_headers(raw: RawHeaders, login: tuple[str, str] | None = None) -> Headers:
    """The caller's end-to-end fields, then the destination's login, which replaces its namesakes.

    Content-Length, Host and Idempotency-Key are set further on, where they are known.

    Raises:
        Malformed: a field cannot be forwarded as it is.
    """
    kept: Headers = []
    spelling: dict[str, str] = {}
    nominated: frozenset[str] | None = None
    replaced = plain_name(login[0]) if login is not None else None
    known = _REQUEST.known
    for name, value in raw:
        if value in _USUAL and name.lower() == b"connection":
            continue
        what = known.get(name) or _REQUEST.learn(name)
        if not (what.kept or what.special) or what.plain == replaced:
            continue
        text = _text(what.text, value)
        if what.special:
            if what.lower == "connection":
                nominated = (nominated or frozenset()) | _nominated(text)
                continue
            text = _without_wait(text)
            if not text:
                continue
        kept.append((spelling.setdefault(what.lower, what.text), text))
    if nominated:
        kept = [field for field in kept if field[0].lower() not in nominated]
    if login is not None:
        kept.append(login)
    return kept


def inject(headers: Headers, fields: Iterable[tuple[str, str]]) -> Headers:
    """Put `fields` last and drop what the caller sent under the same names."""
    added = list(fields)
    names = {plain_name(name) for name, _ in added}
    return [field for field in headers if plain_name(field[0]) not in names] + added


def reply_headers(raw: RawHeaders) -> Headers:
    """The destination's end-to-end fields, safe to write to the caller."""
    kept: Headers = []
    nominated: set[str] = set()
    lengths: list[tuple[str, str]] = []
    known = _REPLY.known
    for name, value in raw:
        what = known.get(name) or _REPLY.learn(name)
        if not what.kept and not what.special:
            continue
        text = _readable(value)
        if not what.special:
            kept.append((what.text, text))
        elif what.lower == "connection":
            nominated.update(token.lower() for token in _NOMINATED.findall(text))
        else:
            lengths.append((what.text, text))
            kept.append((what.text, text))
    nominated -= {"close", "keep-alive", "content-length"}
    if nominated:
        kept = [field for field in kept if field[0].lower() not in nominated]
    if lengths and not _usable(lengths, raw):
        kept = [field for field in kept if field[0].lower() != "content-length"]
    return kept


def facts_of(raw: RawHeaders) -> dict[str, list[str]]:
    """All fields of an answer by their names in lower case."""
    facts: dict[str, list[str]] = {}
    known = _REPLY.known
    for name, value in raw:
        lower = (known.get(name) or _REPLY.learn(name)).lower
        facts.setdefault(lower, []).append(value.decode("utf-8", "replace"))
    return facts


def stored_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """What may be kept for a replay: not what belonged to that one moment or that one caller."""
    known = _STORABLE
    return [
        field
        for field in headers
        if (known[field[0]] if field[0] in known else _may_be_stored(field[0]))
    ]


_STORABLE: Final[dict[str, bool]] = {}
_STORABLE_MAX: Final = 2048


def _may_be_stored(name: str) -> bool:
    """Find out about a name; remembered, since a destination's names repeat."""
    lower = name.lower()
    if len(_STORABLE) >= _STORABLE_MAX:
        _STORABLE.clear()
    _STORABLE[name] = not (
        lower in _NOT_STORED
        or lower.startswith(("fence-", "proxy-", "x-b3-"))
        or "ratelimit" in lower.replace("-", "")
    )
    return _STORABLE[name]


def _text(name: str, value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise Malformed(
            f"The value of header {name} has the byte 0x{value[error.start]:02x} at position "
            f"{error.start}, which is not UTF-8; send it as UTF-8, or encode it."
        ) from None
    if not text.isprintable() and (control := _CONTROL.search(text)):
        raise Malformed(
            f"The value of header {name} has the control character {control.group()!r} at "
            f"position {control.start()}; remove it."
        )
    return text


def _nominated(connection: str) -> frozenset[str]:
    names = frozenset(name.lower() for name in _NOMINATED.findall(connection))
    for name in names:
        plain = name.replace("_", "-")
        if plain in _NOT_TO_NOMINATE or plain.startswith("fence-"):
            raise Malformed(
                f"Connection names {name[:80]!r}, which would take that field out of the request "
                "on its way; name only hop-by-hop fields there."
            )
    return names - {"close", "keep-alive"}


def _without_wait(prefer: str) -> str:
    """Take the preference that is ours out of a Prefer line (RFC 7240) and keep the others."""
    if "wait" not in prefer.lower():
        return prefer
    parts = [part for part in _PREFERENCE.findall(prefer) if not _WAIT.match(part)]
    return ",".join(parts).strip()


def _readable(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = value.decode("latin-1")
    return text if text.isprintable() else _CONTROL.sub(" ", text)


def _usable(lengths: list[tuple[str, str]], raw: RawHeaders) -> bool:
    value = lengths[0][1]
    if len(lengths) != 1 or not value.isascii() or not value.isdigit():
        return False
    for name, _ in raw:  # noqa: SIM110  # asked of nearly every answer; a generator costs more
        if len(name) == 17 and name.lower() == b"transfer-encoding":
            return False
    return True
