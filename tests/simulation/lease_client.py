"""Workers as honest clients of the lease: what they believe, on clocks of their own."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.core.lease import Turned
from gateway.store.lease_records import LeaseAnswer
from tests.conformance.books import RULES


@dataclass(frozen=True)
class Request:
    """A question on its way, with what the asker's clock showed when it left."""

    verb: str
    holder: str
    principal: str
    asked_ms: float = 0
    term: int = 0
    to: str = ""

    @property
    def worker(self) -> str:
        return self.holder.partition("#")[0]


def trusted_from(asked_ms: float, heard_ms: float) -> float:
    """Return the moment from which a lease is counted: its answer may have been long on its way."""
    return asked_ms


@dataclass
class Client:
    """One worker. `rate` is how fast its clock runs; `until_ms` is in its own time.

    It believes in the highest term that it was told of, and in none that it gave up itself.
    """

    name: str
    rate: float
    incarnation: int = 1
    term: int = 0
    until_ms: float = 0
    gave_up: int = 0
    ready: bool = True
    granted: list[tuple[str, int]] = field(default_factory=list)  # whatever it was told of

    @property
    def holder(self) -> str:
        return f"{self.name}#{self.incarnation}"

    def now_ms(self, true_ms: int) -> float:
        return true_ms * self.rate

    def believes(self, true_ms: int) -> bool:
        return self.now_ms(true_ms) < self.until_ms

    def believes_for_ms(self, true_ms: int) -> float:
        """Return for how long it will believe, in true time."""
        return (self.until_ms - self.now_ms(true_ms)) / self.rate

    def asks(self, verb: str, true_ms: int, to: str = "") -> Request:
        if verb in ("release", "step-down", "hand-off"):
            self.give_up()
        return Request(verb, self.holder, self.name, self.now_ms(true_ms), self.term, to)

    def give_up(self) -> None:
        self.gave_up, self.until_ms = self.term, 0

    def restart(self) -> None:
        """Go on as a new process. What the old one had asked for is still on its way."""
        self.incarnation += 1
        self.term, self.until_ms, self.gave_up = 0, 0, 0

    def hear(self, request: Request, answer: LeaseAnswer, true_ms: int) -> None:
        """Take an answer in. One that comes later than its own deadline makes no leader."""
        if isinstance(answer.answer, Turned):
            if request.verb == "renew" and request.holder == self.holder:
                self.until_ms = 0 if request.term == self.term else self.until_ms
            return
        lease = answer.answer.lease
        if request.verb in ("acquire", "supersede"):
            self.granted.append((request.holder, lease.term))
        elif request.verb != "renew":
            return
        mine = request.holder == self.holder
        if not mine or lease.term < self.term or lease.term <= self.gave_up or lease.draining:
            return
        now_ms = self.now_ms(true_ms)
        left_ms = lease.expires_at_ms - answer.record.now_ms
        until_ms = trusted_from(request.asked_ms, now_ms) + left_ms - RULES.margin_ms
        if lease.term > self.term:
            self.term, self.until_ms = lease.term, 0
        self.until_ms = max(self.until_ms, until_ms)
