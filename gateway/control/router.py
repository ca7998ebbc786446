"""The control plane's front: health, metrics, problems and `/v1`."""

from __future__ import annotations

from typing import Final

import orjson
from aiohttp import web

from gateway.control import (
    candidates,
    cases,
    effects,
    following,
    functions,
    handover,
    leases,
    transitions,
    unit_lists,
    units,
)
from gateway.control.panel import Panel
from gateway.control.turn import TurnedAway, reply
from gateway.control.views import destination_out
from gateway.core.errors import Malformed, StoreError
from gateway.core.ids import new_request_id
from gateway.core.principals import Principal
from gateway.web.errors import incident, problem_response
from gateway.wire.control import DestinationPage
from gateway.wire.headers import FENCE_REQUEST_ID, FENCE_VERDICT, parse_fence
from gateway.wire.openapi import openapi
from gateway.wire.problem import PROBLEMS, Rendered, problem_index, problem_page, render

_INDEX: Final = (
    "Fencegate\n\n/d/{destination}/...  the data plane\n/v1/leases  /v1/candidates/{function}  "
    "/v1/functions  /v1/transitions\n/v1/units  /v1/effects  /v1/exceptions  /v1/destinations\n"
    "/v1/openapi.json\n/livez  /readyz  /metrics  /problems/\n"
)
_READ: Final = ("GET", "HEAD")


class ControlPlane:
    """Answers everything that is not under /d/."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        request_id = new_request_id()
        response: web.StreamResponse
        try:
            fence = parse_fence(request.raw_headers)
            request_id = fence.request_id or request_id
            response = await self._route(request, request_id)
        except TurnedAway as turned:
            response = _problem(
                render(
                    turned.slug,
                    status=turned.status,
                    detail=turned.detail,
                    retry_after_s=turned.retry_after_s,
                    facts=dict(turned.facts),
                )
            )
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
        if not response.prepared:  # a stream has sent its own
            response.headers.update(_always(request_id))
        return response

    async def _route(self, request: web.BaseRequest, request_id: str) -> web.StreamResponse:
        """Find the way by path; there are few, and a table would say less than this does."""
        parts = [part for part in request.path.split("/") if part]
        if parts[:1] == ["v1"]:
            return await self._v1(request, parts[1:], self._principal(request), request_id)
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
        self, request: web.BaseRequest, parts: list[str], principal: Principal, request_id: str
    ) -> web.StreamResponse:
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
            case ["exceptions"]:
                return await cases.list_cases(panel, request, principal)
            case ["exceptions", case_id]:
                return await cases.show_case(panel, principal, case_id)
            case ["exceptions", case_id, action]:
                return await cases.act_on_case(panel, request, principal, case_id, action)
            case ["destinations"]:
                return self._destinations(principal)
            case ["destinations", name]:
                return self._destination(principal, name)
            case ["leases" | "candidates" | "functions" | "transitions", *_]:
                return await self._leadership(request, parts, principal, request_id)
            case ["units", *_]:
                return await self._units(request, parts, principal)
            case _:
                raise _nothing_at(request)

    async def _leadership(
        self, request: web.BaseRequest, parts: list[str], principal: Principal, request_id: str
    ) -> web.StreamResponse:
        panel = self._panel
        match parts:
            case ["leases"]:
                return await following.list_leases(panel, request, principal)
            case ["leases", name]:
                return await following.follow_lease(panel, request, principal, name)
            case ["leases", name, verb]:
                return await leases.use_lease(panel, request, principal, name, verb)
            case ["candidates", name]:
                return await candidates.list_candidates(panel, principal, name)
            case ["candidates", name, holder] if request.method == "PUT":
                return await candidates.report_candidate(panel, request, principal, name, holder)
            case ["candidates", name, holder]:
                return await candidates.withdraw_candidate(panel, principal, name, holder)
            case ["functions"]:
                return functions.list_functions(panel, principal)
            case ["functions", name]:
                return await functions.show_function(panel, principal, name)
            case ["functions", name, "handover"]:
                return await handover.show_handover(panel, request, principal, name)
            case ["transitions"] if transitions.wants_events(request):
                always = _always(request_id)
                return await transitions.stream_transitions(panel, request, principal, always)
            case ["transitions"]:
                return await transitions.list_transitions(panel, request, principal)
            case _:
                raise _nothing_at(request)

    async def _units(
        self, request: web.BaseRequest, parts: list[str], principal: Principal
    ) -> web.StreamResponse:
        panel = self._panel
        match parts:
            case ["units"]:
                return await unit_lists.list_units(panel, request, principal)
            case ["units", unit] if request.method == "PUT":
                return await units.create_unit(panel, request, principal, unit)
            case ["units", unit]:
                return await unit_lists.show_unit(panel, principal, unit)
            case ["units", unit, "items"]:
                return await unit_lists.list_items(panel, request, principal, unit)
            case ["units", unit, verb]:
                return await units.VERBS[verb](panel, request, principal, unit)
            case ["units", unit, "items", item, "checkpoint"]:
                return await units.write_checkpoint(panel, request, principal, unit, item)
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
        case ["v1", "openapi.json" | "transitions"]:
            allow = _READ
        case ["v1", "effects" | "destinations" | "leases" | "functions"]:
            allow = _READ
        case ["v1", "effects" | "destinations" | "leases" | "functions" | "candidates", _]:
            allow = _READ
        case ["v1", "functions", _, "handover"]:
            allow = _READ
        case ["v1", "effects", _, "resolve"]:
            allow = ("POST",)
        case ["v1", "exceptions"] | ["v1", "exceptions", _]:
            allow = _READ
        case ["v1", "exceptions", _, action] if action in cases.ACTIONS:
            allow = ("POST",)
        case ["v1", "leases", _, verb] if verb in leases.VERBS:
            allow = ("POST",)
        case ["v1", "units"] | ["v1", "units", _, "items"]:
            allow = _READ
        case ["v1", "units", _]:
            allow = (*_READ, "PUT")
        case ["v1", "units", _, verb] if verb in units.VERBS:
            allow = ("POST",)
        case ["v1", "units", _, "items", _, "checkpoint"]:
            allow = ("PUT",)
        case ["v1", "candidates", _, _]:
            allow = ("PUT", "DELETE")
        case _:
            raise _nothing_at(request)
    if request.method not in allow:
        turned = TurnedAway(
            "method-unsupported",
            f"{request.method[:20]!r} is not for {request.path[:120]!r}. Use {' or '.join(allow)}.",
        )
        turned.allow = allow
        raise turned


def _always(request_id: str) -> dict[str, str]:
    return {FENCE_REQUEST_ID: request_id, "Server": "fencegate"}


def _nothing_at(request: web.BaseRequest) -> TurnedAway:
    return TurnedAway("not-found", f"There is nothing at {request.path[:120]!r}.")


def _problem(rendered: Rendered) -> web.Response:
    return problem_response(rendered, [(FENCE_VERDICT, f"refused; reason={rendered.slug}")])
