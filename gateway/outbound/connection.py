"""One connection to a destination: at most one exchange at a time, and silence in between.

A connection that says anything while nobody has asked is dirty. What it said may be half of an
answer to a request that was given up, or the start of one to a request never made; given to the
next request it would be believed. So it is dropped, whatever it said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from gateway.core.errors import InvariantError
from gateway.outbound.transport import Silent, give_up_after, reset

if TYPE_CHECKING:
    from gateway.outbound.exchange import Exchange

_GIVE_UP_STEP_MS: Final = 500


class Connection(asyncio.Protocol):
    """The transport of one connection, and which exchange it is lent to."""

    __slots__ = (
        "_carried", "_drained", "_exchange", "_gives_up_ms", "_on_free", "_on_lost", "_paused",
        "_silent", "_stalled", "idle_since_s", "transport",
    )  # fmt: skip

    def __init__(
        self,
        on_free: Callable[[Connection], bool] | None,
        on_lost: Callable[[Connection], None],
    ) -> None:
        """`on_free` is called when an exchange has left it fit for another, and returns whether
        it is kept; None keeps it never. `on_lost` is called when it has ended."""
        self._on_free = on_free
        self._on_lost = on_lost
        self._exchange: Exchange | None = None
        self._carried = False
        self._silent: Silent | None = None
        self._gives_up_ms = 0
        self._paused = False  # reading
        self._stalled = False  # writing
        self._drained: asyncio.Future[None] | None = None
        self.idle_since_s = 0.0
        self.transport: asyncio.Transport | None = None

    # -- one exchange after another

    def is_fit(self) -> bool:
        """Whether the first byte of a request may be written now."""
        transport = self.transport
        if transport is None or transport.is_closing() or self._exchange is not None:
            return False
        # A fresh TLS connection may have something to read (session tickets). No other speaks
        # before it was spoken to: what does is no HTTP/1.1 server, or answers somebody else.
        if not self._carried and transport.get_extra_info("sslcontext") is not None:
            return True
        if self._silent is None:
            self._silent = Silent(transport)
        return bool(self._silent)

    def give_up_within(self, left_ms: int) -> None:
        """Have the kernel give up no later than that. In steps, so that a busy connection is not
        told anew with every request."""
        if self.transport is None or left_ms - _GIVE_UP_STEP_MS <= self._gives_up_ms <= left_ms:
            return
        self._gives_up_ms = left_ms - left_ms % _GIVE_UP_STEP_MS or left_ms
        give_up_after(self.transport, self._gives_up_ms)

    def lend(self, exchange: Exchange) -> None:
        """From here on what comes belongs to this exchange."""
        if self._exchange is not None:
            raise InvariantError("two exchanges would share one connection")
        self._exchange = exchange

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    async def drained(self) -> None:
        """Return when there is room for more, or the connection has ended."""
        if self._stalled and self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
        if self._drained is not None:
            await self._drained

    @property
    def holds_unsent(self) -> bool:
        return self.transport is not None and self.transport.get_write_buffer_size() > 0

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def hold(self) -> None:
        """Read no more for now: nobody takes what is here already."""
        if not self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def go_on(self) -> None:
        if self._paused:
            self._paused = False
            if self.transport is not None and not self.transport.is_closing():
                self.transport.resume_reading()

    def release(self, *, reusable: bool) -> None:
        """The exchange is over, and its answer whole."""
        self._exchange = None
        self._carried = True
        self.go_on()
        on_free = self._on_free
        if not (reusable and on_free is not None and self.is_open and on_free(self)):
            self.close()

    def reset(self) -> None:
        """Drop it: nothing queued is delivered, nothing that still comes is heard."""
        self._exchange = None
        reset(self.transport)
        self._let_go()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    # -- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because uvloop registers its transports nowhere.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is not None:
            exchange.received(data)
        else:
            self.reset()

    def eof_received(self) -> None:
        """The transport closes itself after this."""
        if self._exchange is not None:
            self._exchange.lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        self.transport = None
        self._silent = None
        if exchange is not None:
            exchange.lost(error)
        self._let_go()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._stalled = True

    def resume_writing(self) -> None:
        self._stalled = False
        self._let_go()

    def _let_go(self) -> None:
        waiter, self._drained = self._drained, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
