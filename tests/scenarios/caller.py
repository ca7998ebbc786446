"""A caller that sends a request once, over a connection of its own.

No client library: those send PUT and DELETE a second time by themselves, and these tests count.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from multidict import CIMultiDict

from tests.house import Got

FUNCTION = "relatorio"
ANSWER_S = 30.0


class NoAnswer(Exception):
    """The caller does not know: no answer came, or half of one."""


async def ask(
    port: int,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    tls: ssl.SSLContext | None = None,
) -> Got:
    """Send one request to 127.0.0.1 and read the answer to its end.

    Raises:
        NoAnswer: nobody listens, or the connection ended early.
    """
    fields = {"Host": f"127.0.0.1:{port}", "Connection": "close", **(headers or {})}
    if body or method in ("POST", "PUT", "PATCH"):
        fields["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
            )
            try:
                writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
                raw = await reader.read()
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError) as error:
        raise NoAnswer(f"{method} {path}: {type(error).__name__} {error}") from error
    return _parse(raw)


def _parse(raw: bytes) -> Got:
    head, separator, body = raw.partition(b"\r\n\r\n")
    if not separator:
        raise NoAnswer(f"the connection ended after {len(raw)} bytes")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, _, value = line.partition(":")
        headers.add(name, value.strip())
    if headers.get("Transfer-Encoding", "").lower() == "chunked":
        body = _unchunk(body)
    elif len(body) < int(headers.get("Content-Length", "0")):
        raise NoAnswer(f"{len(body)} of {headers['Content-Length']} bytes came")
    return Got(int(first.split(" ")[1]), headers, body)


def _unchunk(raw: bytes) -> bytes:
    whole = b""
    while True:
        size, separator, raw = raw.partition(b"\r\n")
        if not separator:
            raise NoAnswer("the connection ended inside a chunked body")
        length = int(size, 16)
        if length == 0:
            return whole
        whole, raw = whole + raw[:length], raw[length + 2 :]


@dataclass(frozen=True, slots=True)
class Leader:
    """A worker that leads, or believes so. `port` is the gateway's."""

    port: int
    term: int
    holder: str = "ana#1"
    tls: ssl.SSLContext | None = None

    def headers(self, key: str) -> dict[str, str]:
        """The fence, and for the CRM's journal which intent and which term a request is of."""
        return {
            "Fence-Function": FUNCTION,
            "Fence-Term": str(self.term),
            "Fence-Holder": self.holder,
            "Idempotency-Key": key,
            "X-Sandbox-Intent": key,
            "X-Sent-Under": str(self.term),
            "Content-Type": "application/json",
        }

    async def send(self, method: str, path: str, key: str, body: Any = None, **more: str) -> Got:
        """Send one write; `more` are header fields with _ for -."""
        fields = self.headers(key) | {name.replace("_", "-"): text for name, text in more.items()}
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        return await ask(
            self.port, method, f"/d/crm{path}", headers=fields, body=data, tls=self.tls
        )

    async def create(self, key: str, **more: str) -> Got:
        """Create a contact: the effect that most of these tests count."""
        return await self.send("POST", "/contacts", key, {"name": key}, **more)
