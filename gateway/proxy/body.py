"""Request bodies: read whole before anything is decided, in memory while small, else on disk.

The fingerprint has to be durable before the first byte is sent, so no body is streamed
through; nor does a slow caller ever hold the destination.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from aiohttp import web

from gateway.core.errors import LedgerUnavailable
from gateway.core.fingerprint import Hasher

P = ParamSpec("P")
T = TypeVar("T")

IDLE_S: Final = 20.0
"""How long a caller may say nothing in the middle of its body."""


class BodyTooLarge(Exception):
    """The body is larger than the destination takes."""


@dataclass(slots=True)
class Body:
    """A request's body: None without any, bytes while small, else a file in the spool."""

    data: bytes | None
    file: Path | None
    digest: bytes
    size: int

    @property
    def content(self) -> bytes | Path | None:
        return self.file if self.file is not None else self.data

    def load(self) -> bytes | None:
        """Return the bytes if they are few enough to be looked into."""
        return self.data if self.file is None else None

    def discard(self) -> None:
        if self.file is not None:
            self.file.unlink(missing_ok=True)


class Spool:
    """Where bodies wait that are too large for memory."""

    def __init__(self, folder: Path, *, memory_bytes: int) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes

    def at_hand(self, request: web.BaseRequest, limit_bytes: int) -> Body | None:
        """Return the body if it is small and the whole of it came together with its head, the
        usual case; else None, and nothing of it has been read."""
        if not request.content.is_eof() or "Expect" in request.headers:
            return None
        length = request.content_length
        if length is None or not length <= min(limit_bytes, self._memory_bytes):
            return None
        data = request.content.read_nowait(-1)
        return Body(data, None, hashlib.sha256(data).digest(), len(data))

    async def read(
        self, request: web.BaseRequest, limit_bytes: int, started: Callable[[], None]
    ) -> Body:
        """Read the whole body. Calls `started` right before the first read.

        Raises BodyTooLarge, TimeoutError for a caller that stalls, ConnectionResetError for
        one that breaks off, LedgerUnavailable for a disk that takes no more.
        """
        length = request.content_length
        if length is not None and length > limit_bytes:
            raise BodyTooLarge
        if not _has_body(request):
            return Body(None, None, Hasher().digest(), 0)
        started()
        hasher = Hasher()
        pieces: list[bytes] = []
        size = 0
        while True:
            piece = await self._next(request)
            if not piece:
                break
            size += len(piece)
            if size > limit_bytes:
                raise BodyTooLarge
            hasher.update(piece)
            pieces.append(piece)
            if size > self._memory_bytes:
                return await self._to_file(request, limit_bytes, hasher, pieces, size)
        return Body(b"".join(pieces), None, hasher.digest(), size)

    async def _next(self, request: web.BaseRequest) -> bytes:
        content = request.content
        if content.is_eof() and content.at_eof():
            return b""
        if content.total_raw_bytes and content.is_eof():
            return await content.readany()
        async with asyncio.timeout(IDLE_S):
            return await content.readany()

    async def _to_file(
        self,
        request: web.BaseRequest,
        limit_bytes: int,
        hasher: Hasher,
        pieces: list[bytes],
        size: int,
    ) -> Body:
        path = self._folder / f"{secrets.token_hex(16)}.body"
        file = _File(path)
        try:
            await _on_disk(file.create)
            await _on_disk(file.write, b"".join(pieces))
            while piece := await self._next(request):
                size += len(piece)
                if size > limit_bytes:
                    raise BodyTooLarge
                hasher.update(piece)
                await _on_disk(file.write, piece)
            # Durable before the intent that names the file, or a crash could lose the request
            # of an unknown effect.
            await _on_disk(file.sync)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            file.close()
        return Body(None, path, hasher.digest(), size)

    def path_of(self, name: str) -> Path:
        return self._folder / name

    def has(self, name: str) -> bool:
        """Whether a body lies here, and not on another machine, or nowhere any more."""
        return self.path_of(name).exists()

    async def sweep(self, kept: set[str], older_than_s: float, now_s: float) -> int:
        """Delete files that no effect needs any more; return how many."""
        return await asyncio.to_thread(self._sweep, kept, older_than_s, now_s)

    def _sweep(self, kept: set[str], older_than_s: float, now_s: float) -> int:
        count = 0
        for path in self._folder.glob("*.body"):
            if path.name not in kept and now_s - path.stat().st_mtime > older_than_s:
                path.unlink(missing_ok=True)
                count += 1
        return count


def _has_body(request: web.BaseRequest) -> bool:
    return "Content-Length" in request.headers or "Transfer-Encoding" in request.headers


class _File:
    """One body file. Its number is known here alone, and only until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def create(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._fd is not None:
            view = view[os.write(self._fd, view) :]

    def sync(self) -> None:
        if self._fd is not None:
            os.fsync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


async def _on_disk(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` beside the event loop. A body that cannot be kept cannot be vouched for.

    Returns or raises only when `work` has ended, also when the caller leaves meanwhile: a
    thread cannot be stopped, and the number of a file that is closed under it may be another
    file's, or another caller's connection, by the time it writes.
    """
    thread = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not thread.done():
        try:
            await asyncio.wait({thread})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        thread.exception()  # looked at, so that nobody complains that it was not
        raise cancelled
    try:
        return thread.result()
    except OSError as error:
        raise LedgerUnavailable(
            f"the request's body cannot be kept on disk: {error.strerror}"
        ) from error
