"""The one way out: each request is sent once, and what is known of it afterwards is a value.

Nothing here retries, follows a redirect, keeps a cookie or decompresses. Whether a request was
sent is decided by the flag that is set right before its first byte is written, never by the class
of an exception: "connection refused" and "reset after the effect" are the same class.
"""

from __future__ import annotations

import asyncio
import errno
import re
import ssl
import traceback
import weakref
from pathlib import Path
from typing import Final

import aiohttp
import structlog
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from gateway.clock import Clock
from gateway.core.classify import Silence
from gateway.core.errors import InvariantError, Malformed
from gateway.core.policy import Connections, Destination
from gateway.outbound.body import Spooled, Whole
from gateway.outbound.exchange import (
    DirtyConnection,
    Exchange,
    Held,
    OnceRequest,
    Outgoing,
    SendFailed,
)
from gateway.outbound.incoming import Incoming

IDLE_S: Final = 2.0
"""A connection that lay idle longer is not used again: destinations drop them, and a request
written into a dropped one is a false unknown."""
_HEAD_LINE_MAX_BYTES: Final = 65536
_HEAD_FIELDS_MAX: Final = 512
_TARGET: Final = re.compile(r"[!\"$-~]*\Z")
_EMPTY_BODY: Final = {"Content-Length": "0"}

_log = structlog.get_logger(__name__)


class _NoCookies(aiohttp.DummyCookieJar):
    """Reads no Set-Cookie either; a malformed one must not cost the answer."""

    def update_cookies_from_headers(self, headers: object, response_url: URL) -> None:
        del headers, response_url


def _dial_limit(seconds: float) -> aiohttp.ClientTimeout:
    """`connect` covers DNS, TCP and TLS; the exchange's own deadline covers the rest."""
    return aiohttp.ClientTimeout(total=None, connect=seconds, sock_connect=seconds)


class _Line:
    """The connections to one destination, as its policy has them now."""

    def __init__(self, destination: Destination, tls: ssl.SSLContext | None) -> None:
        self.destination = destination
        self.host = f"[{destination.host}]" if ":" in destination.host else destination.host
        self.in_use = 0
        self.carried: weakref.WeakKeyDictionary[ResponseHandler, int] = weakref.WeakKeyDictionary()
        self.connect_s = destination.limits.connect_ms / 1000
        self._timeout = _dial_limit(self.connect_s)
        self._tls = tls
        self._sessions: dict[Connections, aiohttp.ClientSession] = {}

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

    def url(self, target: str, prefix: str) -> URL:
        """The pinned host and, byte for byte, the target behind the destination's prefix.

        Raises:
            Malformed: the target has bytes that a request line cannot carry.
        """
        if not _TARGET.match(target):
            raise Malformed(f"The target {target[:200]!r} has bytes that must be percent-encoded.")
        whole = prefix + target
        if not whole.startswith("/"):
            whole = "/" + whole
        known = self.destination
        return URL.build(
            scheme=known.scheme, host=self.host, port=known.port, path=whole, encoded=True
        )

    def timeout(self, left_s: float) -> aiohttp.ClientTimeout:
        """The limit on dialling; tighter when less time is left than policy allows for it."""
        if left_s >= self.connect_s:
            return self._timeout
        return _dial_limit(max(left_s, 0.001))  # zero would mean no limit

    def session(self, kind: Connections) -> aiohttp.ClientSession:
        known = self._sessions.get(kind)
        if known is None:
            known = self._sessions[kind] = self._open(kind)
        return known

    def _open(self, kind: Connections) -> aiohttp.ClientSession:
        tls = self._tls if self._tls is not None else True
        if kind is Connections.FRESH:
            connector = aiohttp.TCPConnector(limit=0, ssl=tls, force_close=True)
        else:
            connector = aiohttp.TCPConnector(limit=0, ssl=tls, keepalive_timeout=IDLE_S)
        return aiohttp.ClientSession(
            connector=connector,
            request_class=OnceRequest,
            cookie_jar=_NoCookies(),
            auto_decompress=False,
            trust_env=False,
            timeout=self._timeout,
            max_line_size=_HEAD_LINE_MAX_BYTES,
            max_field_size=_HEAD_LINE_MAX_BYTES,
            max_headers=_HEAD_FIELDS_MAX,
        )

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()


