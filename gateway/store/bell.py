"""The bell: tells whoever waits that a scope has changed, right after the commit.

It carries no news of its own. Who hears it reads again, so that one ring too many costs a read
and one that several changes share is enough for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gateway.core.ids import Scope


class Bell:
    """Rung on the event loop, with the scopes that have changed.

    It is heard in this process alone. Where several gateways share a ledger, one that is told of
    another's commit (PostgreSQL's NOTIFY, sent by the writer for `Batch.journalled` in the
    transaction itself) has only to call `ring` with those scopes, and `ring_all` whenever its
    listening was interrupted. Until then a waiter reads again when its wait is over.
    """

    def __init__(self) -> None:
        self._of_scope: dict[Scope, set[asyncio.Event]] = {}
        self._of_all: set[asyncio.Event] = set()

    @contextmanager
    def listen(self, scope: Scope | None = None) -> Iterator[asyncio.Event]:
        """Give an event that is set at each change of `scope` (of any, for None).

        Listen first, then read, then wait: a change in between is not missed.
        """
        event = asyncio.Event()
        listeners = self._of_all if scope is None else self._of_scope.setdefault(scope, set())
        listeners.add(event)
        try:
            yield event
        finally:
            listeners.discard(event)
            if scope is not None and not listeners:
                self._of_scope.pop(scope, None)

    def ring(self, scopes: Iterable[Scope]) -> None:
        """Wake who listens for one of `scopes`, and who listens for all."""
        rung = False
        for scope in scopes:
            rung = True
            for event in self._of_scope.get(scope, ()):
                event.set()
        if rung:
            for event in self._of_all:
                event.set()

    def ring_all(self) -> None:
        """Wake everybody: something has changed, or the house is closing."""
        for events in (self._of_all, *self._of_scope.values()):
            for event in events:
                event.set()
