"""Intake: from a request to a call that the fence can judge, or to a reason why not.

The order of the checks is the contract : destination, token, header syntax, the
principal's rights and the route, missing fence, body size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from aiohttp import web

from gateway.core.dress import Dressed, dress
from gateway.core.effect import Fingerprint
from gateway.core.errors import Malformed
from gateway.core.fence import Attempt
from gateway.core.fingerprint import fingerprint
from gateway.core.ids import EffectKey, Scope, effect_mark
from gateway.core.policy import (
    NOT_JSON,
    Destination,
    Does,
    Facts,
    Mode,
    PolicySet,
    Route,
)
from gateway.core.principals import Principal, Role
from gateway.core.template import RequestValues
from gateway.outbound.headers import request_headers
from gateway.outbound.login import login_header
from gateway.proxy.call import Call
from gateway.proxy.reading import grouped, json_or_refuse, read_json, request_values
from gateway.proxy.target import Target
from gateway.web.errors import TurnedAway
from gateway.wire.headers import FenceHeaders, parse_fence

_NEVER: Final = frozenset({"CONNECT", "TRACE"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def check_line(request: web.BaseRequest) -> None:
    """Refuse what no destination gets: other HTTP versions, tunnels, upgrades, odd codings."""
    if request.version not in ((1, 1), (1, 0)):
        raise TurnedAway("http-version-unsupported")
    if request.method in _NEVER:
        raise TurnedAway("method-unsupported", method=request.method)
    headers = request.headers
    if "Upgrade" in headers:
        raise TurnedAway("not-implemented", upgrade=headers["Upgrade"][:80])
    coding = headers.get("Transfer-Encoding")
    if coding is not None and coding.strip().lower() != "chunked":
        raise TurnedAway("not-implemented", transfer_encoding=coding[:80])
    expect = headers.get("Expect")
    if expect is not None and expect.strip().lower() != "100-continue":
        raise TurnedAway("expectation-failed", expect=expect[:80])


def begin(
    request: web.BaseRequest, target: Target, destination: Destination, principal: Principal
) -> Call:
    """Check header syntax and what the principal may reach; find the routes that may match."""
    raw = request.raw_headers
    try:
        headers = request_headers(raw, login_header(destination.login))
        fence = _fence(raw, destination)
    except Malformed as error:
        raise TurnedAway("malformed", str(error)) from None
    if not principal.is_a(Role.WORKER):
        raise TurnedAway("forbidden", f"Principal {principal.name!r} is no worker.")
    if not principal.may_reach(destination.name):
        raise TurnedAway(
            "forbidden", f"Principal {principal.name!r} may not reach {destination.name!r}."
        )
    return Call(
        target=target,
        method=request.method,
        destination=destination,
        principal=principal,
        fence=fence,
        headers=headers,
        candidates=destination.candidates(request.method, target.path),
        observed=None if fence is not _UNREADABLE else "malformed",
    )


_NO_VALUES: Final = RequestValues(parts={})
_UNREADABLE: Final = FenceHeaders()
"""Stands for fence fields that do not parse, where the destination is only watched."""


def _fence(raw: Sequence[tuple[bytes, bytes]], destination: Destination) -> FenceHeaders:
    try:
        return parse_fence(raw)
    except Malformed:
        if destination.mode is Mode.OBSERVE:
            return _UNREADABLE
        raise


def choose_early(call: Call, policies: PolicySet) -> None:
    """Choose the route if the body has no say in it, and check the caller's rights to it.

    Leadership gives no permission: function and destination are checked for every call.
    """
    first = call.candidates[0] if call.candidates else None
    if first is not None and first[0].when is not None:
        return  # the body decides; see choose_late
    _choose(call, first, policies)


def choose_late(call: Call, policies: PolicySet) -> None:
    """Choose the route by the body, where routes ask about it."""
    if call.route is not None or call.observed is not None:
        return
    asks_body = any(route.when and route.when.reads_body for route, _ in call.candidates)
    body = json_or_refuse(call) if asks_body else NOT_JSON
    facts = Facts(None, grouped(call.headers), body)
    for route, parts in call.candidates:
        values = request_values(call, parts, facts.body)
        if route.when is None or route.when.holds(facts, values):
            _choose(call, (route, parts), policies)
            return
    _choose(call, None, policies)


def _choose(call: Call, chosen: tuple[Route, dict[str, str]] | None, policies: PolicySet) -> None:
    if chosen is None:
        call.turn_away(
            "route-refused",
            f"No route of {call.destination.name!r} matches {call.method} {call.target.path!r}; "
            "what no route matches is refused.",
            destination=call.destination.name,
        )
    else:
        call.route, call.parts = chosen
        if call.route.does is Does.REFUSE:
            call.turn_away(
                "route-refused",
                f"The policy refuses {call.route.name!r}: {call.route.because}",
                route=call.route.name,
            )
    _check_function(call, policies)
    if call.observed is None and not call.is_read:
        _check_fence(call)


def _check_function(call: Call, policies: PolicySet) -> None:
    name = call.fence.function
    if name is None:
        return
    call.function = policies.functions.get(name)
    if call.function is None:
        call.turn_away(
            "function-unknown",
            f"No policy declares the function {name!r}; declare it, or correct Fence-Function.",
            function=name,
        )
    allowed = call.destination.functions
    if allowed is not None and name not in allowed:
        call.turn_away(
            "forbidden", f"Function {name!r} may not use {call.destination.name!r}.", function=name
        )
    if not call.principal.may_use(name):
        call.turn_away(
            "forbidden",
            f"Principal {call.principal.name!r} may not act for function {name!r}.",
            function=name,
        )


def _check_fence(call: Call) -> None:
    """A write says for which function, under which term, by whom, and under which key."""
    fence = call.fence
    has_key = fence.key is not None or (call.route is not None and call.route.key is not None)
    per_unit = call.function is not None and call.function.per_unit
    missing = [
        name
        for name, there in (
            ("Fence-Function", fence.function is not None),
            ("Fence-Term", fence.term is not None),
            ("Fence-Holder", fence.holder is not None),
            ("Idempotency-Key", has_key),
            ("Fence-Unit", fence.unit is not None or not per_unit),
        )
        if not there
    ]
    if missing:
        call.turn_away("fence-missing", f"Add {', '.join(missing)}.", missing=missing)


def finish(call: Call, now_s: Callable[[], int]) -> None:
    """Work out the key, what is covered and the fingerprint, now that the body is here.

    `now_s` tells when this is sent for the first time, if it is.
    """
    route = call.route
    if call.observed is not None or route is None:
        call.covers = _default_covers(call)
        return
    try:
        body = read_json(call) if route.reads_request_body else NOT_JSON
        if route.uses_values:
            call.values = request_values(call, call.parts, body)
        if not call.is_read:
            call.attempt = _attempt(call, route)
            call.covers = call.attempt.covers
            if route.dresses:
                call.dressed = _dressed(call, route, now_s())
    except Malformed as error:
        call.turn_away("malformed", str(error))
        call.attempt, call.covers = None, _default_covers(call)


def _attempt(call: Call, route: Route) -> Attempt:
    fence, function = call.fence, call.function
    values = call.values or _NO_VALUES
    if function is None or fence.term is None or fence.holder is None:
        raise Malformed("the fence is not complete")
    key_text = fence.key if route.key is None else route.key.render(values)
    if key_text is None or not 1 <= len(key_text) <= 255:
        raise Malformed(f"the key {key_text!r} has to be 1 to 255 characters long")
    unit = fence.unit or ""
    key = EffectKey(call.destination.name, function.name, unit, key_text)
    covers = _default_covers(call)
    if route.uses_mark:
        values = call.values = replace(values, effect=effect_mark(key))
    if route.covers is not None:
        covers = route.covers.render(values)
    return Attempt(
        key=key,
        scope=Scope(function.name, unit if function.per_unit else ""),
        term=fence.term,
        holder=fence.holder,
        fingerprint=_fingerprint(call, route),
        covers=covers,
        rules=function.rules,
        on_duplicate=route.on_duplicate,
        max_attempts=route.limits.max_attempts,
        item=fence.item,
    )


def _dressed(call: Call, route: Route, now_s: int) -> Dressed:
    """Return what is really sent. What cannot be dressed is malformed, and nothing is sent."""
    body = call.body
    if route.edits_body and body is not None and body.file is not None:
        raise Malformed(
            f"the policy puts its mark into the body, and {body.size} bytes are too many for "
            "that; send less at once"
        )
    return dress(
        route,
        method=call.method,
        target=call.target.text,
        headers=call.headers,
        body=body.data if body is not None else None,
        values=replace(call.values or _NO_VALUES, first_sent_s=now_s),
    )


def _default_covers(call: Call) -> str:
    """Destination and path without query. Decoded, so that two spellings of one path cannot
    overtake each other."""
    path = call.target.path
    if "%" in path or "//" in path:
        path = re.sub("/{2,}", "/", unquote(path))
    return f"{call.destination.name}{path.rstrip('/')}"


def _fingerprint(call: Call, route: Route) -> Fingerprint:
    body = call.body
    if body is None:
        raise Malformed("the body has not been read")
    return fingerprint(
        method=call.method,
        target=call.target.text,
        headers=call.headers,
        body_digest=body.digest,
        body=body.load(),
        ignore=route.ignore_in_fingerprint,
    )


def read_without_policy(call: Call) -> bool:
    """Whether a request that no route matched, but is let through to be watched, is a read."""
    return call.route is None and call.method in _SAFE
