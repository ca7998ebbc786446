"""The network between a replica and its gateway: it can be cut, and it can be slow.

What goes to the control plane (`/v1/…`: leases, units) can be kept from a replica while its
commands to the destination still pass. That is how a leader comes to act without authority.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

CONTROL: Final = "/v1/"
PIECE_BYTES: Final = 65536


@dataclass
class Relay:
    """Relays to `to`. Requests whose path holds a word of `cut` get no answer and do not pass.
    Answers to paths that end in a word of `late` are held until `on_time` is set."""

    to: str
    port: int = 0
    cut: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    on_time: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: int = 0  # requests that did not pass
    held: int = 0  # answers that came late
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, EOFError, asyncio.LimitOverrunError):
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode("latin-1").partition("?")[0]
                if any(word in path for word in self.cut):
                    self.stopped += 1
                    return
                late = any(path.endswith(word) for word in self.late)
                await self._relay(head, reader, writer, late=late)
        finally:
            await _close(writer)

    async def _relay(
        self,
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        late: bool,
    ) -> None:
        where = urlsplit(self.to)
        back, forth = await asyncio.open_connection(where.hostname, where.port)
        asking = asyncio.ensure_future(_pour(reader, forth))
        try:
            forth.write(head)
            if late:
                answer = await back.read()
                self.held += 1
                await self.on_time.wait()
                writer.write(answer)
                await writer.drain()
            else:
                answering = asyncio.ensure_future(_pour(back, writer))
                await asyncio.wait((asking, answering), return_when=asyncio.FIRST_COMPLETED)
                answering.cancel()
        finally:
            asking.cancel()
            await _close(forth)


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@asynccontextmanager
async def running_relay(to: str) -> AsyncIterator[Relay]:
    """Run a relay to the gateway at `to`; at first everything passes, at once."""
    relay = Relay(to)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            relay.tasks.add(task)
            task.add_done_callback(relay.tasks.discard)
        # OSError: the gateway is gone, and so is this line then. A handler that ends as cancelled
        # is what asyncio's streams complain of.
        with suppress(OSError, asyncio.CancelledError):
            await relay.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        left = list(relay.tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
