"""Policies in force: reloaded when files change, adopted whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from structlog.typing import FilteringBoundLogger

from gateway.core.errors import PolicyError
from gateway.core.policy import Destination, Does, Function, PolicySet
from gateway.store.ledger import Ledger
from gateway.store.upkeep import Identity
from gateway.web.metrics import Metrics
from gateway.wire.policy_reload import Reloader


class Policies:
    """Watches the files; a good new set is adopted, a bad one changes nothing.

    A set may be good and still have to wait: what decides identity must not change under
    open attempts. It is then tried again at every look.
    """

    def __init__(
        self,
        reloader: Reloader,
        ledger: Ledger,
        metrics: Metrics,
        log: FilteringBoundLogger,
        replace: Callable[[PolicySet], None],
    ) -> None:
        self._reloader = reloader
        self._ledger = ledger
        self._metrics = metrics
        self._log = log
        self._replace = replace
        self._asked = False
        self._waiting: PolicySet | None = None
        self._held_back: list[str] = []

    async def adopt_first(self, *, force: bool) -> None:
        """Adopt the set that the gateway starts with. Raises PolicyError if it cannot be."""
        complaints = await self._record(self._reloader.current, force=force)
        if complaints:
            raise PolicyError("\n".join(complaints))
        self._in_force(self._reloader.current)

    def ask(self) -> None:
        """Reload at the next look, changed or not (SIGHUP)."""
        self._asked = True

    async def look(self) -> None:
        """Reload if files changed, and adopt what can be adopted."""
        before = self._reloader.complaints
        found = self._reloader.force() if self._asked else self._reloader.check()
        self._asked = False
        if found is not None:
            self._waiting = found
        elif self._reloader.complaints and self._reloader.complaints != before:
            self._waiting = None
            self._metrics.policy_reload_failed()
            for complaint in self._reloader.complaints:
                self._log.error("policy-rejected", text=str(complaint))
        if self._waiting is None:
            return
        waiting = self._waiting
        held_back = await self._record(waiting, force=False)
        if held_back:
            if held_back != self._held_back:
                self._log.warning("policy-waits", text="; ".join(held_back))
            self._held_back = held_back
            return
        self._waiting, self._held_back = None, []
        self._reloader.adopt(waiting)
        self._in_force(waiting)

    async def _record(self, policies: PolicySet, *, force: bool) -> list[str]:
        identities = [_function(f) for f in policies.functions.values()]
        identities += [_destination(d) for d in policies.destinations.values()]
        digests = {d.digest: d.name for d in policies.destinations.values()}
        digests |= {f.digest: f.name for f in policies.functions.values()}
        texts = {d.digest: d.text for d in policies.destinations.values()}
        return await self._ledger.adopt(identities, digests, texts=texts, force=force)

    def _in_force(self, policies: PolicySet) -> None:
        self._replace(policies)
        self._metrics.policy_loaded(policies.digest, policies.destinations)
        self._log.info("policies", digest=policies.digest, destinations=len(policies.destinations))

    def report(self) -> dict[str, Any]:
        """Return what /readyz says of the policies."""
        current = self._reloader.current
        return {
            "digest": current.digest,
            "destinations": sorted(current.destinations),
            "functions": sorted(current.functions),
            "rejected": [str(complaint) for complaint in self._reloader.complaints],
            "waiting": self._held_back,
        }


def _function(function: Function) -> Identity:
    authority = function.rules.authority.value
    leadership = "unit" if function.per_unit else "function"
    return Identity("function", function.name, _text([authority, leadership]))


def _destination(destination: Destination) -> Identity:
    writes = [
        [
            route.match.text,
            route.key.text if route.key else None,
            route.covers.text if route.covers else None,
        ]
        for route in destination.routes
        if route.does is Does.WRITE
    ]
    return Identity("destination", destination.name, _text(writes))


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
