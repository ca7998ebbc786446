"""Policies in words: what `fencegate policy check` and `show` print."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from typing import Any, Final

from gateway.cli.policy_function import function_facts, function_lines
from gateway.cli.policy_sent import sent_facts, sent_lines
from gateway.core.guarantee import guarantee
from gateway.core.measures import show_duration
from gateway.core.policy import (
    Destination,
    Does,
    Expect,
    Login,
    Look,
    PolicySet,
    Route,
    Rule,
    Test,
)
from gateway.wire.policy_file import Complaint, Loaded

WIDTH: Final = 100
PARTIAL: Final = (
    "BOUNDARY PARTIAL: others can reach this destination around the gateway; "
    "only what passes through it is fenced."
)


def check_text(loaded: Loaded) -> str:
    """Return each complaint on its line, and the summary."""
    return "\n".join([*(str(one) for one in loaded.complaints), _summary(loaded)])


def check_json(loaded: Loaded, *, ok: bool) -> str:
    return json.dumps(
        {
            "ok": ok,
            "files": len(loaded.files),
            "errors": len(loaded.errors),
            "warnings": len(loaded.warnings),
            "complaints": [_complaint_facts(one) for one in loaded.complaints],
        },
        indent=2,
    )


def _complaint_facts(one: Complaint) -> dict[str, Any]:
    return {
        "file": one.file,
        "line": one.line,
        "column": one.column,
        "severity": one.severity,
        "message": one.message,
    }


def _summary(loaded: Loaded) -> str:
    errors, warnings, files = len(loaded.errors), len(loaded.warnings), len(loaded.files)
    return f"{_n(errors, 'error')}, {_n(warnings, 'warning')} in {_n(files, 'file')}"


def _n(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def show_text(policies: PolicySet, only: str | None = None) -> str:
    """Return everything loaded, as a person reads it; `only` names one destination."""
    blocks = [f"policies  digest {policies.digest}"] if only is None else []
    blocks += [
        _destination_text(one)
        for name, one in sorted(policies.destinations.items())
        if only in (None, name)
    ]
    if only is None:
        blocks += [fold(function_lines(one)) for _, one in sorted(policies.functions.items())]
    return "\n\n".join(blocks)


def _destination_text(one: Destination) -> str:
    functions = "all" if one.functions is None else ", ".join(sorted(one.functions)) or "none"
    lines = [
        f"destination {one.name}  {one.base_url}",
        *([f"  {PARTIAL}"] if one.boundary == "partial" else []),
        *(["  OBSERVE ONLY: nothing is refused, only noted."] if one.mode == "observe" else []),
        f"  file {one.file}",
        f"  digest {one.digest}",
        f"  mode {one.mode}  boundary {one.boundary}  checked {one.checked or 'never'}"
        f"  connections {one.connections}",
        f"  login {login_words(one.login)}",
        f"  functions {functions}",
        f"  limits {limits_words(one)}",
        *(f"  set up first: {sentence}" for sentence in one.setup),
        *(
            f"  slow down on {say_test(slow.when)}: wait {_wait_words(slow.wait_header)}"
            f"{show_duration(slow.wait_else_ms)}"
            for slow in one.slow_down
        ),
    ]
    for number, route in enumerate(one.routes, start=1):
        lines += ["", *route_lines(number, route)]
    lines += ["", "  Any other request is refused."]
    return fold(lines)


def _wait_words(header: str | None) -> str:
    return f"as {header} says, else " if header else ""


def route_lines(number: int, route: Route) -> list[str]:
    lines = [f"  {number}. {route.name}  (line {route.line})", f"     {route.match.text}"]
    if route.when is not None:
        lines.append(f"     when {say_test(route.when)}")
    if route.does is Does.READ:
        lines.append("     read: forwarded, not fenced, nothing recorded")
    elif route.does is Does.REFUSE:
        lines.append(f"     refused: {route.because}")
    else:
        lines += [
            f"     write, key from {key_words(route)}, covers {covers_words(route)}",
            f"     {guard_words(route)}",
            *(f"     {line}" for line in sent_lines(route, say_test)),
        ]
        lines += [f"     look: {look_words(route.look)}"] if route.look is not None else []
    return [*lines, f"     note: {route.note}"] if route.note else lines


def guard_words(route: Route) -> str:
    return f"guard {route.guard}: {guarantee(route)}"


def key_words(route: Route) -> str:
    return "the Idempotency-Key header" if route.key is None else f"the template {route.key.text}"


def covers_words(route: Route) -> str:
    return "destination and path" if route.covers is None else route.covers.text


def login_words(login: Login | None) -> str:
    """Say how the gateway logs in: the kind and the header's name, never a value."""
    return "none" if login is None else f"{login.kind} in {login.header_name}"


