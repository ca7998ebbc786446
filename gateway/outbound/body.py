"""Request bodies, whole in memory or spooled to disk; always of known length."""

from __future__ import annotations

import asyncio
import os
from typing import BinaryIO, Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from gateway.core.errors import InvariantError

_FILE_CHUNK_BYTES: Final = 256 * 1024


class _Body(aiohttp.Payload):
    """A body of known size. (The library's own ones bring a Content-Type and warnings.)"""

    def __init__(self, value: bytes | BinaryIO, size_bytes: int) -> None:
        super().__init__(value)
        self._size = size_bytes
        self._headers.clear()
        self._headers["Content-Length"] = str(size_bytes)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise InvariantError("a body is sent as it is, never decoded")


class Whole(_Body):
    """A body in memory."""

    def __init__(self, value: bytes) -> None:
        super().__init__(value, len(value))

    async def write(self, writer: AbstractStreamWriter) -> None:
        await writer.write(self._value)


class Spooled(_Body):
    """A body on disk: exactly as many bytes as the file has now are sent."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, os.fstat(file.fileno()).st_size)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Raises InvariantError when the file is shorter than promised: the request then stays
        unfinished, so that the destination cannot take it for complete."""
        loop = asyncio.get_running_loop()
        left = self._size or 0
        while left:
            wanted = min(left, _FILE_CHUNK_BYTES)
            chunk = await loop.run_in_executor(None, self._value.read, wanted)
            if not chunk:
                raise InvariantError(f"the spooled body ended {left} bytes early")
            left -= len(chunk)
            await writer.write(chunk)
