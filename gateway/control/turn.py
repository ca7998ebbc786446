"""Taking and giving in the control plane: JSON in, models out, refusals as problems."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import ValidationError

from gateway.web.errors import TurnedAway as TurnedAway
from gateway.wire.control import Wire

BODY_MAX_BYTES: Final = 256 * 1024
BODY_TIMEOUT_S: Final = 10.0
M = TypeVar("M", bound=Wire)


def reply(model: Wire, status: int = 200, location: str | None = None) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    if location is not None:
        headers["Location"] = location
    return web.Response(
        status=status,
        body=model.model_dump_json(by_alias=True).encode(),
        content_type="application/json",
        headers=headers,
    )


async def read_model(
    model: type[M], request: web.BaseRequest, most_bytes: int = BODY_MAX_BYTES
) -> M:
    """Return the body as `model`. Raises TurnedAway with what is wrong with it."""
    return as_model(model, await read_json(request, most_bytes))


def as_model(model: type[M], said: Any) -> M:
    try:
        return model.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        given = "" if first["type"] == "missing" else f" is {str(first['input'])[:80]!r}"
        raise TurnedAway("malformed", f"{where}{given}: {first['msg']}.") from None


async def read_json(request: web.BaseRequest, most_bytes: int = BODY_MAX_BYTES) -> Any:
    """Return the JSON body. Raises TurnedAway for one that is none, or too large."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > most_bytes:
                    raise TurnedAway(
                        "body-too-large",
                        f"Nothing was changed. At most {most_bytes} bytes are taken here; send "
                        "less at once.",
                        limit_bytes=most_bytes,
                    )
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise TurnedAway("malformed", f"The body is not JSON: {error}.") from None
    except TimeoutError:
        raise TurnedAway("malformed", "The body did not come in time.") from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise TurnedAway("malformed", "The body breaks off, or its framing is wrong.") from None