def limits_words(one: Destination) -> str:
    limits = one.limits
    return (
        f"at_once {limits.at_once}, timeout {show_duration(limits.timeout_ms)}, "
        f"connect {show_duration(limits.connect_ms)}, settle {show_duration(limits.settle_ms)}, "
        f"body_max {limits.body_max_bytes} bytes, "
        f"barrier_wait {show_duration(limits.barrier_wait_ms)}, max_attempts {limits.max_attempts}"
    )


def look_words(look: Look) -> str:
    each = f" each of {look.each.text}," if look.each is not None else ""
    return (
        f"{look.method} {look.target.text} (the {look.reads}),{each} "
        f"there if {say_test(look.found)}; not there if {say_test(look.missing)}, "
        f"asked {show_duration(look.settle_ms)} after the seal or later"
    )


def rule_words(rule: Rule) -> str:
    kept = f", keeps {', '.join(name for name, _ in rule.take)}" if rule.take else ""
    alarm = ", raises an alarm" if rule.alarm else ""
    never = ", never sent again" if rule.never_retry else ""
    note = f" ({rule.note})" if rule.note else ""
    return f"{say_test(rule.when)}: {rule.means}{kept}{alarm}{never}{note}"


def say_test(test: Test) -> str:
    """Say a test the way one would say it aloud."""
    parts: list[str] = []
    if test.status is not None:
        parts.append(f"status {' or '.join(str(code) for code in sorted(test.status))}")
    parts += [f"header {name} {_expect_words(expect)}" for name, expect in test.header]
    parts += [f"json {path.text} {_expect_words(expect)}" for path, expect in test.json]
    parts += [f"json {path.text} is our {template.text}" for path, template in test.same]
    return " and ".join(parts) or "anything"


def _expect_words(expect: Expect) -> str:
    if expect.present:
        return "is there"
    if expect.absent:
        return "is not there"
    if expect.matches is not None:
        return f"matches {expect.matches.pattern}"
    return f"is {' or '.join(json.dumps(value) for value in expect.values or ())}"


def fold(lines: Iterable[str]) -> str:
    """Join `lines`, each folded to the width of a terminal under its own indentation."""
    out: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        out += textwrap.wrap(
            line.strip(),
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(out)


def show_json(policies: PolicySet, only: str | None = None) -> str:
    return json.dumps(
        {
            "digest": policies.digest,
            "destinations": [
                destination_facts(one)
                for name, one in sorted(policies.destinations.items())
                if only in (None, name)
            ],
            "functions": [
                function_facts(one) for _, one in sorted(policies.functions.items()) if only is None
            ],
        },
        indent=2,
    )


def destination_facts(one: Destination) -> dict[str, Any]:
    """Return what may be told of a destination; of its login, the kind and the header only."""
    return {
        "destination": one.name,
        "base_url": one.base_url,
        "boundary": one.boundary,
        "mode": one.mode,
        "checked": one.checked,
        "file": one.file,
        "digest": one.digest,
        "login": None
        if one.login is None
        else {"kind": one.login.kind, "header": one.login.header_name},
        "functions": None if one.functions is None else sorted(one.functions),
        "routes": [route_facts(route) for route in one.routes],
    }


def route_facts(route: Route) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": route.name,
        "line": route.line,
        "match": route.match.text,
        "does": route.does.value,
    }
    if route.does is Does.REFUSE:
        facts["because"] = route.because
    if route.does is Does.WRITE:
        promised = guarantee(route)
        facts |= {
            "key": "header" if route.key is None else route.key.text,
            "covers": None if route.covers is None else route.covers.text,
            "guard": route.guard.value,
            "guarantee": promised.strength.value,
            "guarantee_holds": promised.holds,
            "on_duplicate": route.on_duplicate.value,
            **sent_facts(route),
        }
    return facts