class Outbound:
    """All traffic to destinations. One per gateway process, used on one event loop."""

    def __init__(self, clock: Clock, *, tls: ssl.SSLContext | None = None) -> None:
        """`tls` replaces the platform's trust store, for destinations with a private CA."""
        self._clock = clock
        self._tls = tls
        self._lines: dict[str, _Line] = {}
        self._retired: list[_Line] = []

    async def send_once(self, destination: Destination, outgoing: Outgoing) -> Incoming | Silence:
        """Send, at most once, and return the answer's head, or a silence and what it proves.

        A write takes a connection of its own where policy says `connections: fresh`. On
        cancellation the connection is aborted and `outgoing.sent` says what to record.

        Raises:
            Malformed: the target cannot be put into a request line; nothing was sent.
            InvariantError: this very request was sent before.
        """
        if outgoing.sent:
            raise InvariantError(f"the same {outgoing.method} request would be sent again")
        line = self._lines.get(destination.name)
        if line is None or not line.leads_to(destination):
            line = await self._replace(destination)
        url = line.url(outgoing.target, destination.prefix)
        is_write = outgoing.send_by_s is not None
        kind = destination.connections if is_write else Connections.REUSE
        exchange = Exchange(self._clock, outgoing, line.carried)
        exchange.watch()
        line.in_use += 1
        handed_over = False
        try:
            response = await self._dial_and_send(line, kind, url, exchange)
            if 200 <= response.status <= 599:
                handed_over = True
                return Incoming(response, exchange, lambda: self._free(line))
            response.close()
            return Silence(sent=True, reason="bad-status")
        except InvariantError:
            raise
        except Exception as error:  # whatever broke: the flag says what it proves
            return Silence(outgoing.sent, _reason(error, exchange))
        finally:
            if not handed_over:
                exchange.end(abort=True)
                self._free(line)

    async def close(self) -> None:
        """Close every connection, also those in use."""
        lines = [*self._lines.values(), *self._retired]
        self._lines.clear()
        self._retired.clear()
        for line in lines:
            await line.close()

    async def _dial_and_send(
        self, line: _Line, kind: Connections, url: URL, exchange: Exchange
    ) -> aiohttp.ClientResponse:
        """Send; if a pooled connection turns out to be unfit, once more on one of its own (not a
        byte was written to the first)."""
        if isinstance(exchange.outgoing.body, Path):
            exchange.file = await asyncio.to_thread(open, exchange.outgoing.body, "rb")
        try:
            return await self._request(line, kind, url, exchange)
        except DirtyConnection:
            return await self._request(line, Connections.FRESH, url, exchange)

    async def _request(
        self, line: _Line, kind: Connections, url: URL, exchange: Exchange
    ) -> aiohttp.ClientResponse:
        outgoing = exchange.outgoing
        body = outgoing.body
        data: aiohttp.Payload | None = None
        if exchange.file is not None:
            data = Spooled(exchange.file)
        elif isinstance(body, bytes) and body:
            data = Whole(body)
        response = await line.session(kind).request(
            outgoing.method,
            url,
            data=data,
            headers=_EMPTY_BODY if body == b"" else None,
            allow_redirects=False,
            timeout=line.timeout(outgoing.deadline_s - self._clock.boot_s()),
            middlewares=(exchange.guard,),
        )
        if not exchange.cleared:  # an answer that was there before the question was asked
            response.close()
            outgoing.sent = False
            raise DirtyConnection
        return response

    async def _replace(self, destination: Destination) -> _Line:
        """Open a line as the policy now has it; an old one ends with its last exchange."""
        if old := self._lines.get(destination.name):
            self._retired.append(old)
        line = self._lines[destination.name] = _Line(destination, self._tls)
        await self._close_retired()
        return line

    async def _close_retired(self) -> None:
        idle = [line for line in self._retired if not line.in_use]
        self._retired = [line for line in self._retired if line.in_use]
        for line in idle:
            await line.close()

    def _free(self, line: _Line) -> None:
        line.in_use -= 1


def _reason(error: Exception, exchange: Exchange) -> str:
    """Name what happened, for people; what it proves is said by the flag."""
    if isinstance(error, Held):
        return error.reason
    if exchange.outgoing.sent:
        return "deadline" if exchange.expired else _reason_sent(error)
    return _reason_not_sent(error)


def _reason_not_sent(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "dns"
        case aiohttp.ClientSSLError() | aiohttp.ServerFingerprintMismatch() | ssl.SSLError():
            return "tls"
        case TimeoutError():
            return "connect-timeout"
        case aiohttp.ClientConnectorError():
            return "connect-refused" if error.errno == errno.ECONNREFUSED else "unreachable"
        case _:
            _log.warning("request not sent", **_where(error))
            return "not-sent"


def _reason_sent(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, SendFailed) else error
    match cause:
        case aiohttp.ServerDisconnectedError():
            return "closed-without-answer"
        case aiohttp.ClientOSError() if cause.errno == errno.ETIMEDOUT:
            return "deadline"  # the kernel gave up in our stead (TCP_USER_TIMEOUT)
        case aiohttp.ClientOSError() if isinstance(cause.__cause__, OSError):
            return "write-failed" if "Can not write" in str(cause) else "reset"
        case aiohttp.ClientOSError():
            return "reset"
        case aiohttp.ClientConnectionError():
            return "write-failed"
        case aiohttp.ClientError():
            # ClientResponseError comes with status 400 here. It is not the destination's answer:
            # it says that the answer could not be read.
            return "unreadable-answer"
        case _:
            _log.warning("exchange failed", **_where(error))
            return "unreadable-answer"


def _where(error: Exception) -> dict[str, str]:
    """What to log of an error nobody foresaw. Not the traceback: a renderer that shows local
    variables would show the destination's credential."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return {"error": type(error).__name__, "at": at}
