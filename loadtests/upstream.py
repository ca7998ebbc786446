"""A destination that costs next to nothing: raw asyncio, one 1 KB answer, no parsing to speak of.

python -m loadtests.upstream --port-file F
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import uvloop

from loadtests.http_bytes import body_bytes_of

FILLER = b'{"id":"note-1","text":"'
BODY = FILLER + b"x" * (1024 - len(FILLER) - 2) + b'"}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
) + BODY


class Responder(asyncio.Protocol):
    """Answers every whole request with the same bytes, pipelined ones too."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because uvloop registers its transports nowhere.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._held += data
        answers = 0
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            whole = end + 4 + body_bytes_of(bytes(self._held[: end + 2]))
            if len(self._held) < whole:
                break
            del self._held[:whole]
            answers += 1
        if answers and self._transport is not None:
            self._transport.write(ANSWER * answers)


async def serve(report_port: Callable[[str], object]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Responder, "127.0.0.1", 0, backlog=1024)
    report_port(str(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port-file", type=Path, required=True)
    uvloop.run(serve(parser.parse_args().port_file.write_text))


if __name__ == "__main__":
    main()
