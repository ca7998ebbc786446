"""A request's body on disk: sent from there, exactly as long as it was announced."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import BinaryIO, Final

from gateway.core.errors import InvariantError
from gateway.outbound.connection import Connection

_CHUNK_BYTES: Final = 256 * 1024


class BodyFile:
    """An open body file. `first` is its first piece: read before anything is sent, so that a
    small body leaves together with its head, and an unreadable file costs nothing."""

    __slots__ = ("_file", "first", "left", "size")

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self.first = b""
        self.left = self.size

    @classmethod
    async def open(cls, path: Path) -> BodyFile:
        """Raises OSError or InvariantError: the body is not there, or not whole."""
        opening = asyncio.ensure_future(asyncio.to_thread(cls._open, path))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise

    @classmethod
    def _open(cls, path: Path) -> BodyFile:
        spool = cls(path.open("rb"))
        try:
            spool.first = spool._read()
        except BaseException:
            spool.close()
            raise
        return spool

    async def pour(self, connection: Connection) -> None:
        """Write what is left, as fast as the destination takes it.

        Raises:
            InvariantError: the file is shorter than announced. The request then has to stay
                unfinished, so that the destination cannot take it for complete.
        """
        while self.left and connection.is_open:
            await connection.drained()
            chunk = await asyncio.to_thread(self._read)
            if connection.is_open:
                connection.write(chunk)

    def close(self) -> None:
        self._file.close()

    def _read(self) -> bytes:
        if not self.left:
            return b""
        chunk = self._file.read(min(self.left, _CHUNK_BYTES))
        if not chunk:
            raise InvariantError(f"the spooled body ended {self.left} bytes early")
        self.left -= len(chunk)
        return chunk


def _close_opened(opening: asyncio.Future[BodyFile]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
