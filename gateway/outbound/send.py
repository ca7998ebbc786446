"""The one way out: each request is sent once, and what is known of it afterwards is a value.

Nothing here retries, follows a redirect, keeps a cookie, decompresses, or looks for a proxy in
the environment: it is not switched off, it is not there. Whether a request was sent is decided by
the flag that is set right before its first byte is written, never by the class of an exception:
"connection refused" and "reset after the effect" are the same class.
"""

from __future__ import annotations

import asyncio
import ssl
import traceback
from pathlib import Path
from typing import Final

import structlog

from gateway.clock import Clock
from gateway.core.classify import Silence
from gateway.core.errors import InvariantError, Malformed
from gateway.core.policy import Connections, Destination
from gateway.outbound.connection import Connection
from gateway.outbound.dial import NotDialled
from gateway.outbound.exchange import DirtyConnection, Exchange, Held, Outgoing
from gateway.outbound.incoming import Incoming
from gateway.outbound.line import Line
from gateway.outbound.request import Unwritable, request_head
from gateway.outbound.upload import BodyFile
from gateway.outbound.watch import Watch

_FAREWELL_S: Final = 1.0
"""How long the end of all connections is awaited when the gateway stops."""

_log = structlog.get_logger(__name__)


class Outbound:
    """All traffic to destinations. One per gateway process, used on one event loop."""

    def __init__(self, clock: Clock, *, tls: ssl.SSLContext | None = None) -> None:
        """`tls` replaces the platform's trust store, for destinations with a private CA."""
        self._clock = clock
        self._tls = tls
        self._lines: dict[str, Line] = {}
        self._retired: list[Line] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch: Watch | None = None
        self._closed = False

    async def send_once(self, destination: Destination, outgoing: Outgoing) -> Incoming | Silence:
        """Send, at most once, and return the answer's head, or a silence and what it proves.

        A write takes a connection of its own where policy says `connections: fresh`. On
        cancellation the connection is aborted and `outgoing.sent` says what to record.

        Raises:
            Malformed: the target cannot be put into a request line; nothing was sent.
            InvariantError: this very request was sent before, or would not be one request.
        """
        if outgoing.sent:
            raise InvariantError(f"the same {outgoing.method} request would be sent again")
        line = self._lines.get(destination.name)
        if line is None or not line.leads_to(destination):
            line = self._replace(destination)
        exchange = self._exchange(outgoing)
        handed_over = False
        try:
            await self._send(line, destination, exchange)
            await exchange.head()
            if not exchange.has_answer:
                return Silence(outgoing.sent, exchange.failure or "unreadable-answer")
            handed_over = True
            return Incoming(exchange)
        except (InvariantError, Malformed):
            raise
        except (Held, NotDialled) as known:
            return Silence(outgoing.sent, known.reason)
        except Exception as error:  # whatever broke: the flag says what it proves
            _log.warning("request failed", sent=outgoing.sent, **_where(error))
            return Silence(outgoing.sent, "write-failed" if outgoing.sent else "not-sent")
        finally:
            if not handed_over:
                exchange.fail("given-up")

    async def close(self) -> None:
        """End every connection: idle ones politely, those in use by a reset."""
        self._closed = True
        lines = [*self._lines.values(), *self._retired]
        self._lines.clear()
        self._retired.clear()
        if self._watch is not None:
            for exchange in self._watch.watched:
                exchange.fail("aborted")
            self._watch.close()
        for line in lines:
            line.retire()
        await _until_gone(lines)

    async def _send(self, line: Line, destination: Destination, exchange: Exchange) -> None:
        """Find a connection and write to it. From the pool's, unfit ones are passed over: not a
        byte is written to them. Should a fresh one be unfit, that is the end of it."""
        if self._closed:
            raise Held
        outgoing = exchange.outgoing
        body = outgoing.body
        single = outgoing.send_by_s is not None and destination.connections is Connections.FRESH
        if isinstance(body, bytes):
            head = self._head(line, destination, outgoing, len(body), single)
        elif body is None:
            head = self._head(line, destination, outgoing, None, single)
        else:
            self._head(line, destination, outgoing, 0, single)  # before the disk is touched
            exchange.spool = await BodyFile.open(body)
            head = self._head(line, destination, outgoing, exchange.spool.size, single)
        while not single and (known := line.idle()) is not None:
            if _sent_on(known, exchange, head):
                return
        left_s = outgoing.deadline_s - self._clock.boot_s()
        connection = await line.dial(left_s, single=single)
        if self._closed or not _sent_on(connection, exchange, head):
            connection.reset()
            raise Held

    def _head(
        self,
        line: Line,
        destination: Destination,
        outgoing: Outgoing,
        length_bytes: int | None,
        single: bool,
    ) -> bytes:
        try:
            return request_head(
                method=outgoing.method,
                target=destination.prefix + outgoing.target,
                host=line.host,
                headers=outgoing.headers,
                length_bytes=length_bytes,
                closes=single,
            )
        except Unwritable as error:
            _log.warning("request cannot be written", why=str(error))
            raise Held from None

    def _exchange(self, outgoing: Outgoing) -> Exchange:
        loop, watch = self._loop, self._watch
        if loop is None or watch is None:
            loop = self._loop = asyncio.get_running_loop()
            watch = self._watch = Watch(loop, self._tidy)
        return Exchange(self._clock, watch, loop, outgoing)

    def _replace(self, destination: Destination) -> Line:
        """Open a line as the policy now has it; an old one ends with its last exchange."""
        if old := self._lines.get(destination.name):
            old.retire()
            self._retired.append(old)
        self._retired = [line for line in self._retired if line.connections]
        line = self._lines[destination.name] = Line(destination, self._clock, self._tls)
        return line

    def _tidy(self) -> bool:
        """Close what lay idle too long; return whether there is more to come back for."""
        left = False
        for line in self._lines.values():
            left = line.close_idle() or left
        return left


def _sent_on(connection: Connection, exchange: Exchange, head: bytes) -> bool:
    """Whether it was written. An unfit connection is dropped, and nothing was written to it."""
    try:
        exchange.send(connection, head)
    except DirtyConnection:
        connection.reset()
        return False
    except BaseException:
        connection.reset()
        raise
    return True


async def _until_gone(lines: list[Line]) -> None:
    """Wait for the farewells; drop those that take too long."""
    try:
        async with asyncio.timeout(_FAREWELL_S):
            for line in lines:
                await line.until_gone()
    except TimeoutError:
        for line in lines:
            for connection in line.connections:
                connection.reset()
        await asyncio.sleep(0)  # the loop closes what was reset


def _where(error: Exception) -> dict[str, str]:
    """What to log of an error nobody foresaw. Not the traceback: a renderer that shows local
    variables would show the destination's credential."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return {"error": type(error).__name__, "at": at}
