"""Taking and giving in the control plane: JSON in, models out, refusals as problems."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gateway.wire.control import Wire

BODY_MAX_BYTES: Final = 256 * 1024
BODY_TIMEOUT_S: Final = 10.0


class TurnedAway(Exception):
    """The request is answered with a problem. `allow` are the methods that the path has."""

    allow: Sequence[str] = ()

    def __init__(self, slug: str, detail: str | None = None, **facts: object) -> None:
        super().__init__(slug)
        self.slug = slug
        self.detail = detail
        self.facts: Mapping[str, object] = facts


def reply(model: Wire, status: int = 200) -> web.Response:
    return web.Response(
        status=status,
        body=model.model_dump_json(by_alias=True).encode(),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


async def read_json(request: web.BaseRequest) -> Any:
    """Return the JSON body. Raises TurnedAway for one that is none, or too large."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > BODY_MAX_BYTES:
                    raise TurnedAway("body-too-large", limit_bytes=BODY_MAX_BYTES)
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise TurnedAway("malformed", f"The body is not JSON: {error}.") from None
    except TimeoutError:
        raise TurnedAway("malformed", "The body did not come in time.") from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise TurnedAway("malformed", "The body breaks off, or its framing is wrong.") from None
