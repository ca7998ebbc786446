"""What is asked of every preset, of the tables that each vendor's tests hold.

A vendor's test calls each of these with its own rows, so that a failure names the vendor and the
request; what is particular to one vendor stands in its own tests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from gateway.core.guarantee import guarantee
from tests.presets.vendor import Vendor, follows, seen, told


def check_route(vendor: Vendor, asked: str, route: str | None) -> None:
    assert vendor.finds(asked) == route


def check_sent(
    vendor: Vendor, asked: str, line: str, headers: Mapping[str, str], body: Any
) -> None:
    """`headers` are those that must be there; `body` is JSON, a form as a dict, or None."""
    made = vendor.asked(asked).sent()
    assert f"{made.method} {made.target}" == line
    names = [name.lower() for name, _ in made.headers]
    assert len(names) == len(set(names))
    assert {name: dict(made.headers).get(name) for name in headers} == dict(headers)
    is_form = ("Content-Type", "application/x-www-form-urlencoded") in made.headers
    text = (made.body or b"").decode()
    assert (dict(parse_qsl(text)) if is_form else json.loads(text or "null")) == body


def check_answer(vendor: Vendor, asked: str, answer: str, first: str, later: str | None) -> None:
    """`first`: what a first attempt's answer proves; `later`: one after an unknown (None: same)."""
    request = vendor.asked(asked)
    assert told(request.meaning(answer)) == first
    assert told(request.meaning(answer, tried_before=True)) == (later or first)


def check_question(vendor: Vendor, asked: str, line: str) -> None:
    question = vendor.asked(asked).question()
    assert f"{question.method} {question.target}" == line
    assert question.body is None


def check_finding(vendor: Vendor, asked: str, answer: str, verdict: str) -> None:
    assert seen(vendor.asked(asked).finding(answer)) == verdict


def check_follows(vendor: Vendor, route: str, known: Mapping[str, Any], step: str) -> None:
    """`known` has the verdicts of probes so far, and what `follows` takes beside them."""
    given = dict(known)
    assert follows(vendor.route(route), *given.pop("seen", ()), **given) == step


def check_promise(vendor: Vendor, route: str, strength: str, *says: str) -> None:
    promise = str(guarantee(vendor.route(route)))
    assert promise.partition(":")[0] == strength
    assert [part for part in says if part not in promise] == []


def check_nothing_forgotten(
    vendor: Vendor, routes: list[Any], answers: list[Any], findings: list[Any]
) -> None:
    """Every recorded shape is asked about, and every route has its turn."""
    assert {row[0] for row in routes} == set(vendor.shapes["requests"])
    used = {row[1] for row in [*answers, *findings]}
    assert set(vendor.shapes["answers"]) - used == set()
    assert {route.name for route in vendor.destination.routes} - {row[1] for row in routes} == set()
    asked = {vendor.finds(row[0]) for row in answers}
    writes = {route.name for route in vendor.destination.routes if route.does == "write"}
    assert writes - asked == set()
