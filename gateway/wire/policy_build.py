"""From the words of a file to what the house works with: core's frozen policy objects."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

from gateway.core.fence import OnDuplicate
from gateway.core.policy import (
    Connections,
    Destination,
    Does,
    Function,
    Guard,
    Is,
    Limits,
    Login,
    Mode,
    Route,
    Rule,
    SlowDown,
)
from gateway.wire.policy_complaint import Loc, Sheet, show, word_at
from gateway.wire.policy_function import build_function
from gateway.wire.policy_lint import lint_route, lint_slow_down
from gateway.wire.policy_lint_sent import lint_login_header
from gateway.wire.policy_login import Origin, Secrets, build_login, parse_base_url, stray_references
from gateway.wire.policy_model import (
    DestinationWords,
    LimitsWords,
    RouteWords,
    RuleWords,
    SlowDownWords,
)
from gateway.wire.policy_paths import RouteContext, match
from gateway.wire.policy_route import (
    build_key,
    build_look,
    build_send_as,
    build_stamp,
    build_test,
    build_version,
)
from gateway.wire.policy_shadow import Turn, complain_of_shadows
from gateway.wire.policy_shape import known_words, shape, shape_login
from gateway.wire.policy_yaml import SPOILT

STALE_AFTER_DAYS: Final = 180
_LOGIN_FORM_WORDS: Final = frozenset({"kind", "name", "scheme"})
_ROUTE_WORDS: Final = frozenset(known_words(RouteWords)) - {"when"}


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its name in the folder, its bytes, and what was read from them."""

    name: str
    raw: bytes
    sheet: Sheet

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()


def build_file(
    data: Any, source: Source, secrets: Secrets, today: date | None
) -> Destination | Function | None:
    """Return what the file describes, or None after complaining about all that is wrong."""
    sheet = source.sheet
    if not isinstance(data, dict):
        if data is not SPOILT:
            sheet.error((), f"{show(data)} is no policy; write destination: or function:")
        return None
    for loc, reference in list(stray_references(data, _may_refer)):
        sheet.error(
            loc,
            f"{word_at(loc)}: {reference} may stand in login's values and base_url's host only; "
            "write the text itself",
        )
        data = _spoil(data, loc)
    kinds = [word for word in ("destination", "function") if word in data]
    if len(kinds) != 1:
        found = "both of them" if kinds else "neither"
        sheet.error((), f"a file is for one destination: or one function:, and this has {found}")
        return None
    if kinds == ["function"]:
        return build_function(data, source.sheet, source.name, source.digest)
    return _destination(data, source, secrets, today)


def _may_refer(loc: Loc) -> bool:
    in_login = len(loc) > 1 and loc[0] == "login" and loc[1] not in _LOGIN_FORM_WORDS
    return in_login or loc == ("base_url",)


def _spoil(data: Any, loc: Loc) -> Any:
    if not loc:
        return SPOILT
    if isinstance(data, dict):
        return {w: _spoil(v, loc[1:]) if w == loc[0] else v for w, v in data.items()}
    return [_spoil(v, loc[1:]) if at == loc[0] else v for at, v in enumerate(data)]


def _destination(
    data: dict[str, Any], source: Source, secrets: Secrets, today: date | None
) -> Destination | None:
    sheet = source.sheet
    own = {word: value for word, value in data.items() if word not in {"routes", "login"}}
    words = shape(DestinationWords, own, sheet, ())
    login = _login(data, secrets, sheet)
    origin = _origin(own, secrets, sheet)
    if words is not None:
        _complain_of_age(words, sheet, today)
        for at, slow in enumerate(words.slow_down):
            lint_slow_down(sheet, ("slow_down", at), slow)
    limits = merge(Limits(), words.limits) if words is not None else None
    routes = _routes(data, sheet, limits)
    if login is not None:
        lint_login_header(sheet, routes, login.header_name)
    if words is None or origin is None or sheet.failed:
        return None
    return Destination(
        name=words.destination,
        scheme=origin.scheme,
        host=origin.host,
        port=origin.port,
        prefix=origin.prefix,
        digest=source.digest,
        text=source.raw.decode(errors="replace"),
        file=source.name,
        boundary=words.boundary,
        checked=words.checked.isoformat() if words.checked else None,
        login=login,
        limits=limits or Limits(),
        slow_down=tuple(_slow_down(slow) for slow in words.slow_down),
        functions=None if words.functions is None else frozenset(words.functions),
        mode=Mode(words.mode),
        connections=Connections(words.connections),
        setup=tuple(words.setup),
        routes=routes,
    )


def _login(data: dict[str, Any], secrets: Secrets, sheet: Sheet) -> Login | None:
    if "login" not in data:
        return None
    words = shape_login(data["login"], sheet, ("login",))
    return build_login(words, secrets, sheet, ("login",)) if words is not None else None


