"""The promises of the design (section 14), checked against the ledger's tables and the truth."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from gateway.core.effect import FREE_AGAIN, Outcome, add_up
from tests.simulation.destination import Destination, hold

OPEN = (None, Outcome.UNKNOWN)


@dataclass(frozen=True)
class AttemptSeen:
    term: int
    outcome: Outcome | None
    decided: bool
    deadline_at_ms: int


@dataclass
class Snapshot:
    """What the ledger says at one moment."""

    now_ms: int = 0
    highest_term: int = 0
    holder: str | None = None
    effects: dict[str, tuple[Outcome | None, int]] = field(default_factory=dict)
    attempts: dict[tuple[str, int], AttemptSeen] = field(default_factory=dict)
    answers: int = 0
    handovers: dict[int, str] = field(default_factory=dict)

    def unfinished(self, below: int) -> list[str]:
        """Return the effects that a handover to term `below` has to list."""
        return sorted(
            {
                effect_id
                for (effect_id, _), attempt in self.attempts.items()
                if attempt.outcome in OPEN
                and attempt.term < below
                and self.effects[effect_id][0] in OPEN
            }
        )


class Watch:
    """Looks at the ledger from beside it after every step."""

    def __init__(self, path: Path, destination: Destination) -> None:
        self._db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        self._destination = destination
        self.seen = Snapshot()

    def close(self) -> None:
        self._db.close()

    def read(self) -> Snapshot:
        db = self._db
        scope = db.execute("SELECT highest_term, holder FROM scope").fetchone() or (0, None)
        return Snapshot(
            now_ms=db.execute("SELECT now_ms FROM store_clock").fetchone()[0],
            highest_term=scope[0],
            holder=scope[1],
            effects={
                row[0]: (_outcome(row[1]), row[2])
                for row in db.execute("SELECT id, outcome, attempts FROM effect")
            },
            attempts={
                (row[0], row[1]): AttemptSeen(row[2], _outcome(row[3]), bool(row[4]), row[5])
                for row in db.execute(
                    "SELECT effect_id, n, term, outcome, decided, deadline_at_ms FROM attempt"
                )
            },
            answers=db.execute("SELECT count(*) FROM answer").fetchone()[0],
            handovers=dict(db.execute("SELECT term, effects FROM handover").fetchall()),
        )

    def look(self) -> Snapshot:
        """Read the ledger again and check it against what it said before, and the truth."""
        before, now = self.seen, self.read()
        hold("I18", now.now_ms >= before.now_ms, f"time went {before.now_ms} to {now.now_ms}")
        hold(
            "I5",
            now.highest_term >= before.highest_term,
            f"the highest term fell from {before.highest_term} to {now.highest_term}",
        )
        self._outcomes(before, now)
        self._truth(now)
        self.seen = now
        return now

    def _outcomes(self, before: Snapshot, now: Snapshot) -> None:
        for name, was in before.attempts.items():
            hold("I8", name in now.attempts, f"attempt {name} is gone")
            became = now.attempts[name]
            corrected = (
                was.decided
                and was.outcome is Outcome.NO_EFFECT
                and became.outcome is Outcome.CONFIRMED
            )
            moved = became.outcome is not was.outcome
            allowed = was.outcome is None or (
                was.outcome is Outcome.UNKNOWN and became.outcome is not None
            )
            hold(
                "I8",
                not moved or corrected or allowed,
                f"attempt {name} went from {was.outcome} to {became.outcome}",
            )
        for effect_id, (outcome, attempts) in now.effects.items():
            mine = {n: one for (owner, n), one in now.attempts.items() if owner == effect_id}
            hold("I8", sorted(mine) == list(range(1, attempts + 1)), f"{effect_id} has {mine}")
            adds_up = add_up(mine[n].outcome for n in sorted(mine))
            hold("I8", outcome is adds_up, f"{effect_id} is {outcome}, its attempts {adds_up}")

    def _truth(self, now: Snapshot) -> None:
        for (effect_id, n), attempt in now.attempts.items():
            if attempt.outcome is Outcome.CONFIRMED:
                hold(
                    "I9", self._destination.did(effect_id), f"{effect_id}/{n} was never carried out"
                )
            elif attempt.outcome in FREE_AGAIN:
                hold(
                    "I9",
                    not self._destination.did(effect_id, n),
                    f"{effect_id}/{n} is {attempt.outcome}, but was carried out",
                )


def check_raises(before: Snapshot, after: Snapshot, raised: dict[int, list[str]]) -> None:
    """Check that the handovers since `before` are those to `raised`, with exactly these effects."""
    new = {
        term: json.loads(listed)
        for term, listed in after.handovers.items()
        if term not in before.handovers
    }
    hold("I14", new == raised, f"handovers {new}, unfinished was {raised}")
    highest = max(raised, default=before.highest_term)
    hold("I16", after.highest_term == highest, f"raised to {after.highest_term}, not {highest}")


def check_refusal(why: str, before: Snapshot, after: Snapshot) -> None:
    """A refusal changes nothing but counters, the highest term, and what had to be stranded."""
    hold("I16", after.effects.keys() == before.effects.keys(), "a refusal made an effect")
    hold("I16", after.attempts.keys() == before.attempts.keys(), "a refusal made an attempt")
    hold("I16", after.answers == before.answers, "a refusal kept an answer")
    for name, was in before.attempts.items():
        became = after.attempts[name].outcome
        stranded = was.outcome is None and became is Outcome.UNKNOWN
        hold("I16", became is was.outcome or stranded, f"a refusal made {name} {became}")
    if why in ("stale-term", "term-contested"):
        hold("I16", after.highest_term == before.highest_term, f"{why} raised the term")


def _outcome(text: str | None) -> Outcome | None:
    return None if text is None else Outcome(text)
