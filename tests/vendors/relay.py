"""The network between a worker and its gateway, as it is on a bad day."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.outbound.transport import reset


class Relay:
    """Passes bytes to the gateway and back; loses the next `lose` answers altogether."""

    def __init__(self, port: int) -> None:
        self.gateway_port = port
        self.lose = 0
        self.lost = 0
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", self.gateway_port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, back))
                both.create_task(self._answers(there, writer))
        except* (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            back.close()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.lose:
                self.lose -= 1
                self.lost += 1
                reset(writer.transport)
                raise ConnectionResetError
            writer.write(data)
        writer.close()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def relaying(port: int) -> AsyncIterator[Relay]:
    relay = Relay(port)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        await relay.close()
