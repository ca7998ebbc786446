"""One request's way onto the wire, which it takes once, and its answer's way back.

The theory is short. There is one moment before which nothing has happened and after which anything
may have: the write of the head's first byte. Right before it, with nothing awaited in between,
comes the last look (is it still time, is the connection clean), then `sent` turns true, then head
and body go out in one write. So `sent` false is proof, and `sent` true is never retracted. Nothing
here sends again, for any method: there is no code that could.
"""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.clock import Clock
from gateway.core.errors import InvariantError
from gateway.outbound.connection import Connection
from gateway.outbound.reply import Reply, Unreadable
from gateway.outbound.upload import BodyFile
from gateway.outbound.watch import Watch

BUFFER_MAX_BYTES: Final = 256 * 1024
"""How much of an answer waits here for its reader before the destination is made to wait."""
_ONE_WRITE_MAX_BYTES: Final = 256 * 1024


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
    """The state of one exchange between its last look and the end of its answer.

    When `over`, `failure` says what broke it, or is None if the answer came whole.
    """

    __slots__ = (
        "_clock", "_ends_s", "_idle_s", "_loop", "_upload", "_waiter", "_waits_since_s", "_watch",
        "connection", "failure", "outgoing", "over", "reply", "spool", "timer",
    )  # fmt: skip

    def __init__(
        self, clock: Clock, watch: Watch, loop: asyncio.AbstractEventLoop, outgoing: Outgoing
    ) -> None:
        self._clock = clock
        self._watch = watch
        self._loop = loop
        self._ends_s = 0.0
        self._idle_s: float | None = None
        self._waits_since_s: float | None = None  # since when a chunk of the answer is awaited
        self._waiter: asyncio.Future[None] | None = None
        self._upload: asyncio.Task[None] | None = None
        self.outgoing = outgoing
        self.reply = Reply(outgoing.method)
        self.connection: Connection | None = None
        self.spool: BodyFile | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.failure: str | None = None
        self.over = False

    # -- out

    def send(self, connection: Connection, head: bytes) -> None:
        """Take the last look, and write. Nothing may be awaited in here.

        Raises:
            Held: nothing was written. DirtyConnection: another connection may do.
        """
        outgoing = self.outgoing
        now_s = self._clock.boot_s()
        connection.give_up_within(max(1, int((outgoing.deadline_s - now_s) * 1000)))
        if not connection.is_fit():
            raise DirtyConnection
        if outgoing.sent or self.over:
            raise InvariantError(f"the same {outgoing.method} request would be sent again")
        body = self._first_of_body()
        if len(body) <= _ONE_WRITE_MAX_BYTES:
            head, body = head + body, b""
        now_s = self._clock.boot_s()
        send_by_s = outgoing.send_by_s
        if now_s >= outgoing.deadline_s or (send_by_s is not None and now_s > send_by_s):
            raise SendBudgetSpent
        connection.lend(self)
        self.connection = connection
        self._ends_s = self._loop.time() + outgoing.deadline_s - now_s
        outgoing.sent = True
        connection.write(head)
        if body:
            connection.write(body)
        self._watch.add(self)
        if self.spool is not None and self.spool.left:
            self._upload = asyncio.create_task(self._pour(self.spool, connection))

    def _first_of_body(self) -> bytes:
        if self.spool is not None:
            return self.spool.first
        body = self.outgoing.body
        return body if isinstance(body, bytes) else b""

    async def _pour(self, spool: BodyFile, connection: Connection) -> None:
        try:
            await spool.pour(connection)
        except (InvariantError, OSError, ValueError):  # it stays unfinished: nobody can take it
            self.fail("write-failed")  # for whole

    # -- back

    def received(self, data: bytes) -> None:
        reply = self.reply
        try:
            reply.feed(data)
        except Unreadable:
            self.fail("truncated" if reply.status else "unreadable-answer")
            return
        if not reply.status:
            return
        if not self.has_answer:
            self.fail("bad-status")
        elif reply.done:
            self._finish()
        else:
            if reply.size > BUFFER_MAX_BYTES and self.connection is not None:
                self.connection.hold()
            self._wake()

    def lost(self, error: Exception | None) -> None:
        """The peer ended the connection, politely if there is no error."""
        if self.over:
            return
        reply = self.reply
        if error is None and reply.end_of_file():
            self._finish()
        elif isinstance(error, TimeoutError) or getattr(error, "errno", None) == errno.ETIMEDOUT:
            self.fail("deadline")  # the kernel gave up in our stead (TCP_USER_TIMEOUT)
        elif error is None:
            self.fail("truncated" if reply.status else "closed-without-answer")
        elif isinstance(error, BrokenPipeError) and not reply.status:
            self.fail("write-failed")
        else:
            self.fail("reset")

    def fail(self, reason: str) -> None:
        """End it: after this nothing of the request can be written any more."""
        if not self.over:
            self.failure = reason
            if self.connection is not None:
                self.connection.reset()
            self._end()

    def _finish(self) -> None:
        connection, reply = self.connection, self.reply
        if connection is not None:
            uploads = self._upload is not None and not self._upload.done()
            if uploads or reply.surplus or connection.holds_unsent:
                # An answer that came before the request was all out: the rest stays here.
                connection.reset()
            else:
                connection.release(reusable=reply.keep_alive)
        self._end()

    def _end(self) -> None:
        self.over = True
        self.connection = None
        self.reply.drop()
        self._watch.remove(self)
        if self._upload is not None:
            self._upload.cancel()
        if self.spool is not None:
            self.spool.close()
        self._wake()

    # -- waiting

    async def head(self) -> None:
        """Wait for the answer's head, or the end."""
        while not self.over and not self.reply.status:
            await self._wait(None)

    @property
    def has_answer(self) -> bool:
        """Whether there is a head to go by, whatever has become of the body."""
        return 200 <= self.reply.status <= 599

    async def some(self, until_s: float | None) -> bool:
        """Wait for a piece of the body, or the end; False if `until_s` (loop time) comes first."""
        while not self.over and not self.reply.pieces:
            if until_s is not None and self._loop.time() >= until_s:
                return False
            await self._wait(until_s)
        return True

    def take(self) -> bytes:
        """Return the body as far as it is here, and let more come."""
        body = self.reply.take()
        if self.connection is not None:
            self.connection.go_on()
        return body

    def now_s(self) -> float:
        """The event loop's time."""
        return self._loop.time()

    async def _wait(self, until_s: float | None) -> None:
        waiter = self._waiter = self._loop.create_future()
        self._waits_since_s = self._loop.time()
        timer = None if until_s is None else self._loop.call_at(until_s, self._wake)
        try:
            await waiter
        finally:
            self._waiter = self._waits_since_s = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- time

    def stream(self, idle_s: float) -> None:
        """From here on silence ends the exchange, not its length."""
        self._idle_s = idle_s
        if not self.over:
            self._watch.remove(self)
            self._watch.add(self)

    def due_s(self) -> float | None:
        """When to look whether it is late, in loop time; None while nobody waits."""
        if self._idle_s is None:
            return self._ends_s
        return None if self._waits_since_s is None else self._waits_since_s + self._idle_s

    def is_late(self) -> bool:
        due_s = self.due_s()
        if due_s is not None and self._loop.time() >= due_s:
            return True
        return self._idle_s is None and self._clock.boot_s() >= self.outgoing.deadline_s

    def expire(self) -> None:
        self.fail("deadline")
