"""What templates and tests read of a request: body, query, header fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_plus

from gateway.core.fingerprint import AmbiguousJson, strict_json
from gateway.core.policy import NOT_JSON, Mode
from gateway.core.template import RequestValues
from gateway.proxy.call import Call
from gateway.web.errors import TurnedAway


def request_values(call: Call, parts: Mapping[str, str], body: Any) -> RequestValues:
    return RequestValues(
        parts=parts,
        query=query_of(call.target.query),
        query_string=call.target.query or "",
        headers=Fields(call.headers),
        body=None if body is NOT_JSON else body,
        unit=call.fence.unit or "",
        term=call.fence.term or 0,
    )


class Fields(Mapping[str, str]):
    """Header fields by name in lower case, sorted out only when a template asks for one."""

    def __init__(self, headers: Sequence[tuple[str, str]]) -> None:
        self._headers = headers
        self._found: dict[str, str] | None = None

    def _by_name(self) -> dict[str, str]:
        if self._found is None:
            self._found = {name.lower(): value for name, value in self._headers}
        return self._found

    def __getitem__(self, name: str) -> str:
        return self._by_name()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name())

    def __len__(self) -> int:
        return len(self._by_name())


def query_of(text: str | None) -> dict[str, str]:
    """Return the query's fields that are there once; one that is there twice decides nothing."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for piece in (text or "").split("&"):
        name, _, value = piece.partition("=")
        name = unquote_plus(name)
        if name in found:
            twice.add(name)
        found[name] = unquote_plus(value)
    return {name: value for name, value in found.items() if name and name not in twice}


def json_or_refuse(call: Call) -> Any:
    """Parse the body for routes that choose by it; refuse one that only looks like no JSON.

    A destination may read what this does not (a coded body, another charset, a huge one), and
    a route that refuses must not be got round by that.
    """
    found = read_json(call)
    body = call.body
    if found is not NOT_JSON or body is None or not body.size:
        return found
    fields = grouped(call.headers)
    coded = "content-encoding" in fields
    if body.data is None or coded or _may_be_json(body.data, fields.get("content-type", [""])[0]):
        call.turn_away(
            "malformed",
            "The policy chooses the route by the JSON body, and this one cannot be read: it has "
            "to be plain UTF-8 JSON, uncoded, without a byte order mark, and not too large.",
        )
    return NOT_JSON


def _may_be_json(data: bytes, content_type: str) -> bool:
    if "json" in content_type.lower() or b"\0" in data[:4]:
        return True
    return data.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1] in (b"{", b"[", b'"')


def read_json(call: Call) -> Any:
    raw = call.body.load() if call.body is not None else None
    if not raw:
        return NOT_JSON
    try:
        return strict_json(raw)
    except AmbiguousJson as error:
        if call.destination.mode is not Mode.OBSERVE:
            raise TurnedAway(
                "malformed",
                f"In the JSON body {error}; the policy reads this body, so it must be unambiguous.",
            ) from None
        return NOT_JSON
    except ValueError:
        return NOT_JSON


def grouped(headers: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in headers:
        grouped.setdefault(name.lower(), []).append(value)
    return grouped
