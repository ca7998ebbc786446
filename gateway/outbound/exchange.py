"""One request's way onto the wire, which it takes once.

aiohttp sends GET, HEAD, OPTIONS, TRACE, PUT and DELETE a second time by itself after
ClientOSError or ServerDisconnectedError (aiohttp/client.py, IDEMPOTENT_METHODS), on fresh
connections too. Behind a ledger that is a second effect nobody recorded. Two locks stop it: the
error is renamed out of reach of that loop, and a request that was sent refuses to be sent.
"""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_middlewares import ClientHandlerType
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from gateway.clock import Clock
from gateway.core.errors import InvariantError
from gateway.outbound.transport import give_up_after, has_unread, reset

LOOK_AGAIN_S: Final = 1.0
"""The loop's timers stand still while the machine sleeps and deadlines do not, so the boot clock
is read at least this often."""
_GIVE_UP_STEP_MS: Final = 500


class SendFailed(Exception):
    """The connection failed; renamed so that the client library does not send again."""


class Held(Exception):
    """The request was held back; not a byte of it was written."""

    reason = "not-sent"


class DirtyConnection(Held):
    """The connection has ended, or holds bytes that belong to no request of ours."""


class Unwritable(Held):
    """The head could not be put into bytes."""


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
    """The state of one exchange between its first dial and the end of its answer.

    `carried` holds the connections that have carried a request before, with the milliseconds
    after which the kernel gives up on each.
    """

    __slots__ = (
        "_carried", "_clock", "_ends_s", "_idle_s", "_loop", "_reused", "_timer",
        "cleared", "expired", "file", "outgoing", "over", "protocol", "transport", "waits_since_s",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        outgoing: Outgoing,
        carried: weakref.WeakKeyDictionary[ResponseHandler, int],
    ) -> None:
        self._carried = carried
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._ends_s = self._loop.time() + outgoing.deadline_s - clock.boot_s()
        self._idle_s: float | None = None
        self._reused = False
        self._timer: asyncio.TimerHandle | None = None
        self.outgoing = outgoing
        self.file: BinaryIO | None = None  # the spooled body; closed with the exchange
        self.protocol: ResponseHandler | None = None
        self.transport: asyncio.Transport | None = None
        self.cleared = False  # the last look said yes, on the connection in use
        self.expired = False
        self.over = False
        self.waits_since_s: float | None = None  # since when a chunk of the answer is awaited

    def now_s(self) -> float:
        """The event loop's time."""
        return self._loop.time()

    def watch(self) -> None:
        """Abort the connection when the time comes."""
        now_s = self._loop.time()
        next_look_s = now_s + LOOK_AGAIN_S
        wanted_s = self._ends_s if self._idle_s is None else now_s + self._idle_s
        self._timer = self._loop.call_at(min(wanted_s, next_look_s), self._look)

    def stream(self, idle_s: float) -> None:
        """From here on silence ends the exchange, not its length."""
        self._idle_s = idle_s
        self._stop_watch()
        if not self.over:
            self.watch()

    def end(self, *, abort: bool) -> None:
        """Finish. After this nothing of the request can be written any more."""
        self.over = True
        self._stop_watch()
        if abort:
            reset(self.transport)
        if self.file is not None:
            self.file.close()

    @property
    def still_uploads(self) -> bool:
        return self.transport is not None and self.transport.get_write_buffer_size() > 0

    @property
    def was_reset(self) -> bool:
        """Whether the connection ended by an error rather than by an end of file."""
        protocol = self.protocol
        return protocol is not None and isinstance(protocol.exception(), aiohttp.ClientOSError)

    def waiting(self) -> None:
        """A chunk of the answer is awaited from now on."""
        self.waits_since_s = self._loop.time()

    def _look(self) -> None:
        if self._is_late():
            self.expired = True
            reset(self.transport)
        else:
            self.watch()

    def _is_late(self) -> bool:
        if self._idle_s is not None:
            since_s = self.waits_since_s
            return since_s is not None and self._loop.time() - since_s >= self._idle_s
        past_deadline = self._clock.boot_s() >= self.outgoing.deadline_s
        return past_deadline or self._loop.time() >= self._ends_s

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
            raise  # the connector's own: the library does not send again after these
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise SendFailed from error

    def take(self, connection: Connection) -> None:
        """Take this connection, and have the kernel give up on it no later than we do.

        Raises:
            Held: nothing may be written to it now.
        """
        self.cleared = False
        protocol, transport = self._usable(connection)
        self.protocol, self.transport = protocol, transport
        set_ms = self._carried.get(protocol)
        self._reused = set_ms is not None
        left_ms = self._left_ms()
        if set_ms is None or not left_ms - _GIVE_UP_STEP_MS <= set_ms <= left_ms:
            # In steps, so that a busy connection is not told anew with every request.
            wanted_ms = left_ms - left_ms % _GIVE_UP_STEP_MS or left_ms
            give_up_after(transport, wanted_ms)
            self._carried[protocol] = wanted_ms

    def last_look(self, connection: Connection) -> None:
        """Ask whether the first byte may be written now.

        Raises:
            Held: it may not, and nothing was written.
        """
        _, transport = self._usable(connection)
        # A fresh TLS connection may have something to read (session tickets); an idle one not.
        if self._reused and has_unread(transport):
            raise DirtyConnection
        self.cleared = True

    def _usable(self, connection: Connection) -> tuple[ResponseHandler, asyncio.Transport]:
        outgoing = self.outgoing
        now_s = self._clock.boot_s()
        send_by_s = outgoing.send_by_s
        if self.over or self.expired or now_s >= outgoing.deadline_s:
            raise SendBudgetSpent
        if send_by_s is not None and now_s > send_by_s:
            raise SendBudgetSpent
        protocol = connection.protocol
        if protocol is None or protocol.should_close:
            raise DirtyConnection
        transport = protocol.transport
        if transport is None or transport.is_closing():
            raise DirtyConnection
        return protocol, transport

    def _left_ms(self) -> int:
        return max(1, int((self.outgoing.deadline_s - self._clock.boot_s()) * 1000))


