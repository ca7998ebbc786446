"""The connections to one destination, as its policy has them now."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from gateway.clock import Clock
from gateway.core.policy import Destination
from gateway.outbound.connection import Connection
from gateway.outbound.dial import Dialler

IDLE_S: Final = 2.0
"""A connection that lay idle longer is not used again: destinations drop them, and a request
written into a dropped one is a false unknown."""
_USUAL_PORTS: Final = {"http": 80, "https": 443}


class Line:
    """Idle connections, the one that was used last on top; and how to dial more."""

    def __init__(self, destination: Destination, clock: Clock, tls: ssl.SSLContext | None) -> None:
        self.destination = destination
        self.host = _authority(destination)
        self._clock = clock
        self._connect_s = destination.limits.connect_ms / 1000
        self._dialler = Dialler(
            destination.host.strip("[]"),
            destination.port,
            secure=destination.scheme == "https",
            tls=tls,
        )
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._gone = asyncio.Event()
        self._retired = False

    def leads_to(self, destination: Destination) -> bool:
        known = self.destination
        return known is destination or (
            (known.scheme, known.host, known.port, known.limits.connect_ms)
            == (
                destination.scheme,
                destination.host,
                destination.port,
                destination.limits.connect_ms,
            )
        )

    def idle(self) -> Connection | None:
        """Take a connection that has carried a request before; whether it is still clean is asked
        right before it is written to."""
        while self._idle:
            connection = self._idle.pop()
            if self._clock.boot_s() - connection.idle_since_s <= IDLE_S:
                return connection
            connection.close()
        return None

    async def dial(self, left_s: float, *, single: bool) -> Connection:
        """Open a connection; a `single` one is closed after its first exchange.

        Raises:
            NotDialled: there is none.
        """
        within_s = min(self._connect_s, max(left_s, 0.001))
        made = self._made_once if single else self._made
        connection = await self._dialler.dial(within_s, made)
        # Only now: of a dial that was given up the loop may not tell that it has ended.
        if connection.is_open:
            self._all.add(connection)
        return connection

    def close_idle(self, *, older_than_s: float = IDLE_S) -> bool:
        """Return whether idle connections are left."""
        now_s = self._clock.boot_s()
        kept: list[Connection] = []
        for connection in self._idle:
            if connection.is_open and now_s - connection.idle_since_s <= older_than_s:
                kept.append(connection)
            else:
                connection.close()
        self._idle = kept
        return bool(kept)

    def retire(self) -> None:
        """Close what is idle now, and the others with the end of their exchange."""
        self._retired = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @property
    def connections(self) -> list[Connection]:
        """All that have not ended yet, in use or not."""
        return list(self._all)

    async def until_gone(self) -> None:
        """Wait until every connection has ended."""
        self._gone.clear()
        if self._all:
            await self._gone.wait()

    def _made(self) -> Connection:
        return Connection(self._keep, self._lost)

    def _made_once(self) -> Connection:
        return Connection(None, self._lost)

    def _lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        if not self._all:
            self._gone.set()

    def _keep(self, connection: Connection) -> bool:
        if self._retired:
            return False
        connection.idle_since_s = self._clock.boot_s()
        self._idle.append(connection)
        return True


def _authority(destination: Destination) -> str:
    host = destination.host
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    if destination.port == _USUAL_PORTS.get(destination.scheme):
        return host
    return f"{host}:{destination.port}"
