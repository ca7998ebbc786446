"""What is wrong with a policy file, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Severity = Literal["error", "warning"]
Loc = tuple[str | int, ...]
Spot = tuple[int, int]

_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, order=True)
class Complaint:
    """One defect. The message shows the value that caused it and a way out."""

    file: str
    line: int
    column: int
    severity: Severity
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"


@dataclass(slots=True)
class Sheet:
    """One file while it is read: where each word stands, and what was found wrong so far."""

    file: str
    complaints: list[Complaint] = field(default_factory=list)
    values: dict[Loc, Spot] = field(default_factory=dict)
    keys: dict[Loc, Spot] = field(default_factory=dict)

    def error(self, loc: Loc, message: str, *, at_key: bool = False) -> None:
        line, column = self.spot(loc, at_key=at_key)
        self.complaints.append(Complaint(self.file, line, column, "error", message))

    def warning(self, loc: Loc, message: str, *, at_key: bool = False) -> None:
        line, column = self.spot(loc, at_key=at_key)
        self.complaints.append(Complaint(self.file, line, column, "warning", message))

    def error_at(self, spot: Spot, message: str) -> None:
        self.complaints.append(Complaint(self.file, *spot, "error", message))

    def spot(self, loc: Loc, *, at_key: bool = False) -> Spot:
        """Return where `loc` stands, or the nearest thing around it that stands somewhere."""
        if at_key and loc in self.keys:
            return self.keys[loc]
        for length in range(len(loc), -1, -1):
            if loc[:length] in self.values:
                return self.values[loc[:length]]
        return (1, 1)

    def line(self, loc: Loc) -> int:
        return self.spot(loc)[0]

    @property
    def failed(self) -> bool:
        return any(complaint.severity == "error" for complaint in self.complaints)


def show(value: Any) -> str:
    """Return `value` as a message shows it: short, and spelt the way YAML spells it."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "{…}" if value else "{}"
    if isinstance(value, list):
        return "[…]" if value else "[]"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 2] + "…'"


def kind_of(value: Any) -> str:
    """Return what sort of value it is, in words."""
    if isinstance(value, bool):
        return "true or false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, Mapping):
        return "a set of words"
    if isinstance(value, list):
        return "a list"
    return "text"


def word_at(loc: Loc) -> str:
    """Return the name of what stands at `loc`: its last word, and which one of a list."""
    words = [step for step in loc if isinstance(step, str)]
    if not words:
        return "the file"
    if isinstance(loc[-1], int) and loc[-1] >= 0:
        return f"{words[-1]} {loc[-1] + 1}"
    return words[-1]
