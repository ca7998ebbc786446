"""A destination's answer, as far as it has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from gateway.outbound.exchange import Exchange
from gateway.outbound.headers import Headers, facts_of, reply_headers


class Incoming:
    """The head of an answer, and its body in chunks.

    Read with `read`, then `chunks` for what is left; neither raises for network trouble. When
    both are exhausted, either `complete` is true or `broken` says why the body was cut. Whoever
    stops earlier calls `abort`.
    """

    __slots__ = (
        "_exchange", "_facts", "_headers", "_reply", "broken", "complete", "status",
    )  # fmt: skip

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._reply = exchange.reply
        self._headers: Headers | None = None
        self._facts: Mapping[str, Sequence[str]] | None = None
        self.status = exchange.reply.status
        self.complete = False
        self.broken: str | None = None
        if exchange.over and not exchange.reply.pieces:
            self._end()

    @property
    def headers(self) -> Headers:
        """The fields to relay."""
        if self._headers is None:
            self._headers = reply_headers(self._reply.fields)
        return self._headers

    @property
    def facts_headers(self) -> Mapping[str, Sequence[str]]:
        """All fields with names in lower case, for classification."""
        if self._facts is None:
            self._facts = facts_of(self._reply.fields)
        return self._facts

    @property
    def length_bytes(self) -> int | None:
        """What Content-Length says; None without one."""
        text = self.facts_headers.get("content-length", ("",))[0]
        return int(text) if text.isdigit() else None

    @property
    def delimited(self) -> bool:
        """Whether the end of the body can be told from a cut: a body that ends with the
        connection looks complete either way."""
        return self._reply.delimited

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events without an end to wait for."""
        for value in self.facts_headers.get("content-type", ()):
            if value.lower().startswith("text/event-stream"):
                return True
        return False

    @property
    def ended(self) -> bool:
        return self.complete or self.broken is not None

    def stream(self, idle_s: float) -> None:
        """Lift the deadline: from here on only `idle_s` seconds without a byte end it."""
        self._exchange.stream(idle_s)

    async def read(self, limit_bytes: int, patience_s: float | None = None) -> bytes:
        """Read until the end, or until more than `limit_bytes` have come (by up to one chunk),
        or for `patience_s`; unless `ended`, `chunks` goes on from there."""
        exchange = self._exchange
        if exchange.over:  # the usual case: all of it came at once
            return b"" if self.ended else self._take()
        parts: list[bytes] = []
        size = 0
        until_s = None if patience_s is None else exchange.now_s() + patience_s
        while size <= limit_bytes and not self.ended:
            try:
                chunk = await self._next(until_s)
            except asyncio.CancelledError:
                self.abort()
                raise
            if chunk is None:
                break
            parts.append(chunk)
            size += len(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Each piece of the body as soon as it is there. Who is cancelled over it may go on with
        another call, or has to `abort`."""
        while not self.ended:
            if chunk := await self._next(None):
                yield chunk

    def abort(self) -> None:
        """Drop the connection, with whatever is still under way in either direction."""
        if not self.ended:
            self._exchange.fail("aborted")
            self._reply.take()
            self.broken = self._exchange.failure or "aborted"

    async def _next(self, until_s: float | None) -> bytes | None:
        """The next piece; b"" only at the end, which it notes; None if `until_s` (loop time)
        came first."""
        return self._take() if await self._exchange.some(until_s) else None

    def _take(self) -> bytes:
        """What is here. With the last of it comes the end."""
        body = self._exchange.take()
        if self._exchange.over:
            self._end()
        return body

    def _end(self) -> None:
        self.broken = self._exchange.failure
        self.complete = self.broken is None
