"""Strict YAML with positions: the part of YAML 1.2 in which every reader sees the same.

Read from the parser's events, so that each defect is found (not just the first) and each word
knows its line and column. Anchors, tags, directives and second documents are refused, and so
is every plain value that YAML 1.1 would read as something else (`no`, `30:00`, `0123`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from gateway.wire.policy_complaint import Loc, Sheet, Spot, show, word_at

MAX_BYTES: Final = 1024 * 1024
_MAX_DEPTH: Final = 40

_NULL_MAY_STAND: Final = {"json", "body"}
_TRUTHS: Final = re.compile(r"(?:y|yes|n|no|on|off)\Z", re.IGNORECASE)
_SEXAGESIMAL: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")
_OCTAL: Final = re.compile(r"[-+]?0[0-9]+\Z")
_RADIX: Final = re.compile(r"[-+]?0[xob][0-9a-fA-F_]+\Z")
_GROUPED: Final = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)+\Z")
_ENDLESS: Final = re.compile(r"[-+]?\.(?:inf|nan)\Z", re.IGNORECASE)
_INT: Final = re.compile(r"[-+]?[0-9]{1,30}\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?\Z")


class Spoilt:
    """The type of `SPOILT`, which stands for a value that has been complained about."""

    def __repr__(self) -> str:
        return "(spoilt)"


SPOILT: Final = Spoilt()


@dataclass(frozen=True, slots=True)
class Document:
    """A file's content as plain dicts, lists and scalars; None if it cannot be read at all."""

    data: Any
    sheet: Sheet


class _Unreadable(Exception):
    """The rest of the file makes no sense; the complaint has been made."""


class _Surprise(Exception):
    """A plain value that readers of YAML disagree about."""


def read_yaml(file: str, raw: bytes) -> Document:
    """Read one file. Complaints are in the document's sheet."""
    sheet = Sheet(file)
    text = _text(raw, sheet)
    if text is None:
        return Document(None, sheet)
    try:
        events = YAML(typ="rt", pure=True).parse(text)
        return Document(_Reader(sheet, iter(events)).document(), sheet)
    except _Unreadable:
        pass
    except ReaderError as error:
        spot = _spot_of(text, error.position)
        sheet.error_at(spot, f"the character {show(text[error.position])} may not stand in YAML")
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        spot = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        sheet.error_at(spot, _syntax(error, text, spot))
    except YAMLError as error:
        sheet.error_at((1, 1), f"this is not YAML: {error}")
    return Document(None, sheet)


