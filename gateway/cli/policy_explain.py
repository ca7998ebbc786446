"""What the gateway would do with one request, told by the policies alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from gateway.cli.policy_function import leadership_words
from gateway.cli.policy_sent import sent_lines
from gateway.cli.policy_text import fold, guard_words, look_words, rule_words, say_test
from gateway.core.errors import Malformed, PolicyError
from gateway.core.fingerprint import strict_json
from gateway.core.ids import EffectKey, effect_mark, parse_key
from gateway.core.match import split_path
from gateway.core.policy import NOT_JSON, Destination, Does, Facts, Function, PolicySet, Route
from gateway.core.template import RequestValues, Template

_MARK: Final = "(mark)"


@dataclass(frozen=True, slots=True)
class Question:
    """One request to explain. `path` may hold a query; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """The answer, and whether the request would be let through to the fence."""

    text: str
    passes: bool


def parse_headers(given: Iterable[str]) -> dict[str, str]:
    """Read `Name: value` as given on the command line. Raises PolicyError with the value."""
    headers: dict[str, str] = {}
    for line in given:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise PolicyError(f"{line!r} is not a header; write 'Name: value'")
        headers[name.strip().lower()] = value.strip()
    return headers


def find_destination(policies: PolicySet, path: str, named: str | None) -> tuple[Destination, str]:
    """Return the destination meant, and the path at it. Raises PolicyError saying how to ask."""
    name = named
    if path.startswith("/d/"):
        first, slash, rest = path.removeprefix("/d/").partition("/")
        if named in (None, first):
            name, path = first.partition("?")[0], slash + rest or "/"
    known = sorted(policies.destinations)
    if name is None and len(known) == 1:
        name = known[0]
    if name is None:
        raise PolicyError(f"which destination? Write /d/NAME{path} or --destination NAME: {known}")
    if name not in policies.destinations:
        raise PolicyError(f"the destination {name!r} is not in these policies; known are {known}")
    if not path.startswith("/"):
        raise PolicyError(f"the path {path!r} does not begin with /; write /d/{name}/{path}")
    return policies.destinations[name], path


def explain(
    destination: Destination, question: Question, functions: Mapping[str, Function]
) -> Explained:
    """Say which route has its turn, and what it makes of the request."""
    raw_path, _, query = question.path.partition("?")
    segments = split_path(raw_path)
    body = _body(question.body)
    lines = [f"{question.method} {question.path} at {destination.name} ({destination.base_url})"]
    for number, route in enumerate(destination.routes, start=1):
        parts = route.match.parts_of(question.method, segments)
        values = _values(question, query, body, parts or {})
        reason = _why_not(route, question, parts, body, values)
        if reason is None:
            lines += ["", f"route {number}: {route.name} ({destination.file}:{route.line})"]
            return _told(lines, destination, route, values, raw_path, question, functions)
        lines.append(f"  not route {number}, {route.name}: {reason}")
    lines += ["", "No route matches, so it is refused (403 route-refused); nothing is sent."]
    return Explained(fold(lines), passes=False)


def _body(raw: bytes | None) -> Any:
    if not raw:
        return NOT_JSON
    try:
        return strict_json(raw)
    except ValueError:
        return NOT_JSON


def _values(question: Question, query: str, body: Any, parts: Mapping[str, str]) -> RequestValues:
    term = question.headers.get("fence-term", "")
    return RequestValues(
        parts=parts,
        query=dict(parse_qsl(query, keep_blank_values=True)),
        query_string=query,
        headers=question.headers,
        body=None if body is NOT_JSON else body,
        unit=question.headers.get("fence-unit", ""),
        term=int(term) if term.isascii() and term.isdigit() else 0,
        effect=_MARK,
    )


def _why_not(
    route: Route,
    question: Question,
    parts: Mapping[str, str] | None,
    body: Any,
    values: RequestValues,
) -> str | None:
    """Return why `route` is not for this request, or None if it is."""
    if question.method not in route.match.methods:
        return f"it is for {'|'.join(sorted(route.match.methods))}"
    if parts is None:
        return f"the path is not {route.match.text.partition(' ')[2]}"
    if route.when is None:
        return None
    headers = {name: [value] for name, value in question.headers.items()}
    if route.when.holds(Facts(None, headers, body), values):
        return None
    return f"it is for requests with {say_test(route.when)}"


