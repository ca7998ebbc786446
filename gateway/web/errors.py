"""Problems as errors and as answers of aiohttp, and what becomes of what nobody foresaw."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence

from aiohttp import web
from multidict import CIMultiDict
from structlog.typing import FilteringBoundLogger

from gateway.wire.problem import EffectWord, Rendered, render


class TurnedAway(Exception):
    """The request is answered with a problem, and nothing of it was sent or changed.

    `allow` are the methods that the path has; `status` is one of the problem's other statuses;
    `retry_after_s` is when the same may do better.
    """

    allow: Sequence[str] = ()
    status: int | None = None
    retry_after_s: float | None = None

    def __init__(self, slug: str, detail: str | None = None, **facts: object) -> None:
        super().__init__(slug)
        self.slug = slug
        self.detail = detail
        self.facts: Mapping[str, object] = facts


def problem_response(rendered: Rendered, extra: Iterable[tuple[str, str]] = ()) -> web.Response:
    """Return the answer for a problem, with `extra` header fields."""
    headers = CIMultiDict(rendered.headers)
    headers.extend(extra)
    return web.Response(status=rendered.status, body=rendered.body, headers=headers)


def new_incident_id() -> str:
    """Return an id by which a person finds the log line of a failure."""
    return "inc-" + secrets.token_hex(5)


def incident(
    error: BaseException,
    log: FilteringBoundLogger,
    *,
    effect: EffectWord = "unknown",
    **about: object,
) -> Rendered:
    """Log `error` with its traceback under an incident id; return the problem to answer with.

    The caller is told the id and nothing of the error. `effect` is "none" only where nothing
    can have been sent.
    """
    incident_id = new_incident_id()
    log.error("incident", incident=incident_id, exc_info=error, **about)
    detail = None
    if effect == "none":
        detail = (
            "Nothing was sent. Report the incident id to the operator. The same request may be "
            "sent again with the same key once that is settled."
        )
    return render(
        "internal",
        effect=effect,
        detail=detail,
        safe_to_retry_same_key=effect == "none",
        facts={"incident": incident_id, "effect_id": about.get("effect_id")},
    )