class OnceRequest(aiohttp.ClientRequest):
    """A request that is written at most once, and carries nothing that its caller did not say."""

    exchange: Exchange | None = None
    POST_METHODS = set[str]()  # noqa: RUF012  # else the library gives these a Content-Type

    def update_auto_headers(self, skip_auto_headers: object) -> None:
        """Add no Accept, Accept-Encoding or User-Agent."""

    def update_body_from_data(self, body: object, _stacklevel: int = 3) -> None:
        """Leave a request without a body without framing, too."""
        if body is not None:
            super().update_body_from_data(body, _stacklevel + 1)

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """The head leaves here, or just behind in `write_bytes` when there is a body."""
        exchange = self.exchange
        if exchange is None:
            raise InvariantError("a request without its exchange reached the wire")
        if exchange.outgoing.sent:
            raise SendFailed("a second send was blocked")
        exchange.take(conn)
        if not exchange.outgoing.body:
            exchange.last_look(conn)
        exchange.outgoing.sent = True
        try:
            return await super().send(conn)
        except ValueError as error:  # from serialising the head, which comes before any write
            exchange.outgoing.sent = False
            raise Unwritable from error

    async def write_bytes(
        self,
        writer: AbstractStreamWriter,
        conn: Connection,
        content_length: int | None = None,
    ) -> None:
        """Write head and body together. This runs in a task of its own, so time has passed."""
        exchange, protocol = self.exchange, conn.protocol
        if exchange is None or protocol is None:
            return  # the connection was closed before the task ran
        try:
            exchange.last_look(conn)
        except Held as held:
            exchange.outgoing.sent = False  # the head was buffered, not written
            protocol.set_exception(held)
            conn.close()
            return
        await super().write_bytes(writer, conn, content_length)
