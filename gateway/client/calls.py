"""Calls to the gateway: a small HTTP/1.1 client over asyncio streams, standard library only.

One connection per call, and each call is sent at most once: nothing here retries, follows a
redirect or looks for a proxy. Every wait has an end.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.client.errors import GatewayUnreachable, Malformed, NotReached, error_for

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
CONNECT_S: Final = 5.0
_METHOD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_TARGET: Final = re.compile(r"/[!-~]*\Z")
_FIELD_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*\Z")
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: |\r)")


class Headers(Mapping[str, str]):
    """Header fields by name, whatever its case; a repeated one is joined with commas."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields: dict[str, tuple[str, str]] = {}
        for name, value in fields:
            before = self._fields.get(name.lower())
            said = f"{before[1]}, {value}" if before else value
            self._fields[name.lower()] = (before[0] if before else name, said)

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()][1]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._fields.values()])

    def __len__(self) -> int:
        return len(self._fields)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came."""

    status: int
    headers: Headers
    body: bytes


class Gateway:
    """Where the gateway is, and who is calling it."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        connect_s: float = CONNECT_S,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ValueError(
                f"the gateway's URL is {_without_user(url)!r}; it has the form "
                "https://host:port, without user or password"
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.token = token
        self._prefix = parts.path.rstrip("/")
        self._host = parts.hostname
        self._host_field = parts.netloc
        secure = parts.scheme == "https"
        self._port = parts.port or (443 if secure else 80)
        self._tls = (tls or ssl.create_default_context()) if secure else None
        self._connect_s = connect_s

    async def control(
        self,
        method: str,
        path: str,
        content: Any = None,
        *,
        timeout_s: float,
        fields: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Ask the control plane; return status and JSON. `fields` are further header fields.

        Raises the error of a problem, and GatewayUnreachable for everything that is not an
        answer of the gateway.
        """
        headers = {"Accept": "application/json", **(fields or {})}
        if self.token:
            headers["Fence-Authorization"] = f"Bearer {self.token}"
        body = None
        if content is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(content).encode()
        answer = await self.call(method, path, headers=headers, body=body, timeout_s=timeout_s)
        error = error_for(answer.status, answer.headers, answer.body)
        if error is not None:
            raise error
        try:
            said = json.loads(answer.body) if answer.body else None
        except ValueError:
            said = None
        if not 200 <= answer.status < 300 or (said is None and answer.status != 204):
            raise GatewayUnreachable(
                message=f"{method} {path} was answered {answer.status} by something else than the "
                f"gateway; check that {self.url} is its URL"
            )
        return answer.status, said

    async def call(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_s: float,
    ) -> Answer:
        """Send one request, once, and read its answer.

        Raises NotReached if nothing was sent, GatewayUnreachable if no whole answer came.
        """
        head = self._head(method, path, headers, body)
        give_up_s = asyncio.get_running_loop().time() + timeout_s
        reader, writer = await self._connect(min(self._connect_s, timeout_s))
        try:
            async with asyncio.timeout_at(give_up_s):
                writer.write(head + (body or b""))
                await writer.drain()
                return await _read_answer(reader, method)
        except TimeoutError:
            raise GatewayUnreachable(
                message=f"{method} {path} got no answer from {self.url} within {timeout_s:.1f} s"
            ) from None
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise GatewayUnreachable(
                message=f"{method} {path} got no whole answer from {self.url}: "
                f"{type(error).__name__} {error}"
            ) from error
        finally:
            writer.transport.abort()  # nothing more is wanted, and a polite close may hang

    async def _connect(self, timeout_s: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, limit=MAX_HEAD_BYTES
                )
        except TimeoutError:
            why = f"no connection within {timeout_s:.1f} s"
        except OSError as error:  # ssl.SSLError too
            why = str(error)
        raise NotReached(message=f"{self.url} cannot be reached: {why}; nothing was sent")

    def _head(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        target = f"{self._prefix}{path}"
        if not _METHOD.match(method) or not _TARGET.match(target):
            raise Malformed(
                message=f"{method!r} {path!r} cannot be sent; the path begins with / and is "
                "percent-encoded ASCII"
            )
        fields = {"Host": self._host_field, "Connection": "close", **headers}
        if not any(name.lower() == "accept-encoding" for name in headers):
            fields["Accept-Encoding"] = "identity"
        if body is not None or method.upper() in ("POST", "PUT", "PATCH"):
            fields["Content-Length"] = str(len(body or b""))
        lines = [f"{method} {target} HTTP/1.1"]
        for name, value in fields.items():
            if not _METHOD.match(name) or not _FIELD_VALUE.match(value):
                raise Malformed(
                    message=f"the header field {name!r} does not have its form; send one line of "
                    "printable characters"
                )
            lines.append(f"{name}: {value}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _without_user(url: str) -> str:
    return re.sub(r"//[^/]*@", "//…@", url)


async def _read_answer(reader: asyncio.StreamReader, method: str) -> Answer:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        found = _STATUS.match(head)
        if found is None:
            raise ValueError(f"it begins with {head[:40]!r}, which is no HTTP/1.1")
        status = int(found[1])
        if status == 101 or status >= 200:
            break
    headers = Headers([_field(line) for line in head.split(b"\r\n")[1:] if line])
    if method.upper() == "HEAD" or status in (204, 304):
        return Answer(status, headers, b"")
    if headers.get("transfer-encoding", "").lower().rpartition(",")[2].strip() == "chunked":
        return Answer(status, headers, await _read_chunks(reader))
    length = headers.get("content-length")
    if length is None:
        return Answer(status, headers, await _read_rest(reader))
    if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY_BYTES:
        raise ValueError(f"Content-Length is {length!r}; at most {MAX_BODY_BYTES} bytes are read")
    return Answer(status, headers, await reader.readexactly(int(length)))


def _field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.decode("latin-1").partition(":")
    if not colon or not _METHOD.match(name):
        raise ValueError(f"{line[:40]!r} is no header field")
    return name, value.strip(" \t")


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        line = (await reader.readuntil(b"\r\n")).partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", line):
            raise ValueError(f"{line[:20]!r} is no size of a chunk")
        size = int(line, 16)
        if len(body) + size > MAX_BODY_BYTES:
            raise ValueError(f"the body is larger than {MAX_BODY_BYTES} bytes")
        if size == 0:
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass  # trailers say nothing that we act on
            return bytes(body)
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise ValueError("a chunk does not end where it says")


async def _read_rest(reader: asyncio.StreamReader) -> bytes:
    body = await reader.read(MAX_BODY_BYTES + 1)
    while piece := await reader.read(MAX_BODY_BYTES + 1 - len(body)):
        body += piece
    if len(body) > MAX_BODY_BYTES:
        raise ValueError(f"the body is larger than {MAX_BODY_BYTES} bytes")
    return body
