"""Bare aiohttp pass-throughs: what a proxy costs that fences nothing.

    python -m loadtests.passthrough --flavour application --upstream http://127.0.0.1:9000 \
        --port-file F

`application` is written the way most people would: `web.Application`, one `ClientSession`, its
pool kept alive, uvloop. `server` is the same on the low-level `web.Server`. Both read the whole
body before they pass it on. Neither is for use: aiohttp's client sends some methods twice.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
NOT_SENT = HOP_BY_HOP | {"host", "content-length"}
CONNECTIONS = 256

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def end_to_end(headers: CIMultiDictProxy[str], without: frozenset[str]) -> CIMultiDict[str]:
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in without
    )


def forwarder(session: aiohttp.ClientSession, upstream: str) -> Handler:
    """Return the handler that passes everything on to `upstream`."""

    async def forward(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        async with session.request(
            request.method,
            upstream + request.raw_path,
            headers=end_to_end(request.headers, NOT_SENT),
            data=body or None,
            allow_redirects=False,
        ) as answer:
            return web.Response(
                status=answer.status,
                headers=end_to_end(answer.headers, NOT_SENT),
                body=await answer.read(),
            )

    return forward


def runner_of(flavour: str, handler: Handler) -> web.BaseRunner[web.BaseRequest]:
    if flavour == "server":
        return web.ServerRunner(web.Server(handler, access_log=None))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    return web.AppRunner(app, access_log=None)


async def serve(flavour: str, upstream: str, report_port: Callable[[str], object]) -> None:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        runner = runner_of(flavour, forwarder(session, upstream.rstrip("/")))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        report_port(str(runner.addresses[0][1]))
        try:
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flavour", choices=["application", "server"], default="application")
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--port-file", type=Path, required=True)
    given = parser.parse_args()
    uvloop.run(serve(given.flavour, given.upstream, given.port_file.write_text))


if __name__ == "__main__":
    main()
