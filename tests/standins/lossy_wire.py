"""The network between the gateway and a destination, which loses what it is told to lose, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from gateway.outbound.transport import reset


@dataclass
class LossyWire:
    """Passes requests on, one to a connection. `lose` names for a case (the header X-Case) what is
    lost of its next write: the `answer`, after the destination has done it, or the `request`."""

    to: int
    port: int = 0
    lose: dict[str, str] = field(default_factory=dict)
    writes: Counter[str] = field(default_factory=Counter)
    """How often each case was sent by the gateway."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            with suppress(OSError, EOFError, asyncio.CancelledError):
                await self._one(reader, writer)
        finally:
            self.tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        pairs = [line.partition(":") for line in lines[1:] if line]
        fields = {name.lower(): text.strip() for name, _, text in pairs}
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        lost = ""
        if not lines[0].startswith("GET"):
            case = fields.get("x-case", "")
            self.writes[case] += 1
            lost = self.lose.pop(case, "")
        if lost == "request":
            reset(writer.transport)
            return
        kept = [line for line in lines if line and not line.lower().startswith("connection:")]
        kept += ["Connection: close", "", ""]
        answer = await self._ask("\r\n".join(kept).encode("latin-1") + body)
        if lost == "answer":
            reset(writer.transport)
            return
        writer.write(answer)
        await writer.drain()

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.to)
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def lossy_wire(to: int) -> AsyncIterator[LossyWire]:
    """Run a wire to the destination at the port `to`."""
    wire = LossyWire(to)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        for task in wire.tasks:
            task.cancel()
        await asyncio.gather(*wire.tasks, return_exceptions=True)
