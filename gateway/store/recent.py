"""What this process wrote last, kept so that it need not be read back for the next step.

The file is ours alone and everything goes through one writer, so what was committed is what
stands there. An effect is admitted and settled within milliseconds; reading it back in between
costs more than deciding. Whatever goes another way (a failed batch, upkeep with statements of
its own) empties this, and the next batch reads again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.core.ids import Scope
from gateway.store.database import Database
from gateway.store.lease_rows import LeaseMemory
from gateway.store.lineage import Lineage
from gateway.store.rows import COVERS_ALL, EffectRow, ScopeRow

SCOPES_MAX: Final = 4096
_NUMBERS: Final = "SELECT nextval('answer_number') FROM generate_series(1, ?)"
_OPEN_AT: Final = (
    "SELECT a.effect_id, a.destination, a.covers, a.seal_at_ms "
    "FROM ({}) k CROSS JOIN attempt a WHERE a.open = 1 AND a.destination = k.column1 "
    f"AND a.covers IN (k.column2, '{COVERS_ALL}') ORDER BY a.n"
)


@dataclass(slots=True)
class _Thing:
    """Who is at one thing, and until when; and whose effects nobody has written over yet."""

    seals: dict[str, int] = field(default_factory=dict)
    alone: set[str] = field(default_factory=set)

    def running(self, now_ms: int, but: str) -> bool:
        return any(now_ms < seal for effect_id, seal in self.seals.items() if effect_id != but)


class Things:
    """Which effects have an open attempt at which thing (destination and `covers`)."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], _Thing] | None = None

    def touch(
        self,
        db: Database,
        thing: tuple[str, str],
        effect_id: str,
        now_ms: int,
        seal_at_ms: int,
    ) -> set[str]:
        """Note an open attempt at `thing`; return the effects that are written over by now.

        The others that have an open attempt there are; and so is this one while another may
        still be under way, for that one may arrive last, over this one's mark. Each is returned
        once, since it stays so.
        """
        known = self._known(db)
        here = known.get(thing)
        if here is None:
            here = known[thing] = _Thing()
        here.alone.discard(effect_id)
        over, running = here.alone, here.running(now_ms, effect_id)
        everywhere = known.get((thing[0], COVERS_ALL))
        if everywhere is not None:
            over |= everywhere.seals.keys() - {effect_id}
            running = running or everywhere.running(now_ms, effect_id)
        here.seals[effect_id] = max(here.seals.get(effect_id, 0), seal_at_ms)
        here.alone = set() if running else {effect_id}
        if running:
            over.add(effect_id)
        return over

    def leave(self, db: Database, thing: tuple[str, str], effect_id: str) -> None:
        """Note that the effect has no open attempt at `thing` any more."""
        known = self._known(db)
        here = known.get(thing)
        if here is not None:
            here.seals.pop(effect_id, None)
            here.alone.discard(effect_id)
            if not here.seals:
                del known[thing]

    def look_at(self, db: Database, things: Collection[tuple[str, str]]) -> None:
        """Read what is open at `things` alone: the way where others write the ledger too. What
        was known before is forgotten."""
        self._of = {}
        if not things:
            return
        for effect_id, destination, covers, seal_at_ms in db.execute(
            *db.dialect.listing(_OPEN_AT, "tt", [*things])
        ):
            self._note(self._of, destination, covers, effect_id, seal_at_ms)

    def _known(self, db: Database) -> dict[tuple[str, str], _Thing]:
        """Read what is open on disk before the first change, of which the disk does not know."""
        if self._of is None:
            self._of = {}
            for effect_id, destination, covers, seal_at_ms in db.execute(
                "SELECT effect_id, destination, covers, seal_at_ms FROM attempt "
                "INDEXED BY attempt_open WHERE open = 1 ORDER BY n"
            ):
                self._note(self._of, destination, covers, effect_id, seal_at_ms)
        return self._of

    @staticmethod
    def _note(
        known: dict[tuple[str, str], _Thing],
        destination: str,
        covers: str,
        effect_id: str,
        seal_at_ms: int,
    ) -> None:
        thing = known.setdefault((destination, covers), _Thing())
        thing.seals[effect_id] = max(thing.seals.get(effect_id, 0), seal_at_ms)
        thing.alone.add(effect_id)

    def forget(self) -> None:
        self._of = None


class Recent:
    """Effects in flight and scopes, as of the last commit."""

    def __init__(self) -> None:
        self.effects: dict[str, EffectRow] = {}
        self.scopes: dict[Scope, ScopeRow] = {}
        self.leadership = LeaseMemory()
        self.things = Things()
        self.lineage = Lineage()
        self._last_answer_seq: int | None = None
        self._numbers: list[int] = []

    def number_answers(self, db: Database, count: int) -> None:
        """Take numbers for as many answers, where others take some too."""
        self._numbers = []
        if count:
            found = db.execute(_NUMBERS, (count,)).fetchall()
            self._numbers = [number for (number,) in reversed(found)]

    def next_answer_seq(self, db: Database) -> int:
        """Return the number of the next answer; chosen here so that its attempt can name it."""
        if not db.alone:
            if not self._numbers:
                self.number_answers(db, 1)
            return self._numbers.pop()
        last = self._last_answer_seq
        if last is None:
            (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM answer").fetchone()
        self._last_answer_seq = last + 1
        return last + 1

    def learn(self, effects: Iterable[EffectRow], scopes: Mapping[Scope, ScopeRow]) -> None:
        """Take note of what a batch has committed."""
        for effect in effects:
            if effect.outcome is None:
                self.effects[effect.id] = effect
            else:
                self.effects.pop(effect.id, None)
        if len(self.scopes) > SCOPES_MAX:
            self.scopes.clear()
        if len(self.leadership.leases) > SCOPES_MAX:
            self.leadership.forget()
        self.scopes.update(scopes)

    def forget(self) -> None:
        self.effects.clear()
        self.scopes.clear()
        self.leadership.forget()
        self.things.forget()
        self._last_answer_seq = None
