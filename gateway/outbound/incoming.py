"""A destination's answer, as far as it has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import aiohttp

from gateway.outbound.exchange import Exchange
from gateway.outbound.headers import Headers, reply_headers

_NO_BODY = frozenset({204, 304})


class Incoming:
    """The head of an answer, and its body in chunks.

    Read with `read`, then `chunks` for what is left; neither raises for network trouble. When
    both are exhausted, either `complete` is true or `broken` says why the body was cut. Whoever
    stops earlier calls `abort`.
    """

    __slots__ = (
        "_exchange", "_facts", "_headers", "_on_end", "_response",
        "broken", "complete", "reason", "status",
    )  # fmt: skip

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        exchange: Exchange,
        on_end: Callable[[], None],
    ) -> None:
        self._response = response
        self._exchange = exchange
        self._on_end = on_end
        self._headers: Headers | None = None
        self._facts: Mapping[str, Sequence[str]] | None = None
        self.status = response.status
        self.reason = response.reason or ""
        self.complete = False
        self.broken: str | None = None
        if response.content.at_eof():
            self._end(None)

    @property
    def raw_headers(self) -> Sequence[tuple[bytes, bytes]]:
        return self._response.raw_headers

    @property
    def headers(self) -> Headers:
        """The fields to relay."""
        if self._headers is None:
            self._headers = reply_headers(self.raw_headers)
        return self._headers

    @property
    def facts_headers(self) -> Mapping[str, Sequence[str]]:
        """All fields with names in lower case, for classification."""
        if self._facts is None:
            facts: dict[str, list[str]] = {}
            for name, value in self.raw_headers:
                lower = name.decode("latin-1").lower()
                facts.setdefault(lower, []).append(value.decode("utf-8", "replace"))
            self._facts = facts
        return self._facts

    @property
    def delimited(self) -> bool:
        """Whether the end of the body can be told from a cut: a body that ends with the
        connection looks complete either way."""
        facts = self.facts_headers
        return (
            "content-length" in facts
            or "transfer-encoding" in facts
            or self.status in _NO_BODY
            or self._response.method == "HEAD"
        )

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events without an end to wait for."""
        kind = self.facts_headers.get("content-type", ())
        return any(value.lower().startswith("text/event-stream") for value in kind)

    @property
    def ended(self) -> bool:
        return self.complete or self.broken is not None

    def stream(self, idle_s: float) -> None:
        """Lift the deadline: from here on only `idle_s` seconds without a byte end it."""
        self._exchange.stream(idle_s)

    async def read(self, limit_bytes: int, patience_s: float | None = None) -> bytes:
        """Read until the end, or until more than `limit_bytes` have come (by up to one chunk),
        or for `patience_s`; unless `ended`, `chunks` goes on from there."""
        parts: list[bytes] = []
        size = 0
        until_s = None if patience_s is None else self._exchange.now_s() + patience_s
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
            if chunk := await self._next():
                yield chunk

    def abort(self) -> None:
        """Drop the connection, with whatever is still under way in either direction."""
        if not self.ended:
            self._cut("aborted")

    async def _next(self, until_s: float | None = None) -> bytes | None:
        """The next piece; b"" only at the end, which it notes; None if `until_s` (loop time)
        came first."""
        content = self._response.content
        exchange = self._exchange
        exchange.waiting()
        try:
            if until_s is None:
                chunk = await content.readany()
            else:
                async with asyncio.timeout_at(until_s):
                    chunk = await content.readany()
        except TimeoutError:
            if until_s is not None and exchange.now_s() >= until_s:
                return None
            self._cut("truncated")
            return b""
        except (aiohttp.ClientError, OSError) as error:
            reset_by_peer = isinstance(error.__cause__, ConnectionResetError)
            self._cut("reset" if reset_by_peer else "truncated")
            return b""
        exchange.waits_since_s = None
        if content.at_eof():
            if exchange.expired:
                self._end("deadline")
            elif exchange.was_reset and not self.delimited:
                self._end("reset")  # the library takes any end for the end of such a body
            else:
                self._end(None)
        return chunk

    def _cut(self, why: str) -> None:
        self._end("deadline" if self._exchange.expired else why)

    def _end(self, broken: str | None) -> None:
        self.broken = broken
        self.complete = broken is None
        # An answer that came before the request was all out: the rest must not be delivered.
        self._exchange.end(abort=broken is not None or self._exchange.still_uploads)
        if broken is not None:
            self._response.close()
        self._on_end()
