"""What the data plane works with; built in app.py and nowhere else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from gateway.clock import Clock
from gateway.core.policy import Destination, PolicySet
from gateway.outbound.send import Outbound
from gateway.proxy.body import Spool
from gateway.proxy.inflight import InFlight
from gateway.proxy.slots import Slots
from gateway.store.ledger import Ledger
from gateway.web.auth import Authenticator
from gateway.web.decisions import Decisions
from gateway.web.metrics import Metrics
from gateway.web.tasks import Tasks


@dataclass(slots=True)
class State:
    """What changes while the gateway runs. `unwritten` counts outcomes that the ledger has
    not taken yet: while there is one, the gateway is not ready."""

    policies: PolicySet
    draining: bool = False
    unwritten: int = 0
    ledger_error: str | None = None

    def replace_policies(self, policies: PolicySet) -> None:
        self.policies = policies


@dataclass(slots=True)
class House:
    """The parts, and the state they share."""

    state: State
    clock: Clock
    ledger: Ledger
    outbound: Outbound
    spool: Spool
    authenticator: Authenticator
    metrics: Metrics
    log: FilteringBoundLogger
    decisions: Decisions
    tasks: Tasks
    replay_body_max_bytes: int
    inflight: InFlight = field(default_factory=InFlight)
    keys_known: dict[tuple[str, str], bool] = field(default_factory=dict)
    """By destination and route: whether it said last that it knows native keys."""
    unsettled: asyncio.Event = field(default_factory=asyncio.Event)
    _slots: dict[str, Slots] = field(default_factory=dict)

    def sent_at_ms(self, at_ms: int) -> int:
        """Return what an instant of the store's clock is for the rest of the world, or earlier.

        A wall clock that was fast when the ledger began leaves the store's ahead for good. A
        question to a destination about "since then" must not begin too late.
        """
        ahead_ms = self.ledger.clock.now_ms() - self.clock.wall_ms()
        return at_ms - max(ahead_ms, 0)

    def now_s(self) -> int:
        """Return the present in Unix seconds, as `sent_at_ms` would tell it later."""
        return self.sent_at_ms(self.ledger.clock.now_ms()) // 1000

    def slots_waiting(self) -> int:
        """Return how many requests wait for a slot now."""
        return sum(slots.waiting for slots in self._slots.values())

    def slots(self, destination: Destination) -> Slots:
        """Return the destination's slots, as many as its policy says now."""
        found = self._slots.get(destination.name)
        if found is None:
            found = self._slots[destination.name] = Slots(destination.limits.at_once)
        elif found.at_once != destination.limits.at_once:
            found.resize(destination.limits.at_once)
        return found
