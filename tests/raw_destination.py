"""A destination on bare sockets: records every byte, and answers as the test's script says.

    async with RawDestination() as crm:
        crm.on("/notes", rst, answer(201))  # the first request, then every later one
        ...
        assert [r.method for r in crm.received] == ["POST"]

A behaviour is `async (request, wire) -> None`. It keeps the connection open unless it closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from gateway.outbound.transport import reset

PATIENCE_S = 5.0


@dataclass(slots=True)
class Received:
    """One request as it came. `index` counts the requests of its connection from 0."""

    connection: int
    index: int
    head: bytes
    body: bytes = b""
    complete: bool = False

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1")

    @property
    def method(self) -> str:
        return self.line.split(" ", 1)[0]

    @property
    def target(self) -> str:
        return self.line.split(" ", 1)[1].rsplit(" ", 1)[0]

    @property
    def path(self) -> str:
        return self.target.split("?", 1)[0]

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines if line)
        return [(name, value.strip()) for name, _, value in pairs]

    def header(self, name: str) -> str | None:
        """The values of one field, joined by a comma and a blank; None where it is absent."""
        values = [value for known, value in self.headers if known.lower() == name.lower()]
        return ", ".join(values) if values else None


@dataclass(slots=True)
class Wire:
    """The destination's side of one connection. `ended` is how the peer left: fin or rst."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    raw: bytearray = field(default_factory=bytearray)
    ended: str | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_open(self) -> bool:
        return self.ended is None and not self.writer.is_closing()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def fin(self) -> None:
        self.writer.close()

    def rst(self) -> None:
        reset(self.writer.transport)

    def at_once(self, data: bytes = b"", *, fin: bool = False) -> None:
        """Put bytes or an end of file into the peer's kernel now, before any loop turns."""
        fd = os.dup(self.writer.get_extra_info("socket").fileno())
        with socket.socket(fileno=fd) as same:
            if data:
                same.send(data)
            if fin:
                same.shutdown(socket.SHUT_WR)

    async def take(self) -> bytes:
        """Read what there is; b"" once the peer has gone."""
        data = await self.reader.read(65536)
        self.raw += data
        return data

    async def until_gone(self) -> None:
        """Read on, without answering, until the peer leaves."""
        while await self.take():
            pass
        raise EOFError


Behaviour = Callable[[Received, Wire], Awaitable[None]]


class RawDestination:
    """See the module's docstring. Behaviours are picked by path, in order; the last one stays."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[Received] = []
        self.wires: list[Wire] = []
        self.default: Behaviour = answer(200)
        self._tls = tls
        self._scripts: dict[str, list[Behaviour]] = {}
        self._news = asyncio.Condition()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.host = "127.0.0.1"
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
        for wire in self.wires:
            wire.writer.transport.abort()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    @property
    def bytes_received(self) -> int:
        return sum(len(wire.raw) for wire in self.wires)

    def on(self, path: str, *behaviours: Behaviour) -> None:
        """Script the requests to `path`, in order; the last behaviour serves all later ones."""
        self._scripts[path] = list(behaviours)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds()`; it is asked again whenever something happens here.

        Raises:
            TimeoutError: it does not hold within a few seconds.
        """
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(holds)

    async def until_received(self, count: int) -> None:
        await self.until(lambda: len(self.received) >= count)

    async def how_it_ended(self, connection: int) -> str | None:
        """Wait for the peer to leave a connection; return `fin` or `rst`."""
        async with asyncio.timeout(PATIENCE_S):
            await self.wires[connection].over.wait()
        return self.wires[connection].ended

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        wire = Wire(len(self.wires), reader, writer)
        self.wires.append(wire)
        try:
            index = 0
            while wire.is_open:
                await self._one(wire, index)
                index += 1
        except (EOFError, asyncio.IncompleteReadError):
            wire.ended = "fin"
        except ConnectionError:
            wire.ended = "rst"
        except asyncio.CancelledError:  # close() ends it; a server task must not look failed
            pass
        finally:
            wire.over.set()
            writer.close()
            self._serving.discard(task)
            with contextlib.suppress(asyncio.CancelledError):
                await self._tell()

    async def _one(self, wire: Wire, index: int) -> None:
        head, rest = await _head(wire)
        request = Received(wire.number, index, head)
        self.received.append(request)
        behaviour = self._pick(request.path)
        if getattr(behaviour, "early", False):
            request.body = rest
        else:
            await self._tell()
            await _body(request, wire, rest)
            request.complete = True
        await self._tell()
        await behaviour(request, wire)
        await self._tell()

    def _pick(self, path: str) -> Behaviour:
        script = self._scripts.get(path)
        if not script:
            return self.default
        return script.pop(0) if len(script) > 1 else script[0]


