"""What an ordinary CRM keeps: contacts, notes and opportunities.

A call is planned first (`plan`: the answer, and the change if there is one) and committed
afterwards, so that the server can put the change on disk in between. Replaying a file is
committing its changes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import orjson

Json = dict[str, Any]

SINGULAR = {"contacts": "contact", "notes": "note", "opportunities": "opportunity"}
ON_A_KIND = ("GET", "HEAD", "POST")
ON_A_RECORD = ("GET", "HEAD", "PUT", "PATCH", "DELETE")
DEFAULT_LIMIT = 100


class Invalid:
    """The type of `INVALID`, which stands for a body that is not JSON."""


INVALID = Invalid()


class Call(NamedTuple):
    """One request as the records see it; `payload` is parsed JSON or INVALID."""

    method: str
    path: str
    payload: Any
    query: Mapping[str, str]
    if_match: str | None


class Answer(NamedTuple):
    """What the CRM says: a status, a JSON body (empty for 204) and headers."""

    status: int
    body: bytes
    headers: dict[str, str]


class Change(NamedTuple):
    """The next version of one record; `fields` is None when the record is deleted."""

    kind: str
    id: str
    version: int
    fields: Json | None

    @property
    def effect(self) -> str:
        return f"{self.kind}/{self.id}@{self.version}"


Planned = tuple[Answer, Change | None]


class Record(NamedTuple):
    fields: Json
    version: int


@dataclass(slots=True)
class Shelf:
    """The records of one kind, in order of creation."""

    held: dict[str, Record] = field(default_factory=dict)
    by_external_id: dict[str, dict[str, None]] = field(default_factory=dict)
    last_number: int = 0


def parse(body: bytes) -> Any:
    """Parse a request body; INVALID when it is not JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return INVALID


def answer(status: int, content: Json, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, orjson.dumps(content), {"Content-Type": "application/json", **named})


def error(status: int, message: str, **headers: str) -> Answer:
    return answer(status, {"error": message}, **headers)


class Records:
    """All shelves. Not thread-safe: one event loop is its only user."""

    def __init__(self) -> None:
        self._shelves = {kind: Shelf() for kind in SINGULAR}

    def clear(self) -> None:
        self._shelves = {kind: Shelf() for kind in SINGULAR}

    def plan(self, call: Call) -> Planned:
        """Say what `call` would answer and change. Nothing changes before `commit`."""
        kind, _, record_id = call.path.removeprefix("/").partition("/")
        shelf = self._shelves.get(kind)
        if shelf is None:
            return error(404, f"there is no {call.path}"), None
        allowed = ON_A_RECORD if record_id else ON_A_KIND
        if call.method not in allowed:
            return error(
                405, f"{call.method} is not for {call.path}", Allow=", ".join(allowed)
            ), None
        if not record_id:
            if call.method == "POST":
                return self._create(kind, shelf, call.payload)
            return _listed(shelf, call.query), None
        record = shelf.held.get(record_id)
        if record is None:
            return error(404, f"there is no {call.path}"), None
        return self._on_record(kind, record_id, record, call)

    def commit(self, change: Change) -> None:
        """Make `change` true."""
        shelf = self._shelves[change.kind]
        before = shelf.held.get(change.id)
        if before is None:
            shelf.last_number = max(shelf.last_number, int(change.id.rpartition("-")[2]))
        else:
            _unindex(shelf, change.id, before.fields)
        if change.fields is None:
            shelf.held.pop(change.id, None)
            return
        shelf.held[change.id] = Record(change.fields, change.version)
        external_id = change.fields.get("external_id")
        if external_id is not None:
            shelf.by_external_id.setdefault(as_text(external_id), {})[change.id] = None

    def _create(self, kind: str, shelf: Shelf, payload: Any) -> Planned:
        wrong = _fault_in(payload) or _fault_in_fields(kind, payload)
        if wrong is not None:
            return wrong, None
        record_id = f"{SINGULAR[kind]}-{shelf.last_number + 1}"
        change = Change(kind, record_id, 1, {**payload, "id": record_id})
        return _shown(201, change, location=True), change

    def _on_record(self, kind: str, record_id: str, record: Record, call: Call) -> Planned:
        current = Change(kind, record_id, record.version, record.fields)
        if call.method in {"GET", "HEAD"}:
            return _shown(200, current), None
        if not _matches(call.if_match, record.version):
            return error(412, f"{call.path} is at ETag {_etag(record.version)}"), None
        if call.method == "DELETE":
            return Answer(204, b"", {}), Change(kind, record_id, record.version + 1, None)
        wrong = _fault_in(call.payload)
        if wrong is not None:
            return wrong, None
        kept = record.fields if call.method == "PATCH" else {}
        fields = {**kept, **call.payload, "id": record_id}
        wrong = _fault_in_fields(kind, fields)
        if wrong is not None:
            return wrong, None
        change = Change(kind, record_id, record.version + 1, fields)
        return _shown(200, change), change


def _fault_in(payload: Any) -> Answer | None:
    if payload is INVALID:
        return error(400, "the body is not valid JSON")
    if not isinstance(payload, dict):
        return error(422, "the body must be a JSON object")
    return None


def _fault_in_fields(kind: str, fields: Json) -> Answer | None:
    if kind == "notes" and not fields.get("text"):
        return error(422, "text is required")
    return None


def _etag(version: int) -> str:
    return f'"{version}"'


def _matches(if_match: str | None, version: int) -> bool:
    if if_match is None or if_match.strip() == "*":
        return True
    return _etag(version) in [part.strip() for part in if_match.split(",")]


def _shown(status: int, change: Change, *, location: bool = False) -> Answer:
    headers = {"Content-Type": "application/json", "ETag": _etag(change.version)}
    if location:
        headers["Location"] = f"/{change.kind}/{change.id}"
    return Answer(status, orjson.dumps(change.fields), headers)


def _listed(shelf: Shelf, query: Mapping[str, str]) -> Answer:
    """List records whose simple fields equal the query; `limit` is the only reserved word."""
    wanted = dict(query)
    limit = wanted.pop("limit", str(DEFAULT_LIMIT))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 10):
        return error(400, f"limit must be a whole number below a thousand million, not {limit!r}")
    candidates: Iterable[str] = shelf.held
    if "external_id" in wanted:  # indexed: a look-up by mark stays cheap under load
        candidates = shelf.by_external_id.get(wanted["external_id"], {})
    found = (shelf.held[one].fields for one in candidates)
    fitting = (fields for fields in found if _fits(fields, wanted))
    return answer(200, {"items": list(islice(fitting, int(limit)))})


def _fits(fields: Json, wanted: Mapping[str, str]) -> bool:
    return all(
        isinstance(value := fields.get(name), str | int | float) and as_text(value) == text
        for name, text in wanted.items()
    )


def as_text(value: Any) -> str:
    """Write a field the way it stands in a query: strings bare, the rest as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _unindex(shelf: Shelf, record_id: str, fields: Json) -> None:
    external_id = fields.get("external_id")
    if external_id is None:
        return
    marked = shelf.by_external_id[as_text(external_id)]
    del marked[record_id]
    if not marked:
        del shelf.by_external_id[as_text(external_id)]
