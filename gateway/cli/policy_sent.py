"""What a route puts into what is sent, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gateway.core.guards import NativeKey, SendAs, Stamp, Version
from gateway.core.measures import show_duration
from gateway.core.policy import Route, Test
from gateway.core.template import Template


def sent_lines(route: Route, say_test: Callable[[Test], str]) -> list[str]:
    """Say what is set, rewritten and asked for on the way to the destination."""
    lines: list[str] = []
    if route.send_as is not None:
        lines += _rewrite(route.send_as)
    if route.stamp is not None:
        lines.append(_stamps(route.stamp))
    if route.native_key is not None:
        lines += _key(route.native_key, say_test)
    if route.version is not None:
        lines.append(_condition(route.version, say_test))
    return lines


def sent_facts(route: Route) -> dict[str, Any]:
    """Return the same for JSON: the words as the file has them, without the answer's tests."""
    facts: dict[str, Any] = {}
    if route.stamp is not None:
        facts["stamp"] = {path.text: t.text for path, t in route.stamp.json}
        facts["stamp_form"] = _texts(route.stamp.form)
    if route.send_as is not None:
        facts["send_as"] = {
            "request": _request(route.send_as),
            "query": _texts(route.send_as.query),
            "header": _texts(route.send_as.header),
            "drop": [path.text for path in route.send_as.drop],
        }
    if route.native_key is not None:
        key = route.native_key
        facts["native_key"] = {
            "place": _place(key),
            "value": key.value.text,
            "window_ms": key.window_ms,
            "repeat_returns": key.repeat_returns,
            "at_once": key.at_once,
        }
    if route.version is not None:
        facts["version"] = {
            "send": route.version.header,
            "send_query": _texts(route.version.query),
            "from": "worker" if route.version.read is None else route.version.read.text,
            "exact": route.version.exact,
        }
    return facts


def _texts(fields: Iterable[tuple[str, Template]]) -> dict[str, str]:
    return {name: template.text for name, template in fields}


def _named(fields: Iterable[tuple[str, Template]]) -> str:
    return ", ".join(f"{name} = {template.text}" for name, template in fields)


def _request(send_as: SendAs) -> str | None:
    return None if send_as.target is None else f"{send_as.method} {send_as.target.text}"


def _rewrite(send_as: SendAs) -> list[str]:
    parts = [
        ("as ", _request(send_as) or ""),
        ("with query ", _named(send_as.query)),
        ("with header ", _named(send_as.header)),
        ("without ", ", ".join(path.text for path in send_as.drop)),
    ]
    return [f"sent {word}{said}" for word, said in parts if said]


def _stamps(stamp: Stamp) -> str:
    fields = [(path.text, template) for path, template in stamp.json] or stamp.form
    kind = "form" if stamp.form else "JSON body"
    return f"stamped in the {kind}: {_named(fields)}"


def _place(key: NativeKey) -> str:
    if key.header is not None:
        return f"header {key.header}"
    return f"query {key.query}" if key.body is None else f"body {key.body.text}"


def _key(key: NativeKey, say_test: Callable[[Test], str]) -> list[str]:
    window = "an unknown time" if key.window_ms is None else show_duration(key.window_ms)
    one = ", one at a time" if key.at_once == 1 else ""
    lines = [f"native key in {_place(key)} = {key.value.text}, kept for {window}{one}"]
    for name, test in (
        ("a replay", key.replayed_when),
        ("still running", key.busy_when),
        ("another request under the key", key.misuse_when),
        ("keys are known", key.supported_when),
    ):
        lines += [f"  {name} if {say_test(test)}"] if test is not None else []
    return lines


def _condition(version: Version, say_test: Callable[[Test], str]) -> str:
    exact = "exact" if version.exact else "not exact"
    whence = "the worker's" if version.read is None else f"{version.read.text} of the look"
    what = f"{version.header} ({whence})" if version.header else f"query {_named(version.query)}"
    return f"under the condition {what}, {exact}; lost if {say_test(version.lost_when)}"
