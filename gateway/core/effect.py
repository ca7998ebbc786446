"""Effects and their attempts: the states, and how attempts add up to an effect.

"No effect" is about one attempt, "unknown" about the effect: a 4xx on attempt 2 proves
nothing about attempt 1, which may still be travelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """What is known about an attempt, or about an effect, once it is not in flight."""

    CONFIRMED = "confirmed"  # it happened
    REJECTED = "rejected"  # the destination refused it and vouches that nothing happened
    NO_EFFECT = "no-effect"  # nothing happened, and the same request may do better later
    UNKNOWN = "unknown"  # we do not know


class ResolvedBy(StrEnum):
    """Who settled an effect."""

    ANSWER = "answer"
    PROBE = "probe"
    OPERATOR = "operator"
    NATIVE_REPLAY = "native-replay"


FREE_AGAIN = frozenset({Outcome.REJECTED, Outcome.NO_EFFECT})
"""Outcomes after which nothing has happened, so the key may be tried again."""


class Fingerprint(NamedTuple):
    """Tells a retry from a reused key. Two digests, either of which may prove sameness.

    `raw` covers the bytes as received; `canonical` a lossless canonical form of the body
    where it has one (JSON members sorted, multipart parts without boundaries).
    """

    version: int
    raw: bytes
    canonical: bytes | None = None

    def same_request(self, other: Fingerprint) -> bool:
        if self.version != other.version:
            return False
        return self.raw == other.raw or (
            self.canonical is not None and self.canonical == other.canonical
        )


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt without an answer of its own: in flight, or unknown."""

    effect_id: str
    n: int
    term: int
    deadline_at_ms: int
    seal_at_ms: int
    holder: str = ""
    item: str | None = None


@dataclass(frozen=True, slots=True)
class PriorEffect:
    """What the ledger knows of an effect under the same key.

    `outcome` is None while an attempt is in flight. `fingerprint` is that of the attempt
    that gave the effect its outcome: the one a retry has to match.
    """

    effect_id: str
    outcome: Outcome | None
    fingerprint: Fingerprint
    attempts: int
    rejected: int
    version: int
    deadline_at_ms: int = 0
    abandoned: bool = False


def add_up(attempts: Iterable[Outcome | None]) -> Outcome | None:
    """Return the outcome of an effect from those of its attempts, in their order.

    Confirmed if any attempt is; else in flight (None) while any is; else unknown while any
    is; else as the last one said.
    """
    last: Outcome | None = None
    seen: set[Outcome | None] = set()
    for outcome in attempts:
        seen.add(outcome)
        last = outcome
    if Outcome.CONFIRMED in seen:
        return Outcome.CONFIRMED
    if None in seen:
        return None
    return Outcome.UNKNOWN if Outcome.UNKNOWN in seen else last


def settled_attempt(known: Outcome | None, answer: Outcome, *, decided: bool) -> Outcome | None:
    """Return the attempt's outcome after its own answer came in, or None to keep `known`.

    An attempt in flight or unknown takes its answer. One that an operator decided changes
    only by late truth towards `confirmed`: that it happened cannot be argued away, that it
    did not happen was the operator's to say.
    """
    if known in (None, Outcome.UNKNOWN):
        return answer
    if decided and known in FREE_AGAIN and answer is Outcome.CONFIRMED:
        return Outcome.CONFIRMED
    return None


def unsealed(attempts: Sequence[OpenAttempt], now_ms: int) -> OpenAttempt | None:
    """Return the open attempt that the destination may still be running for the longest."""
    running = [attempt for attempt in attempts if now_ms < attempt.seal_at_ms]
    # by name where they are equal, so that no order of reading shows
    return max(running, key=lambda one: (one.seal_at_ms, one.effect_id, one.n), default=None)
