"""Intake: from a request to a call that the fence can judge, or to a reason why not.

The order of the checks is the contract : destination, token, header syntax, the
principal's rights and the route, missing fence, body size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

from aiohttp import web

from gateway.core.effect import Fingerprint
from gateway.core.errors import Malformed
from gateway.core.fence import Attempt
from gateway.core.fingerprint import AmbiguousJson, fingerprint, strict_json
from gateway.core.ids import EffectKey, Scope, effect_mark
from gateway.core.policy import (
    NOT_JSON,
    Destination,
    Does,
    Facts,
    Function,
    Mode,
    PolicySet,
    Route,
)
from gateway.core.principals import Principal, Role
from gateway.core.template import RequestValues
from gateway.outbound.headers import request_headers
from gateway.outbound.login import login_header
from gateway.proxy.body import Body
from gateway.proxy.target import Target
from gateway.wire.headers import FenceHeaders, parse_fence

_NEVER: Final = frozenset({"CONNECT", "TRACE"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class TurnedAway(Exception):
    """The request is answered with a problem, and nothing of it was sent."""

    def __init__(self, slug: str, detail: str | None = None, **facts: object) -> None:
        super().__init__(slug)
        self.slug = slug
        self.detail = detail
        self.facts: Mapping[str, object] = facts
        self.call: Call | None = None  # as far as it had come, for the log


@dataclass(slots=True)
class Call:
    """One request on its way. Filled in as intake goes on; `observed` says why it would have
    been refused, where the destination is only watched."""

    target: Target
    method: str
    destination: Destination
    principal: Principal
    fence: FenceHeaders
    headers: list[tuple[str, str]]
    candidates: list[tuple[Route, dict[str, str]]]
    route: Route | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    function: Function | None = None
    observed: str | None = None
    body: Body | None = None
    values: RequestValues | None = None
    attempt: Attempt | None = None
    covers: str = ""

    @property
    def is_read(self) -> bool:
        return self.route is not None and self.route.does is Does.READ

    @property
    def limit_bytes(self) -> int:
        """The largest body that any route which may still match takes."""
        routes = [route for route, _ in self.candidates]
        return max(
            (route.limits.body_max_bytes for route in routes),
            default=self.destination.limits.body_max_bytes,
        )

    def turn_away(self, slug: str, detail: str | None = None, **facts: object) -> None:
        """Refuse; or, where the destination is only watched, note it and go on."""
        if self.destination.mode is not Mode.OBSERVE:
            raise TurnedAway(slug, detail, **facts)
        self.observed = self.observed or slug


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
    body = _json_or_refuse(call) if asks_body else NOT_JSON
    facts = Facts(None, _grouped(call.headers), body)
    for route, parts in call.candidates:
        values = _values(call, parts, facts.body)
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


def finish(call: Call) -> None:
    """Work out the key, what is covered and the fingerprint, now that the body is here."""
    route = call.route
    if call.observed is not None or route is None:
        call.covers = _default_covers(call)
        return
    try:
        body = _json(call) if route.reads_request_body else NOT_JSON
        if route.uses_values:
            call.values = _values(call, call.parts, body)
        if not call.is_read:
            call.attempt = _attempt(call, route)
            call.covers = call.attempt.covers
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
    if route.covers is not None:
        if "effect" in route.covers.sources:
            values = call.values = replace(values, effect=effect_mark(key))
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
    )


def _default_covers(call: Call) -> str:
    """Destination and path without query. Decoded, so that two spellings of one path cannot
    overtake each other."""
    path = re.sub("/{2,}", "/", unquote(call.target.path))
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


def _values(call: Call, parts: Mapping[str, str], body: Any) -> RequestValues:
    return RequestValues(
        parts=parts,
        query=_query(call.target.query),
        query_string=call.target.query or "",
        headers=_Fields(call.headers),
        body=None if body is NOT_JSON else body,
        unit=call.fence.unit or "",
        term=call.fence.term or 0,
    )


class _Fields(Mapping[str, str]):
    """Header fields by name in lower case, sorted out only when a template asks for one."""

    def __init__(self, headers: Sequence[tuple[str, str]]) -> None:
        self._headers = headers
        self._found: dict[str, str] | None = None

    def _by_name(self) -> dict[str, str]:
        if self._found is None:
            self._found = {name.lower(): value for name, value in self._headers}
        return self._found

    def __getitem__(self, name: str) -> str:
        return self._by_name()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name())

    def __len__(self) -> int:
        return len(self._by_name())


def _query(text: str | None) -> dict[str, str]:
    """Return the query's fields that are there once; one that is there twice decides nothing."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for piece in (text or "").split("&"):
        name, _, value = piece.partition("=")
        name = unquote_plus(name)
        if name in found:
            twice.add(name)
        found[name] = unquote_plus(value)
    return {name: value for name, value in found.items() if name and name not in twice}


def _json_or_refuse(call: Call) -> Any:
    """Parse the body for routes that choose by it; refuse one that only looks like no JSON.

    A destination may read what this does not (a coded body, another charset, a huge one), and
    a route that refuses must not be got round by that.
    """
    found = _json(call)
    body = call.body
    if found is not NOT_JSON or body is None or not body.size:
        return found
    fields = _grouped(call.headers)
    coded = "content-encoding" in fields
    if body.data is None or coded or _may_be_json(body.data, fields.get("content-type", [""])[0]):
        call.turn_away(
            "malformed",
            "The policy chooses the route by the JSON body, and this one cannot be read: it has "
            "to be plain UTF-8 JSON, uncoded, without a byte order mark, and not too large.",
        )
    return NOT_JSON


def _may_be_json(data: bytes, content_type: str) -> bool:
    if "json" in content_type.lower() or b"\0" in data[:4]:
        return True
    return data.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1] in (b"{", b"[", b'"')


def _json(call: Call) -> Any:
    raw = call.body.load() if call.body is not None else None
    if not raw:
        return NOT_JSON
    try:
        return strict_json(raw)
    except AmbiguousJson as error:
        if call.destination.mode is not Mode.OBSERVE:
            raise TurnedAway(
                "malformed",
                f"In the JSON body {error}; the policy reads this body, so it must be unambiguous.",
            ) from None
        return NOT_JSON
    except ValueError:
        return NOT_JSON


def _grouped(headers: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in headers:
        grouped.setdefault(name.lower(), []).append(value)
    return grouped


def read_without_policy(call: Call) -> bool:
    """Whether a request that no route matched, but is let through to be watched, is a read."""
    return call.route is None and call.method in _SAFE
