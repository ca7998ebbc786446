"""Transports for httpx: three changed lines and every request goes through the gateway.

    client = httpx.Client(transport=FenceTransport({"https://api.hubapi.com": "hubspot"}))

The code above keeps the destination's own URLs. httpx sends nothing twice by itself. What the
gateway refuses is raised as an error of `gateway.client.errors`, which is no `httpx.HTTPError`:
a handler for bad connections must not swallow that somebody else leads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import cast

import httpx

from gateway.client.command import Command, Gate, needs_reading


class FenceTransport(httpx.BaseTransport):
    """Sends what a client sends to the gateway instead, by way of `inner`.

    The rest is said at `gateway.client.command.Gate`.
    """

    def __init__(
        self,
        destinations: Mapping[str, str],
        *,
        gateway: str | None = None,
        token: str | None = None,
        wait_s: int | None = None,
        inner: httpx.BaseTransport | None = None,
    ) -> None:
        self._gate = Gate(destinations, gateway=gateway, token=token, wait_s=wait_s)
        self._inner = inner or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        command = self._gate.command(request.method, str(request.url), request.headers)
        response = self._inner.handle_request(_rewritten(request, command))
        stream = cast("httpx.SyncByteStream", response.stream)
        if needs_reading(response.headers):
            try:
                body = b"".join(stream)
            finally:
                response.close()
            error = command.take_answer(response.status_code, response.headers, body)
            if error is not None:
                raise error
            return _again(response, body)
        whole = command.when_whole(response.status_code, response.headers)
        response.stream = _Whole(stream, whole)
        return response

    def close(self) -> None:
        self._inner.close()


class AsyncFenceTransport(httpx.AsyncBaseTransport):
    """As FenceTransport, for `httpx.AsyncClient`."""

    def __init__(
        self,
        destinations: Mapping[str, str],
        *,
        gateway: str | None = None,
        token: str | None = None,
        wait_s: int | None = None,
        inner: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._gate = Gate(destinations, gateway=gateway, token=token, wait_s=wait_s)
        self._inner = inner or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        command = self._gate.command(request.method, str(request.url), request.headers)
        response = await self._inner.handle_async_request(_rewritten(request, command))
        stream = cast("httpx.AsyncByteStream", response.stream)
        if needs_reading(response.headers):
            try:
                body = b"".join([part async for part in stream])
            finally:
                await response.aclose()
            error = command.take_answer(response.status_code, response.headers, body)
            if error is not None:
                raise error
            return _again(response, body)
        whole = command.when_whole(response.status_code, response.headers)
        response.stream = _AsyncWhole(stream, whole)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _rewritten(request: httpx.Request, command: Command) -> httpx.Request:
    url = httpx.URL(command.url)
    fields = command.fields(
        (name, value) for name, value in request.headers.multi_items() if name != "host"
    )
    host = url.netloc.decode("ascii")
    # httpx.URL may write a path anew; the target goes out as it stands
    _, _, path = command.url.partition("://")
    target = path[path.index("/") :].encode("ascii")
    return httpx.Request(
        request.method,
        url,
        headers=[("Host", host), *fields],
        stream=request.stream,
        extensions={**request.extensions, "target": target},
    )


def _again(response: httpx.Response, body: bytes) -> httpx.Response:
    """Return an answer whose body was read, to be read again."""
    return httpx.Response(
        response.status_code,
        headers=response.headers,
        stream=httpx.ByteStream(body),
        extensions=response.extensions,
    )


class _Whole(httpx.SyncByteStream):
    """Tells when the last byte has come; not when the reader leaves before."""

    def __init__(self, stream: httpx.SyncByteStream, whole: Callable[[], None]) -> None:
        self._stream = stream
        self._whole = whole

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream
        self._whole()

    def close(self) -> None:
        self._stream.close()


class _AsyncWhole(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, whole: Callable[[], None]) -> None:
        self._stream = stream
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part
        self._whole()

    async def aclose(self) -> None:
        await self._stream.aclose()
