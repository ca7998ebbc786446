"""One request's way onto the wire, which it takes once.

aiohttp sends GET, HEAD, OPTIONS, TRACE, PUT and DELETE a second time by itself after
ClientOSError or ServerDisconnectedError (aiohttp/client.py, IDEMPOTENT_METHODS), on fresh
connections too. Behind a ledger that is a second effect nobody recorded. Two locks stop it: the
error is renamed out of reach of that loop, and a request that was sent refuses to be sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_middlewares import ClientHandlerType
from aiohttp.connector import Connection
from multidict import CIMultiDict

from gateway.clock import Clock
from gateway.core.errors import InvariantError
from gateway.outbound.transport import give_up_after, has_unread, reset

LOOK_AGAIN_S: Final = 1.0
"""The loop's timers stand still while the machine sleeps and deadlines do not, so the boot clock
is read at least this often."""
_FILE_CHUNK_BYTES: Final = 256 * 1024


class SendFailed(Exception):
    """The connection failed; renamed so that the client library does not send again."""


class Held(Exception):
    """The request was held back; not a byte of it was written."""

    reason = "not-sent"


class DirtyConnection(Held):
    """The connection has ended, or holds bytes that belong to no request of ours."""


class SendBudgetSpent(Held):
    """It is too late for the first byte to leave."""

    reason = "send-budget-spent"


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """What to send. `target` is the raw path and query behind the destination's name.

    `headers` are cleaned, with the login. `body`: bytes, a spooled file, or None for a request
    without any body framing (b"" says `Content-Length: 0`). Instants are boot-clock seconds: the
    first byte does not leave after `send_by_s`, and the exchange is aborted at `deadline_s`.
    `sent` turns true right before the first byte of the head is written.
    """

    method: str
    target: str
    headers: list[tuple[str, str]]
    deadline_s: float
    body: bytes | Path | None = None
    send_by_s: float | None = None
    sent: bool = field(default=False, init=False)


class Exchange:
    """The state of one exchange between its first dial and the end of its answer."""

    __slots__ = (
        "_clock", "_ends_s", "_idle_s", "_loop", "_timer",
        "expired", "outgoing", "over", "protocols", "transport", "waits_since_s",
    )  # fmt: skip

    def __init__(self, clock: Clock, outgoing: Outgoing, protocols: Protocols) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._ends_s = self._loop.time() + outgoing.deadline_s - clock.boot_s()
        self._idle_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.outgoing = outgoing
        self.protocols = protocols
        self.transport: asyncio.Transport | None = None
        self.expired = False
        self.over = False
        self.waits_since_s: float | None = None  # since when a chunk of the answer is awaited

    def watch(self) -> None:
        """Abort the connection when the deadline comes."""
        next_look_s = self._loop.time() + LOOK_AGAIN_S
        self._timer = self._loop.call_at(min(self._ends_s, next_look_s), self._look)

    def _look(self) -> None:
        if self._is_late():
            self.expired = True
            reset(self.transport)
        else:
            self.watch()

    def _is_late(self) -> bool:
        if self._idle_s is None:
            past_deadline = self._clock.boot_s() >= self.outgoing.deadline_s
            return past_deadline or self._loop.time() >= self._ends_s
        since_s = self.waits_since_s
        return since_s is not None and self._loop.time() - since_s >= self._idle_s

    def stream(self, idle_s: float) -> None:
        """From here on only silence ends the exchange, not its length."""
        self._idle_s = idle_s
        self._ends_s = self._loop.time() + min(idle_s, LOOK_AGAIN_S)
        self._stop_watch()
        self._timer = self._loop.call_at(self._ends_s, self._look)

    def end(self, *, abort: bool) -> None:
        """Finish. After this nothing of the request can be written any more."""
        self.over = True
        self._stop_watch()
        if abort:
            reset(self.transport)

    def _stop_watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def guard(
        self, request: aiohttp.ClientRequest, handler: ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Client middleware: the only way in which a request gets its exchange and its headers."""
        if not isinstance(request, OnceRequest):
            raise InvariantError(f"{type(request).__name__} would be sent without its guard")
        request.exchange = self
        request.headers.extend(self.outgoing.headers)
        try:
            return await handler(request)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise  # of the connector: the library does not send again after these
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise SendFailed from error

    def last_look(self, connection: Connection) -> asyncio.Transport:
        """Ask whether the first byte may be written, at the last moment.

        Raises:
            Held: it may not, and nothing was written.
        """
        outgoing = self.outgoing
        now_s = self._clock.boot_s()
        send_by_s = outgoing.send_by_s
        if self.over or (send_by_s is not None and now_s > send_by_s):
            raise SendBudgetSpent
        if self.expired or now_s >= outgoing.deadline_s:
            raise SendBudgetSpent
        protocol = connection.protocol
        transport = connection.transport
        if protocol is None or transport is None or transport.is_closing():
            raise DirtyConnection
        if protocol.should_close or (self.protocols.carried(protocol) and has_unread(transport)):
            raise DirtyConnection
        self.transport = transport
        give_up_after(transport, outgoing.deadline_s - now_s)
        return transport


class Protocols:
    """Which connections of a pool have carried a request. A fresh TLS connection may well have
    something to read (session tickets); one that lay idle may not."""
