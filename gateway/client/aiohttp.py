"""A client middleware for aiohttp.

    session = aiohttp.ClientSession(middlewares=[fence_middleware({"https://api.x.com": "x"})])

The code above keeps the destination's own URLs. aiohttp sends a PUT or DELETE a second time by
itself when the connection ends without an answer, whatever the caller thinks of it. Here such
an end becomes GatewayUnreachable, which aiohttp does not know and therefore leaves alone; the
caller decides, and a repetition has the same key.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse
from yarl import URL

from gateway.client.command import Command, Gate, needs_reading
from gateway.client.context import READS
from gateway.client.errors import GatewayUnreachable


def fence_middleware(
    destinations: Mapping[str, str],
    *,
    gateway: str | None = None,
    token: str | None = None,
    wait_s: int | None = None,
) -> ClientMiddlewareType:
    """Return a middleware that sends to the gateway instead; see `gateway.client.command.Gate`.

    It is for the session's own `middlewares`, last: what stands behind it sees the gateway.
    """
    gate = Gate(destinations, gateway=gateway, token=token, wait_s=wait_s)

    async def fenced(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        command = gate.command(request.method, str(request.url), request.headers)
        _rewrite(request, command)
        try:
            response = await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            if isinstance(error, aiohttp.ClientConnectorError) or request.method in READS:
                raise  # not sent, or a read
            raise GatewayUnreachable(message=_lost(command, error)) from error
        if needs_reading(response.headers):
            body = await response.read()
            refusal = command.take_answer(response.status, response.headers, body)
            if refusal is not None:
                raise refusal
        else:
            response.content.on_eof(command.when_whole(response.status, response.headers))
        return response

    return fenced


def _rewrite(request: ClientRequest, command: Command) -> None:
    request.url = URL(command.url, encoded=True)
    fields = command.fields(
        (name, value) for name, value in request.headers.items() if name.lower() != "host"
    )
    request.headers.clear()
    request.headers.extend([("Host", request.url.authority), *fields])


def _lost(command: Command, error: Exception) -> str:
    return (
        f"{command.method} {command.destination}:{command.target} got no answer from the gateway "
        f"({type(error).__name__}: {error}). Nobody knows yet what became of it; the same call "
        "again has the same key and will tell"
    )
