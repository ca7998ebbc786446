"""Answers that are there whole, put into bytes here and written in one piece.

The library's response costs four times as much (a multidict, a stream writer, five coroutines),
and every write ends with one. What is out of the ordinary is left to it: `written` returns None
and has written nothing.
"""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus
from typing import Final, cast

from aiohttp import web

from gateway.clock import Clock
from gateway.proxy.answer import Answer

SMALL_BYTES: Final = 32 * 1024
"""Larger bodies go through the library, which waits for callers that read slowly."""
_BODYLESS: Final = frozenset({204, 304})
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class Written:
    """Stands for an answer that has been written, for the server to go on from."""

    __slots__ = ("keep_alive",)

    def __init__(self, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive

    async def prepare(self, _request: web.BaseRequest) -> None:
        """Nothing is left to prepare."""

    async def write_eof(self) -> None:
        """Nothing is left to write."""


# The server asks a response for exactly what stands above.
_STAYS: Final = cast("web.StreamResponse", Written(keep_alive=True))
_CLOSES: Final = cast("web.StreamResponse", Written(keep_alive=False))


class Dates:
    """The Date field, worked out once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._field = ""

    def field(self) -> str:
        now_s = self._clock.wall_ms() // 1000
        if now_s != self._second:
            self._second = now_s
            self._field = f"Date: {formatdate(now_s, usegmt=True)}"
        return self._field


def written(
    request: web.BaseRequest, answer: Answer, dates: Dates, *, closes: bool
) -> web.StreamResponse | None:
    """Write `answer` if it is an ordinary one; return what the server wants to have back."""
    body, status = answer.body, answer.status
    if len(body) > SMALL_BYTES or status in _BODYLESS or request.method == "HEAD":
        return None
    transport = request.transport
    if request.version != (1, 1) or transport is None or transport.is_closing():
        return None
    if transport.get_write_buffer_size():
        return None  # a caller that does not read what it got has to wait
    stays = request.keep_alive and not closes
    head = _head(answer, dates, stays=stays)
    if head is None:
        return None
    transport.write(head + body)
    return _STAYS if stays else _CLOSES


def _head(answer: Answer, dates: Dates, *, stays: bool) -> bytes | None:
    """Return the answer's head; None if a field has what cannot stand in one."""
    lines = [f"HTTP/1.1 {answer.status} {_PHRASES.get(answer.status, '')}"]
    dated = False
    for fields in (answer.headers, answer.extra):
        for name, value in fields:
            size = len(name)
            if size == 14 and name.lower() == "content-length":
                continue
            if size == 4 and name.lower() == "date":
                dated = True
            lines.append(f"{name}: {value}")
    lines.append(f"Content-Length: {len(answer.body)}")
    if not dated:
        lines.append(dates.field())
    if not stays:
        lines.append("Connection: close")
    breaks = len(lines) + 1
    lines += ("", "")
    text = "\r\n".join(lines)
    # Each line break is one of ours, or the head would have more lines than fields.
    if text.count("\r") != breaks or text.count("\n") != breaks or "\0" in text:
        return None
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None
