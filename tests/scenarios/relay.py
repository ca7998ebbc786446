"""A TCP relay between a worker and its gateway that can be late with the answers to renewals.

Requests always pass at once: the gateway renews the lease, and the worker is not told. Whatever
is no renewal is handed on untouched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Relay:
    """Relays to `to`. `lost` answers of renewals are never delivered; while it is `closed`, they
    come when it is opened again."""

    to: int
    port: int = 0
    lost: int = 0
    renewed: int = 0  # answers to renewals that the gateway gave
    told: int = 0  # and those that were delivered to somebody who still waited
    open: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, EOFError):
                head = await reader.readuntil(b"\r\n\r\n")
                from_gateway, to_gateway = await asyncio.open_connection("127.0.0.1", self.to)
                try:
                    to_gateway.write(head)
                    if head.split(b" ", 2)[1].endswith(b"/renew"):
                        await self._relay_renewal(reader, writer, from_gateway, to_gateway)
                    else:
                        await relay_both(reader, writer, from_gateway, to_gateway)
                finally:
                    await close(to_gateway)
        finally:
            await close(writer)

    async def _relay_renewal(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_gateway: asyncio.StreamReader,
        to_gateway: asyncio.StreamWriter,
    ) -> None:
        asking = asyncio.ensure_future(pour(reader, to_gateway))
        try:
            answer = await from_gateway.read()
            self.renewed += 1
            if self.lost:
                self.lost -= 1
                return
            await self.open.wait()
            if not writer.is_closing() and not asking.done():
                self.told += 1
                writer.write(answer)
                await writer.drain()
        finally:
            await ended(asking)


async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def relay_both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    from_gateway: asyncio.StreamReader,
    to_gateway: asyncio.StreamWriter,
) -> None:
    """Relay until one side has said all; each request is on a connection of its own."""
    both = [
        asyncio.ensure_future(pour(reader, to_gateway)),
        asyncio.ensure_future(pour(from_gateway, writer)),
    ]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await ended(*both)


async def ended(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@asynccontextmanager
async def running_relay(to: int) -> AsyncIterator[Relay]:
    """Run a relay to the gateway at the port `to`; at first it holds nothing back."""
    relay = Relay(to)
    relay.open.set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            relay.tasks.add(task)
            task.add_done_callback(relay.tasks.discard)
        await relay.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        if relay.tasks:
            await ended(*relay.tasks)
