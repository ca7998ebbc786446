"""What attempts add up to, what an answer changes, what is still unsealed: as tables.

`mistakes` runs them against a module of effects, as `fence_table.mistakes` does for the fence.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import ModuleType

WORDS = (None, "confirmed", "rejected", "no-effect", "unknown")
"""The outcomes of an attempt; None is in flight."""

SUMS: list[tuple[tuple[str | None, ...], str | None]] = [
    ((), None),
    (("unknown", "rejected"), "unknown"),  # a 4xx on attempt 2 proves nothing about attempt 1
    (("unknown", "no-effect"), "unknown"),
    (("rejected", "unknown"), "unknown"),
    (("unknown", "confirmed"), "confirmed"),
    (("confirmed", "unknown"), "confirmed"),
    (("confirmed", "rejected"), "confirmed"),
    (("confirmed", None), "confirmed"),
    (("unknown", None), None),
    ((None, "unknown"), None),
    ((None, "rejected"), None),
    (("rejected", "no-effect"), "no-effect"),
    (("no-effect", "rejected"), "rejected"),
]


def every_sum() -> Iterator[tuple[tuple[str | None, ...], str | None]]:
    """Every sequence of up to three attempts: the strongest word wins, else the last."""
    for length in (1, 2, 3):
        for attempts in product(WORDS, repeat=length):
            strong = [word for word in ("confirmed", None, "unknown") if word in attempts]
            yield attempts, strong[0] if strong else attempts[-1]


def every_answer() -> Iterator[tuple[str | None, str, bool, str | None]]:
    """(known, answer, by operator, what it becomes or None to keep what is known)."""
    for known, answer, decided in product(WORDS, WORDS[1:], (False, True)):
        becomes = answer if known in (None, "unknown") else None
        if decided and answer == "confirmed" and known in ("rejected", "no-effect"):
            becomes = "confirmed"  # late truth over a person's word
        assert answer is not None
        yield known, answer, decided, becomes


UNSEALED: list[tuple[tuple[int, ...], int | None]] = [  # seals, and the one waited for, at 100
    ((), None),
    ((99,), None),
    ((100,), None),
    ((101,), 101),
    ((101, 300, 200, 50), 300),
]


def mistakes(effect: ModuleType) -> list[str]:
    """Return a line for everything that `effect` says otherwise than it must."""

    def word(text: str | None) -> object:
        return None if text is None else effect.Outcome(text)

    found = []
    for attempts, total in (*SUMS, *every_sum()):
        said = effect.add_up(iter([word(one) for one in attempts]))
        if said != word(total):
            found.append(f"{attempts} add up to {total}, not {said}")
    for known, answer, decided, becomes in every_answer():
        said = effect.settled_attempt(word(known), word(answer), decided=decided)
        if said != word(becomes):
            found.append(f"{known} ({decided=}) and {answer} make {becomes}, not {said}")
    for seals, expected in UNSEALED:
        one = effect.unsealed([effect.OpenAttempt("e", 1, 1, 0, seal) for seal in seals], 100)
        if (one and one.seal_at_ms) != expected:
            found.append(f"of {seals} at 100 it is {expected}, not {one}")
    return found