def _origin(data: dict[str, Any], secrets: Secrets, sheet: Sheet) -> Origin | None:
    text = data.get("base_url")
    if not isinstance(text, str) or not text.strip():
        return None  # shape has complained
    try:
        return parse_base_url(text, secrets)
    except ValueError as error:
        sheet.error(("base_url",), f"base_url: {error}")
        return None


def _complain_of_age(words: DestinationWords, sheet: Sheet, today: date | None) -> None:
    if words.checked is None:
        sheet.warning(
            ("destination",),
            "checked is missing; write checked: YYYY-MM-DD, the day the facts here were checked",
        )
    elif today is not None and (today - words.checked).days > STALE_AFTER_DAYS:
        sheet.warning(
            ("checked",),
            f"checked: {words.checked} is more than {STALE_AFTER_DAYS} days ago; "
            "check the facts again and write the new date",
        )
    elif today is not None and words.checked > today:
        sheet.warning(("checked",), f"checked: {words.checked} is yet to come; write a day gone by")


def _routes(data: dict[str, Any], sheet: Sheet, limits: Limits | None) -> tuple[Route, ...]:
    given = data.get("routes")
    if given is SPOILT:
        return ()
    if not isinstance(given, list) or not given:
        found = "are missing" if given is None else f"are {show(given)}"
        sheet.error(
            ("routes",),
            f"routes {found}, and what no route matches is refused; list at least one",
        )
        return ()
    routes: list[Route] = []
    turns: list[Turn] = []
    for at, raw in enumerate(given):
        route, turn = _route(raw, sheet, ("routes", at), limits)
        routes += [route] if route is not None else []
        turns += [turn] if turn is not None else []
    complain_of_shadows(sheet, turns)
    return tuple(routes)


def _route(
    raw: Any, sheet: Sheet, loc: Loc, limits: Limits | None
) -> tuple[Route | None, Turn | None]:
    context = RouteContext(_parts(raw))
    words = shape(RouteWords, raw, sheet, loc, context)
    if words is None:
        return None, _turn_of_broken(raw, loc)
    turn = Turn(loc, words.name or words.match.text, words.match, words.when)
    if limits is None:
        return None, turn
    route = Route(
        name=words.name or words.match.text,
        match=words.match,
        does=Does(words.does),
        line=sheet.line(loc),
        when=None if words.when is None else build_test(words.when),
        because=words.because,
        note=words.note,
        key=words.key,
        on_duplicate=OnDuplicate(words.on_duplicate),
        guard=Guard(words.guard),
        covers=words.covers,
        results=tuple(_rule(rule) for rule in words.result),
        ignore_in_fingerprint=tuple(words.ignore_in_fingerprint),
        native_key=None if words.native_key is None else build_key(words.native_key),
        stamp=build_stamp(words),
        send_as=None if words.send_as is None else build_send_as(words.send_as),
        version=None if words.version is None else build_version(words.version),
        look=None if words.look is None else build_look(words.look),
        repeat_is_harmless=words.repeat_is_harmless,
        limits=merge(limits, words.limits),
    )
    lint_route(sheet, loc, words, route)
    return route, turn


def _parts(raw: Any) -> frozenset[str] | None:
    try:
        return match(raw["match"]).parts
    except (ValueError, TypeError, KeyError):
        return None


def _turn_of_broken(raw: Any, loc: Loc) -> Turn | None:
    """A route with a wrong value can still stand in another's way, or behind it; one with a
    word that is not known may have been meant to test more than its match."""
    if _parts(raw) is None or not raw.keys() <= _ROUTE_WORDS:
        return None
    name = raw.get("name")
    return Turn(loc, name if isinstance(name, str) else raw["match"], match(raw["match"]), None)


def merge(limits: Limits, words: LimitsWords) -> Limits:
    """Return `limits` with those that `words` names overridden."""
    given = {
        "at_once": words.at_once,
        "timeout_ms": words.timeout,
        "connect_ms": words.connect,
        "settle_ms": words.settle,
        "body_max_bytes": words.body_max,
        "barrier_wait_ms": words.barrier_wait,
        "max_attempts": words.max_attempts,
    }
    return replace(limits, **{name: value for name, value in given.items() if value is not None})


def _rule(words: RuleWords) -> Rule:
    return Rule(
        when=build_test(words.when),
        means=Is(words.is_),
        take=tuple(words.take.items()),
        alarm=words.alarm,
        note=words.note,
        never_retry=words.retry == "never",
    )


def _slow_down(words: SlowDownWords) -> SlowDown:
    return SlowDown(
        when=build_test(words.when),
        wait_header=words.wait.header.lower() if words.wait.header else None,
        wait_as=words.wait.as_,
        wait_else_ms=words.wait.else_,
    )
