"""A caller on a bare socket: sends exact bytes, and reads answers without anybody's help.

async with RawCaller(house.gateway.port) as caller:
    await caller.send(request("POST", "/d/crm/notes", body=b"{}"))
    answer = await caller.answer()
    assert answer.status == 201 and answer.complete
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from gateway.outbound.transport import reset

PATIENCE_S = 8.0
READS = frozenset({"GET", "HEAD"})
FENCE = (b"Fence-Function: relatorio", b"Fence-Term: 7", b"Fence-Holder: ana#1")
_STATUS_LINE = re.compile(rb"HTTP/[0-9]\.[0-9] ([1-5][0-9][0-9]) [^\r\n]*\Z")


@dataclass(slots=True)
class RawAnswer:
    """An answer as its bytes say. `complete`: its framing was finished. Status 0: none came."""

    status: int = 0
    fields: list[tuple[str, bytes]] = field(default_factory=list)
    body: bytes = b""
    complete: bool = False
    interim: list[int] = field(default_factory=list)
    head: bytes = b""

    def values(self, name: str) -> list[bytes]:
        return [value for known, value in self.fields if known == name.lower()]

    def value(self, name: str) -> str | None:
        found = self.values(name)
        return found[0].decode() if len(found) == 1 else None


class RawCaller:
    """One connection to the gateway."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=1 << 22
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def leave(self) -> None:
        """Reset the connection, as a caller does that is killed."""
        reset(self.writer.transport)

    async def answer(self, method: str = "GET") -> RawAnswer:
        """Read one answer. It is left incomplete if the gateway cuts it off.

        Raises:
            TimeoutError: nothing, or only a part, came for a long time.
        """
        answer = RawAnswer()
        async with asyncio.timeout(PATIENCE_S):
            try:
                await self._head(answer)
                await self._body(answer, method)
            except (asyncio.IncompleteReadError, ConnectionError):
                return answer
        answer.complete = True
        return answer

    async def until(self, text: bytes) -> bytes:
        """Read until `text` has come."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readuntil(text)

    async def is_closed(self) -> bool:
        """Wait for the gateway to close the connection; false if it says something instead."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return not await self.reader.read(1)
            except ConnectionError:
                return True

    async def _head(self, answer: RawAnswer) -> None:
        while True:
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head[:-4].split(b"\r\n")
            found = _STATUS_LINE.match(lines[0])
            assert found is not None, lines[0]
            status = int(found[1])
            if 100 <= status < 200 and status != 101:
                answer.interim.append(status)
                continue
            answer.status, answer.head = status, head
            for line in lines[1:]:
                name, _, value = line.partition(b":")
                answer.fields.append((name.decode("ascii").lower(), value.strip(b" \t")))
            return

    async def _body(self, answer: RawAnswer, method: str) -> None:
        if method == "HEAD" or answer.status in (101, 204, 304):
            return
        if answer.values("Transfer-Encoding"):
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                await self._exactly(answer, size)
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
        elif length := answer.value("Content-Length"):
            await self._exactly(answer, int(length))
        else:
            while piece := await self.reader.read(65536):
                answer.body += piece

    async def _exactly(self, answer: RawAnswer, size: int) -> None:
        while size:
            piece = await self.reader.read(min(size, 65536))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            answer.body += piece
            size -= len(piece)


def request(
    method: str,
    target: str,
    *fields: str | bytes,
    body: bytes | None = None,
    chunked: bool = False,
    fence: Iterable[bytes] = FENCE,
    key: str | None = None,
    version: str = "HTTP/1.1",
    host: str | None = "gateway.test",
) -> bytes:
    """Return the bytes of one request; a write carries a fence, with a fresh key of its own."""
    lines = [f"{method} {target} {version}".encode("latin-1")]
    if host is not None:
        lines.append(f"Host: {host}".encode())
    if method not in READS:
        lines += [*fence, f"Idempotency-Key: {key or uuid.uuid4()}".encode()]
    lines += [line if isinstance(line, bytes) else line.encode() for line in fields]
    if chunked:
        lines.append(b"Transfer-Encoding: chunked")
    elif body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", b""]) + (in_chunks(body or b"") if chunked else body or b"")


def in_chunks(body: bytes, size: int = 1000) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


async def ask(port: int, data: bytes, method: str = "GET") -> RawAnswer:
    """Send one request on a connection of its own and read the answer."""
    async with RawCaller(port) as caller:
        caller.writer.write(data)  # not drained: the answer may come before all of it is taken
        return await caller.answer(method)
