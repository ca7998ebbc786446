"""The control plane's front: health, metrics, problems and `/v1`."""

from __future__ import annotations

from typing import Final

import orjson
from aiohttp import web

from gateway.control import effects
from gateway.control.panel import Panel
from gateway.control.turn import TurnedAway, reply
from gateway.control.views import destination_out
from gateway.core.errors import Malformed, StoreError
from gateway.core.ids import new_request_id
from gateway.core.principals import Principal
from gateway.web.errors import incident, problem_response
from gateway.wire.control import DestinationPage, openapi
from gateway.wire.headers import FENCE_REQUEST_ID, FENCE_VERDICT, parse_fence
from gateway.wire.problem import PROBLEMS, Rendered, problem_index, problem_page, render

_INDEX: Final = (
    "Fencegate\n\n/d/{destination}/...  the data plane\n/v1/effects  /v1/destinations  "
    "/v1/openapi.json\n/livez  /readyz  /metrics  /problems/\n"
)
_READ: Final = ("GET", "HEAD")


class ControlPlane:
    """Answers everything that is not under /d/."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        request_id = new_request_id()
        try:
            fence = parse_fence(request.raw_headers)
            request_id = fence.request_id or request_id
            response = await self._route(request)
        except TurnedAway as turned:
            response = _problem(render(turned.slug, detail=turned.detail, facts=dict(turned.facts)))
            if turned.allow:
                response.headers["Allow"] = ", ".join(turned.allow)
        except Malformed as error:
            response = _problem(render("malformed", detail=str(error)))
        except StoreError as error:
            response = _problem(render("ledger-unavailable", detail=str(error)))
        except ConnectionResetError:
            raise
        except Exception as error:  # nothing unforeseen becomes a bare 500
            rendered = incident(error, self._panel.log, effect="none", request_id=request_id)
            response = _problem(rendered)
        response.headers[FENCE_REQUEST_ID] = request_id
        response.headers["Server"] = "fencegate"
        return response

    async def _route(self, request: web.BaseRequest) -> web.Response:
        """Find the way by path; there are few, and a table would say less than this does."""
        parts = [part for part in request.path.split("/") if part]
        if parts[:1] == ["v1"]:
            return await self._v1(request, parts[1:], self._principal(request))
        _check_method(request, parts)
        match parts:
            case []:
                return web.Response(text=_INDEX)
            case ["livez"]:
                return web.json_response({"status": "alive", "version": self._panel.version})
            case ["readyz"]:
                return self._readyz()
            case ["metrics"]:
                return self._metrics()
            case ["problems"]:
                return web.Response(text=problem_index(), content_type="text/html")
            case ["problems", slug]:
                return web.Response(text=problem_page(slug), content_type="text/html")
            case _:
                raise _nothing_at(request)

    async def _v1(
        self, request: web.BaseRequest, parts: list[str], principal: Principal
    ) -> web.Response:
        panel = self._panel
        _check_method(request, ["v1", *parts])
        match parts:
            case ["openapi.json"]:
                return web.json_response(openapi(panel.version))
            case ["effects"]:
                return await effects.list_effects(panel, request, principal)
            case ["effects", effect_id]:
                return await effects.show_effect(panel, request, principal, effect_id)
            case ["effects", effect_id, "resolve"]:
                return await effects.resolve_effect(panel, request, principal, effect_id)
            case ["destinations"]:
                return self._destinations(principal)
            case ["destinations", name]:
                return self._destination(principal, name)
            case _:
                raise _nothing_at(request)

    def _principal(self, request: web.BaseRequest) -> Principal:
        panel = self._panel
        now_ms = panel.clock.wall_ms()
        principal = panel.authenticator.authenticate(request.raw_headers, now_ms)
        if principal is None:
            why = panel.authenticator.why_not(request.raw_headers, now_ms)
            raise TurnedAway("unauthenticated", why)
        return principal

    def _destinations(self, principal: Principal) -> web.Response:
        found = self._panel.policies().destinations
        shown = [destination_out(found[n]) for n in sorted(found) if principal.may_reach(n)]
        return reply(DestinationPage(items=shown, next=None))

    def _destination(self, principal: Principal, name: str) -> web.Response:
        destination = self._panel.policies().destinations.get(name)
        if destination is None or not principal.may_reach(name):
            raise TurnedAway(
                "destination-unknown",
                f"There is no destination {name[:80]!r} for you. GET /v1/destinations lists those "
                "that there are.",
            )
        return reply(destination_out(destination))

    def _readyz(self) -> web.Response:
        readiness = self._panel.readiness()
        status = "ready" if readiness.ready else "not-ready"
        body = {"status": status, "reasons": readiness.reasons, **readiness.detail}
        return web.Response(
            status=200 if readiness.ready else 503,
            body=orjson.dumps(body),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    def _metrics(self) -> web.Response:
        body, content_type = self._panel.metrics.render()
        return web.Response(body=body, headers={"Content-Type": content_type})


def _check_method(request: web.BaseRequest, parts: list[str]) -> None:
    """Turn away what is asked of no path of ours, or by a method that it does not have."""
    allow: tuple[str, ...]
    match parts:
        case [] | ["livez" | "readyz" | "metrics" | "problems"]:
            allow = _READ
        case ["problems", slug] if slug in PROBLEMS:
            allow = _READ
        case ["v1", "openapi.json" | "effects" | "destinations"]:
            allow = _READ
        case ["v1", "effects" | "destinations", _]:
            allow = _READ
        case ["v1", "effects", _, "resolve"]:
            allow = ("POST",)
        case _:
            raise _nothing_at(request)
    if request.method not in allow:
        turned = TurnedAway(
            "method-unsupported",
            f"{request.method[:20]!r} is not for {request.path[:120]!r}. Use {' or '.join(allow)}.",
        )
        turned.allow = allow
        raise turned


def _nothing_at(request: web.BaseRequest) -> TurnedAway:
    return TurnedAway("not-found", f"There is nothing at {request.path[:120]!r}.")


def _problem(rendered: Rendered) -> web.Response:
    return problem_response(rendered, [(FENCE_VERDICT, f"refused; reason={rendered.slug}")])
