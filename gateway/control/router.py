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
        return response

    async def _route(self, request: web.BaseRequest) -> web.Response:
        """Find the way by path; there are few, and a table would say less than this does."""
        parts = [part for part in request.path.split("/") if part]
        get = request.method in ("GET", "HEAD")
        match parts:
            case [] if get:
                return web.Response(text=_INDEX)
            case ["livez"] if get:
                return web.json_response({"status": "alive", "version": self._panel.version})
            case ["readyz"] if get:
                return self._readyz()
            case ["metrics"] if get:
                return self._metrics()
            case ["problems"] if get:
                return web.Response(text=problem_index(), content_type="text/html")
            case ["problems", slug] if get and slug in PROBLEMS:
                return web.Response(text=problem_page(slug), content_type="text/html")
            case ["v1", *rest]:
                return await self._v1(request, rest, get)
            case _:
                raise TurnedAway("not-found", f"There is nothing at {request.path[:120]!r}.")

    async def _v1(self, request: web.BaseRequest, parts: list[str], get: bool) -> web.Response:
        panel = self._panel
        principal = self._principal(request)
        match parts:
            case ["openapi.json"] if get:
                return web.json_response(openapi(panel.version))
            case ["effects"] if get:
                return await effects.list_effects(panel, request, principal)
            case ["effects", effect_id] if get:
                return await effects.show_effect(panel, request, principal, effect_id)
            case ["effects", effect_id, "resolve"] if request.method == "POST":
                return await effects.resolve_effect(panel, request, principal, effect_id)
            case ["destinations"] if get:
                return self._destinations(principal)
            case ["destinations", name] if get:
                return self._destination(principal, name)
            case ["effects" | "destinations" | "openapi.json", *_]:
                raise TurnedAway("method-unsupported", method=request.method)
            case _:
                raise TurnedAway("not-found", f"There is nothing at {request.path[:120]!r}.")

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
            raise TurnedAway("destination-unknown")
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


def _problem(rendered: Rendered) -> web.Response:
    return problem_response(rendered, [(FENCE_VERDICT, f"refused; reason={rendered.slug}")])
