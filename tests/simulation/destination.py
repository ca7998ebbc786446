"""A destination that does what destinations do: carry out, lose answers, be late. It knows the
truth, and tells when a write reaches it that must not."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Broken(AssertionError):
    """A promise of the design did not hold."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


def hold(rule: str, kept: bool, what: str) -> None:
    if not kept:
        raise Broken(rule, what)


class Fate(StrEnum):
    """What becomes of a request once it has left the gateway."""

    ANSWERED = "applied, and answered with 2xx"
    REJECTED = "not applied, and answered with 4xx"
    TURNED_AWAY = "not applied, and answered with 429"
    FAILED = "applied, and answered with 5xx"
    ANSWER_LOST = "applied, and the answer is lost"
    LATE = "applied after the caller gave up, before the seal"
    VANISHED = "lost on the way"
    SLOW = "applied, and the answer comes whenever it does"
    CRASH_BEFORE = "the gateway crashes before the first byte"
    CRASH_AFTER = "the gateway crashes after the last byte"


@dataclass(frozen=True)
class Sent:
    """One attempt as it left the gateway. `seal_at_ms` is in true time."""

    effect_id: str
    n: int
    key: str
    covers: str
    term: int
    body: str
    seal_at_ms: int

    @property
    def answer(self) -> bytes:
        return f"done {self.effect_id}/{self.n}".encode()


@dataclass
class Destination:
    """What was really done, in order, and what is still on the wire (by its arrival)."""

    applied: list[Sent] = field(default_factory=list)
    on_the_wire: list[tuple[int, Sent]] = field(default_factory=list)

    def apply(self, sent: Sent) -> None:
        twice = [one for one in self.applied if one.key == sent.key]
        hold("I7", not twice, f"{sent} is a second time after {twice}")
        newer = [one for one in self.applied if one.covers == sent.covers and one.term > sent.term]
        hold("I10", not newer, f"{sent} comes after the newer {newer}")
        self.applied.append(sent)

    def arrive(self, until_ms: int) -> None:
        """Carry out what arrives until then, in its order."""
        due = sorted(
            (one for one in self.on_the_wire if one[0] <= until_ms), key=lambda one: one[0]
        )
        self.on_the_wire = [one for one in self.on_the_wire if one[0] > until_ms]
        for _, sent in due:
            self.apply(sent)

    def did(self, effect_id: str, up_to: int | None = None) -> bool:
        """Whether an attempt of the effect was carried out (one of the first `up_to`)."""
        return any(
            one.effect_id == effect_id and (up_to is None or one.n <= up_to) for one in self.applied
        )

    def under(self, key: str) -> Sent | None:
        return next((one for one in self.applied if one.key == key), None)