async def _head(wire: Wire) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = await wire.take()
        if not chunk:
            raise EOFError
        data += chunk
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


async def _body(request: Received, wire: Wire, rest: bytes) -> None:
    """Read the body by its framing; a chunked one is kept with its framing."""
    length = request.header("Content-Length")
    chunked = "chunked" in (request.header("Transfer-Encoding") or "")
    request.body = rest
    while (
        not request.body.endswith(b"0\r\n\r\n") if chunked else len(request.body) < int(length or 0)
    ):
        chunk = await wire.take()
        if not chunk:
            raise EOFError
        request.body += chunk


def rendered(
    status: int, body: bytes = b"", headers: Iterable[tuple[str, str]] = (), reason: str = "Said"
) -> bytes:
    """One answer with an exact Content-Length, as bytes."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    if status >= 200 and status not in (204, 304):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def answer(
    status: int, body: bytes = b"", headers: Iterable[tuple[str, str]] = (), reason: str = "Said"
) -> Behaviour:
    """Answer and keep the connection."""
    return raw(rendered(status, body, headers, reason))


def raw(data: bytes) -> Behaviour:
    """Send these very bytes and keep the connection."""

    async def behave(request: Received, wire: Wire) -> None:
        del request
        await wire.send(data)

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Do several things for one request."""

    async def behave(request: Received, wire: Wire) -> None:
        for each in behaviours:
            await each(request, wire)

    return behave


def early(behaviour: Behaviour) -> Behaviour:
    """Act as soon as the head is there, with the body unread; then read till the peer goes."""

    async def behave(request: Received, wire: Wire) -> None:
        await behaviour(request, wire)
        if wire.is_open:
            await wire.until_gone()

    behave.early = True  # type: ignore[attr-defined]
    return behave


async def fin(request: Received, wire: Wire) -> None:
    """Hang up politely without an answer."""
    del request
    wire.fin()


async def rst(request: Received, wire: Wire) -> None:
    """Reset the connection without an answer."""
    del request
    wire.rst()


async def silent(request: Received, wire: Wire) -> None:
    """Never answer; stay until the peer leaves."""
    del request
    await wire.until_gone()


partial = in_turn(raw(b"HTTP/1.1 200 OK\r\nContent-Le"), fin)
"""Half a head, then hang up."""

garbage = in_turn(raw(b"\x16\x03\x01 what is this\r\n\r\n"), fin)
"""Something that is no HTTP."""

continue_then_close = in_turn(raw(b"HTTP/1.1 100 Continue\r\n\r\n"), fin)
"""An interim answer, then nothing."""


def truncate(status: int, body: bytes, promised: int, *, by_reset: bool = False) -> Behaviour:
    """Promise a longer body than is sent."""
    head = f"HTTP/1.1 {status} Said\r\nContent-Length: {promised}\r\n\r\n".encode()
    return in_turn(raw(head + body), rst if by_reset else fin)


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n", status: int = 200) -> Behaviour:
    """A chunked answer. `end` b"" leaves it unfinished and hangs up."""
    head = f"HTTP/1.1 {status} Said\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return in_turn(raw(head + framed + end), *(() if end else (fin,)))


def until_close(status: int, body: bytes, *, by_reset: bool = False) -> Behaviour:
    """A body that ends with the connection."""
    head = f"HTTP/1.1 {status} Said\r\n\r\n".encode()
    return in_turn(raw(head + body), rst if by_reset else fin)


def drip(pieces: Iterable[bytes], *, gate: asyncio.Event | None = None) -> Behaviour:
    """Send the pieces one by one, each after a turn of the loop, or once `gate` is set."""
    kept = list(pieces)

    async def behave(request: Received, wire: Wire) -> None:
        del request
        for piece in kept:
            await wire.send(piece)
            if gate is None:
                await asyncio.sleep(0)
            else:
                await gate.wait()
                gate.clear()

    return behave


def sse(*events: bytes, gate: asyncio.Event | None = None, end: bool = True) -> Behaviour:
    """An event stream, one event per piece; it stays open unless `end`."""
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    framed = [b"%x\r\n%s\r\n" % (len(event), event) for event in events]
    last = raw(b"0\r\n\r\n") if end else silent
    return in_turn(raw(head), drip(framed, gate=gate), last)
