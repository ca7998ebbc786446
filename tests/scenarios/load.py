"""Many workers sending at once, while something happens to the gateway behind their backs.

They do what honest workers do: whatever got no definite answer is tried again, under the next
term and the same key. What they were told is kept, and compared with the facts at the end.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.house import Got
from tests.scenarios.account import Account, take_account
from tests.scenarios.caller import NoAnswer
from tests.scenarios.stage import Stage, until

WORKERS: Final = 16
NOTES: Final = 3
TRIES: Final = 4
CHAOS: Final = {
    "ok": 60,
    "500-after": 6,
    "500-before": 4,
    "close-after": 6,
    "close-before": 4,
    "reset-after": 4,
    "truncate": 3,
    "garbage": 2,
    "delay:40ms": 4,
    "delay-after:40ms": 4,
    "422": 3,
    "429": 3,
}


@dataclass(slots=True)
class Wish:
    """One intended effect, and what its worker has been told so far."""

    key: str
    method: str
    path: str
    tries: int = 0
    told: list[str] = field(default_factory=list)

    @property
    def told_done(self) -> bool:
        return "confirmed" in self.told

    @property
    def told_nothing_happened(self) -> bool:
        """Whether every answer vouched that nothing had happened by that try."""
        return bool(self.told) and set(self.told) == {"none"}


class Load:
    """The workers. `up` is cleared while there is no gateway to talk to."""

    def __init__(self, stage: Stage, dice: random.Random, *, slow: str = "delay:500ms") -> None:
        """`slow` is the longest that the CRM takes for a change of a note; it is done by its seal,
        and until then no newer term's change of that note may overtake it."""
        self.stage = stage
        self.dice = dice
        self.slow = slow
        self.term = 1
        self.up = asyncio.Event()
        self.wishes: list[Wish] = []
        self.answers: Counter[str] = Counter()
        self.term_fell: list[str] = []
        self.highest_seen = 0
        self._again: deque[tuple[int, Wish]] = deque()
        self._stopping = False

    # -- before

    async def prepare(self) -> None:
        """Make the notes that all workers change, then let the CRM misbehave."""
        for n in range(1, NOTES + 1):
            key = f"note-{n}"
            made = await self.stage.leader(self.term).send("POST", "/notes", key, {"text": "-"})
            assert made.status == 201
            self.wishes.append(Wish(key, "POST", "/notes", 1, ["confirmed"]))
        chaos = {"seed": self.dice.getrandbits(32), "weights": CHAOS}
        await self.stage.crm("POST", "/_sandbox/chaos", json.dumps(chaos).encode())

    # -- during

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                _ = group.create_task(self._work())
            try:
                yield
            finally:
                self._stopping = True
                self.up.set()

    async def _work(self) -> None:
        while not self._stopping:
            await self.up.wait()
            await self._try(self._next())

    def _next(self) -> Wish:
        """An open wish of an earlier term first; else a new one."""
        if self._again and self._again[0][0] < self.term:
            return self._again.popleft()[1]
        key = f"k-{len(self.wishes)}"
        if self.dice.random() < 0.1:
            wish = Wish(key, "PATCH", f"/notes/note-{self.dice.randint(1, NOTES)}")
        else:
            wish = Wish(key, "POST", "/contacts")
        self.wishes.append(wish)
        return wish

    async def _try(self, wish: Wish) -> None:
        """Send once; now and then as the old leader that does not know of the new one."""
        old_leader = self.term > 1 and self.dice.random() < 0.03
        term, floor = self.term - old_leader, self.highest_seen
        is_slow = wish.method == "PATCH" and self.dice.random() < 0.15
        wish.tries += 1
        try:
            got = await self.stage.leader(term).send(
                wish.method,
                wish.path,
                wish.key,
                {"text": wish.key},
                **({"X_Sandbox_Fault": self.slow} if is_slow else {}),
            )
        except NoAnswer:
            self.answers["no answer"] += 1
            told = "unknown"
        else:
            self._note(got, floor)
            told = _told(got)
        wish.told.append(told)
        if told != "confirmed" and wish.tries < TRIES:
            self._again.append((term, wish))

    def _note(self, got: Got, floor: int) -> None:
        self.answers[f"{got.status} {got.problem or ''}".strip()] += 1
        shown = int(got.headers.get("Fence-Term", "0"))
        if shown and shown < floor:
            self.term_fell.append(f"{floor} was shown before the request, {shown} after it")
        self.highest_seen = max(self.highest_seen, shown)

    # -- after

    async def settle_down(self) -> Account:
        """End the misbehaviour, let deadlines pass, and take the account."""
        await self.stage.crm("DELETE", "/_sandbox/chaos")
        await self.stage.until_ready()
        await until(self._nothing_in_flight, "end of what is in flight")
        return take_account(await self.stage.received(), await self.stage.effects())

    async def _nothing_in_flight(self) -> bool:
        """Whether every intent has its outcome, and the CRM has finished what it was slow with."""
        slow = [
            entry
            for entry in await self.stage.received()
            if str(entry["fault"]).startswith("delay") and not entry["applied"]
        ]
        return not slow and None not in (await self.stage.outcomes()).values()

    async def retry_unknown(self) -> Counter[str]:
        """Try every unknown effect once more; return what callers are told."""
        wishes = {wish.key: wish for wish in self.wishes}
        outcomes = await self.stage.outcomes()
        left = deque(wishes[key] for key, outcome in outcomes.items() if outcome == "unknown")
        told: Counter[str] = Counter()

        async def work() -> None:
            while left:
                wish = left.popleft()
                got = await self.stage.leader(self.term + 1).send(
                    wish.method, wish.path, wish.key, {"text": wish.key}
                )
                told[f"{got.status} {got.problem}"] += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                _ = group.create_task(work())
        return told

    async def lies(self) -> list[str]:
        """Return the keys whose callers were told what is not so."""
        applied = set(await self.stage.applied_keys())
        lost = [w.key for w in self.wishes if w.told_done and w.key not in applied]
        done = [w.key for w in self.wishes if w.told_nothing_happened and w.key in applied]
        return lost + done


def _told(got: Got) -> str:
    """What an answer says of the effect: confirmed, none or unknown."""
    if got.problem is not None:
        return str(got.json["effect"])
    if got.status >= 500:
        return "unknown"  # a load balancer's: the gateway says what it knows in a problem
    return "confirmed" if got.status < 300 else "none"