def _text(raw: bytes, sheet: Sheet) -> str | None:
    if len(raw) > MAX_BYTES:
        sheet.error_at((1, 1), f"the file has {len(raw)} bytes; a policy has at most {MAX_BYTES}")
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        spot = _spot_of(before, len(before))
        sheet.error_at(spot, f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8")
        return None
    if text.startswith("\ufeff"):
        sheet.error_at((1, 1), "the file begins with a byte order mark; save it without one")
        return None
    return text


def _spot_of(text: str, position: int) -> Spot:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def _syntax(error: MarkedYAMLError, text: str, spot: Spot) -> str:
    lines = text.splitlines()
    line = lines[spot[0] - 1] if spot[0] <= len(lines) else ""
    if "\t" in line[: spot[1]]:
        return "a tab cannot indent YAML; use spaces"
    problem = " ".join(part for part in (error.context, error.problem) if part)
    return f"this is not YAML: {problem}; put text with {{ }} : or # in quotes"


class _Reader:
    """Turns events into plain data, and notes where everything stands."""

    def __init__(self, sheet: Sheet, events: Iterator[Event]) -> None:
        self._sheet = sheet
        self._events = events
        self._anchors: set[str] = set()

    def document(self) -> Any:
        found: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents == 2:
                    self._sheet.error_at(
                        _spot(event), "a second document begins here; use one file per document"
                    )
                    raise _Unreadable
                if event.version is not None or event.tags:
                    self._sheet.error_at((1, 1), "a % directive is not for policies; remove it")
                found = self._node((), next(self._events))
        if documents == 0:
            self._sheet.error_at((1, 1), "the file is empty; write destination: or function:")
            raise _Unreadable
        return found

    def _node(self, loc: Loc, event: Event) -> Any:
        if len(loc) > _MAX_DEPTH:
            self._sheet.error_at(_spot(event), f"nested more than {_MAX_DEPTH} deep; flatten it")
            raise _Unreadable
        self._sheet.values[loc] = _spot(event)
        if isinstance(event, AliasEvent):
            if event.anchor not in self._anchors:
                self._sheet.error(loc, f"*{event.anchor} refers to nothing; write the value itself")
            return SPOILT
        self._refuse_marks(loc, event)
        if isinstance(event, MappingStartEvent):
            return self._mapping(loc)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(loc)
        if isinstance(event, ScalarEvent):
            return self._scalar(loc, event)
        raise _Unreadable  # pragma: no cover - the parser emits nothing else here

    def _refuse_marks(self, loc: Loc, event: Any) -> None:
        if event.anchor is not None:
            self._anchors.add(event.anchor)
            self._sheet.error(
                loc,
                f"the anchor &{event.anchor} is not for policies; write values out",
            )
        if event.tag is not None:
            self._sheet.error(loc, f"the tag {event.tag} is not for policies; remove it")

    def _mapping(self, loc: Loc) -> dict[str, Any]:
        words: dict[str, Any] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(loc, event)
            first = None if key is None else self._sheet.keys.get((*loc, key))
            if first is not None:
                self._sheet.error_at(
                    _spot(event), f"{key!r} is written twice, first on line {first[0]}; remove one"
                )
                key = None  # read on, but keep the first
            # A negative step is no place in any list: it keeps apart what has no name of its own.
            inner = (*loc, key if key is not None else -1 - event.start_mark.index)
            self._sheet.keys[inner] = _spot(event)
            value = self._node(inner, next(self._events))
            if key is not None:
                words[key] = value
        return words

    def _key(self, loc: Loc, event: Event) -> str | None:
        if not isinstance(event, ScalarEvent):
            self._sheet.error_at(_spot(event), "a word is wanted here, and this is none")
            if not isinstance(event, AliasEvent):
                raise _Unreadable
            return None
        if event.style is None and event.value == "<<":
            self._sheet.error_at(_spot(event), "<< is not for policies; write the words out")
            return None
        self._refuse_marks((*loc, event.value), event)
        if event.style is None:
            try:
                _plain(event.value)
            except _Surprise as surprise:
                self._sheet.error_at(_spot(event), str(surprise))
                return None
        return str(event.value)

    def _sequence(self, loc: Loc) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._node((*loc, len(items)), event))
        return items

    def _scalar(self, loc: Loc, event: ScalarEvent) -> Any:
        if event.style is not None:
            return event.value
        try:
            value = _plain(event.value)
            if value is None and not _NULL_MAY_STAND & set(loc):
                raise _Surprise(f"{event.value} is no value here; write one, or remove the word")
            return value
        except _Surprise as surprise:
            hidden = loc[:1] == ("login",) and event.value != ""
            text = "the value is not plain text for every reader; put it in quotes"
            message = f"{word_at(loc)}: {text if hidden else surprise}"
            # What is not there has no place of its own: the parser puts it on a later line.
            self._sheet.error(loc, message, at_key=event.value == "")
            return SPOILT


def _spot(event: Event) -> Spot:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _plain(text: str) -> Any:
    """Return what the YAML 1.2 core schema makes of a plain value, if YAML 1.1 agrees."""
    if text == "":
        raise _Surprise("nothing stands here; write a value, or remove the word")
    if _TRUTHS.match(text):
        raise _Surprise(f"{text} is a truth to some readers; write true, false or '{text}'")
    if _SEXAGESIMAL.match(text):
        raise _Surprise(f"{text} is a number in base 60 to some readers; write '{text}' or 30s, 5m")
    if _OCTAL.match(text) or _RADIX.match(text) or _GROUPED.match(text):
        raise _Surprise(f"{text} is another number to some readers; write decimals or '{text}'")
    if _ENDLESS.match(text):
        raise _Surprise(f"{text} is a number that JSON does not have; write '{text}'")
    if text in {"null", "Null", "NULL", "~"}:
        return None
    if text in {"true", "True", "TRUE", "false", "False", "FALSE"}:
        return text.lower() == "true"
    if _INT.match(text):
        return int(text)
    return float(text) if _FLOAT.match(text) else text
