"""The log: JSON lines on standard output, or text for people.

Never in it: bodies, tokens, query strings, raw idempotency keys (who has a key can ask for the
recorded answer). A key is shown by the first 8 hex digits of its SHA-256, enough to find the
lines that belong together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from json import dumps as dumps_anything
from typing import Any, BinaryIO, Final, cast

import orjson
import structlog
from aiohttp.http_exceptions import HttpProcessingError
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from gateway.clock import Clock

LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure(
    level: str, *, json: bool, stream: BinaryIO | Lines, clock: Clock
) -> FilteringBoundLogger:
    """Send the whole process's log to `stream`, and return the logger to hand around.

    What libraries log through the standard library comes out in the same form, from
    warnings up.
    """
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        _timestamp(clock),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=dump) if json else _text,
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", stream)),
        cache_logger_on_first_use=False,
    )
    log: FilteringBoundLogger = structlog.get_logger().bind()
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Bridge)]:
        root.removeHandler(handler)
    root.addHandler(_Bridge(log))
    root.setLevel(logging.WARNING)
    return log


class Lines:
    """Where lines go: written together once for each turn of the event loop.

    A write of its own for every line would let go of the interpreter's lock for every request,
    and getting it back from the ledger's thread costs more than the line. What fails to be
    written is lost: a full disk or a closed pipe under the log must neither cost an effect its
    record nor a caller its answer.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._pending: list[bytes] = []

    def write(self, data: bytes) -> int:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._pending.append(data)
            self._write_pending()
            return len(data)
        if not self._pending:
            loop.call_soon(self._write_pending)
        self._pending.append(data)
        return len(data)

    def flush(self) -> None:
        """Nothing: the turn of the loop ends soon enough."""

    def _write_pending(self) -> None:
        pending, self._pending = self._pending, []
        with suppress(OSError, ValueError):
            self._stream.write(b"".join(pending))
            self._stream.flush()


class Stamp:
    """Says the time in UTC to the millisecond.

    The text of a second is kept: formatting it costs more than all the rest of a line.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._text = ""

    def __call__(self) -> str:
        now_s, ms = divmod(self._clock.wall_ms(), 1000)
        if now_s != self._second:
            self._text = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = now_s
        return f"{self._text}.{ms:03d}Z"


def _timestamp(clock: Clock) -> Processor:
    """Return the step that stamps a line."""
    stamp = Stamp(clock)

    def add(_log: Any, _method: str, line: EventDict) -> EventDict:
        line["at"] = stamp()
        line["msg"] = line.pop("event")
        return line

    return add


def dump(line: EventDict, default: Callable[[Any], Any] | None = None, **_: Any) -> bytes:
    try:
        return orjson.dumps(line, default=default)
    except TypeError:  # a lone surrogate or a huge number: a line that is lost helps nobody
        return dumps_anything(line, default=str).encode("ascii")


_renderer: Final = structlog.dev.ConsoleRenderer(
    colors=False,
    timestamp_key="at",
    event_key="msg",
    exception_formatter=structlog.dev.plain_traceback,
)


def _text(log: Any, method: str, line: EventDict) -> bytes:
    return _renderer(log, method, line).encode("utf-8", "backslashreplace")


class _Bridge(logging.Handler):
    """Carries records of the standard library's logging over."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            # Its text quotes the request, which may be the line with the token. Anybody can send
            # such a request, so it is no error of ours either.
            self._log.warning("not-http", logger=record.name, status=error.code)
            return
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        say("library", logger=record.name, text=record.getMessage(), exc_info=record.exc_info)


def key_hash(key: str) -> str:
    """Return what stands for an idempotency key in the log."""
    return sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:8]