def _told(
    lines: list[str],
    destination: Destination,
    route: Route,
    values: RequestValues,
    raw_path: str,
    question: Question,
    functions: Mapping[str, Function],
) -> Explained:
    if route.does is Does.REFUSE:
        lines.append(f"  refused (403 route-refused): {route.because}")
        return Explained(fold(lines), passes=False)
    if route.does is Does.READ:
        lines.append("  read: forwarded, not fenced, nothing recorded")
        return Explained(fold(lines), passes=True)
    key, key_line = _key(route, values, question)
    values = _marked(values, destination, question, key)
    proof, refused = _leadership(destination, question, functions)
    lines += [
        *(f"  {line}" for line in proof),
        f"  key {key_line}",
        f"  covers {_covers(route, values, destination, raw_path)}",
        f"  {guard_words(route)}",
        *(f"  {line}" for line in sent_lines(route, say_test)),
    ]
    lines += [f"  look: {look_words(route.look)}"] if route.look is not None else []
    lines += ["  answers:", *(f"    {line}" for line in answer_lines(destination, route))]
    if destination.mode == "observe":
        lines.append("  mode observe: forwarded whatever the fence says, and only noted")
    return Explained(fold(lines), passes=not refused or destination.mode == "observe")


def _leadership(
    destination: Destination, question: Question, functions: Mapping[str, Function]
) -> tuple[list[str], bool]:
    """Say which proof a write needs; of the function that it names, how one gets that proof,
    and whether it is refused."""
    name = question.headers.get("fence-function")
    function = None if name is None else functions.get(name)
    unit = " Fence-Unit," if function is not None and function.per_unit else ""
    needs = f"write: needs Fence-Function,{unit} Fence-Term, Fence-Holder and a key"
    if name is None:
        return [needs], False
    if function is None:
        return [needs, f"function {name!r} has no file (403 function-unknown)"], True
    if destination.functions is not None and name not in destination.functions:
        return [needs, f"function {name!r} may not use {destination.name} (403 forbidden)"], True
    leader = f"function {name}, one leader per {'unit' if function.per_unit else 'function'}:"
    return [needs, leader, *(f"  {each}" for each in leadership_words(function))], False


def _key(route: Route, values: RequestValues, question: Question) -> tuple[str | None, str]:
    if route.key is not None:
        key, words = _rendered(route.key, values)
        shown = words if key is None else repr(key)
        return key, f"{shown} (from {route.key.text})"
    given = question.headers.get("idempotency-key")
    if given is None:
        return None, "from the Idempotency-Key header, which is absent here (428 fence-missing)"
    try:
        key = parse_key(given)
    except Malformed as error:
        return None, f"cannot be used (400 malformed): {error}"
    return key, f"{key!r} (from the Idempotency-Key header)"


def _marked(
    values: RequestValues, destination: Destination, question: Question, key: str | None
) -> RequestValues:
    """Put the effect's mark in, if all that it is made of was given."""
    function = question.headers.get("fence-function")
    if key is None or function is None:
        return values
    mark = effect_mark(EffectKey(destination.name, function, values.unit, key))
    return RequestValues(
        parts=values.parts,
        query=values.query,
        query_string=values.query_string,
        headers=values.headers,
        body=values.body,
        unit=values.unit,
        term=values.term,
        effect=mark,
    )


def _covers(route: Route, values: RequestValues, destination: Destination, raw_path: str) -> str:
    if route.covers is None:
        return f"{destination.name} {raw_path} (destination and path)"
    return f"{_rendered(route.covers, values)[1]} (from {route.covers.text})"


def _rendered(template: Template, values: RequestValues) -> tuple[str | None, str]:
    try:
        rendered = template.render(values)
    except Malformed as error:
        return None, f"cannot be made: {error}"
    return rendered, rendered


def answer_lines(destination: Destination, route: Route) -> list[str]:
    """Say what each answer would mean, in the order in which it is asked."""
    lines = [f"{say_test(slow.when)}: no-effect, slow down" for slow in destination.slow_down]
    key, version = route.native_key, route.version
    if key is not None and key.misuse_when is not None:
        lines.append(f"{say_test(key.misuse_when)}: unknown (key misused), raises an alarm")
    if key is not None and key.busy_when is not None:
        lines.append(f"{say_test(key.busy_when)}: unknown (still running)")
    if version is not None:
        lines.append(f"{say_test(version.lost_when)}: rejected (condition lost)")
    lines += [rule_words(rule) for rule in route.results]
    good = "2xx: unknown (no rule for it)" if route.results else "2xx: confirmed"
    return [
        *lines,
        good,
        "303: confirmed",
        "401 403 407 421 425 429, or no byte sent: no-effect",
        "other 4xx but 408, and 307 308: rejected",
        "anything else, or no answer: unknown",
    ]
