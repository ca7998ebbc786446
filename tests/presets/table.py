"""What is asked of every preset, of the tables that each vendor's tests hold.

A vendor's module has them as a class of its own, made of its own rows, so that a failure names the
vendor and the request; what is particular to one vendor stands in its own tests.

    TestTables = checks_of(STRIPE, routes=ROUTES, sent=SENT, …)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import pytest

from gateway.core.guarantee import guarantee
from tests.presets.vendor import Vendor, follows, seen, told

Rows = Sequence[tuple[Any, ...]]


def checks_of(
    vendor: Vendor,
    *,
    routes: Rows,
    sent: Rows,
    answers: Rows,
    steps: Rows,
    promises: Rows,
    questions: Rows = (),
    findings: Rows = (),
) -> type:
    """Return the tests of these tables. No `questions`: nothing is looked for at this vendor."""

    class OfAll:
        @pytest.mark.parametrize(("asked", "route"), routes)
        def test_each_request_has_its_route(self, asked, route):
            assert vendor.finds(asked) == route

        @pytest.mark.parametrize(("asked", "line", "headers", "body"), sent)
        def test_a_write_is_sent_with_all_that_makes_it_answerable(
            self, asked, line, headers, body
        ):
            check_sent(vendor, asked, line, headers, body)

        @pytest.mark.parametrize(("asked", "answer", "first", "later"), answers)
        def test_an_answer_proves_no_more_than_it_says(self, asked, answer, first, later):
            check_answer(vendor, asked, answer, first, later)

        @pytest.mark.parametrize(("route", "known", "step"), steps)
        def test_after_an_unknown_outcome_the_guard_decides(self, route, known, step):
            check_follows(vendor, route, known, step)

        @pytest.mark.parametrize(("route", "strength", "says"), promises)
        def test_a_route_promises_what_its_guard_can_keep(self, route, strength, says):
            check_promise(vendor, route, strength, *says)

        def test_every_shape_and_every_route_is_in_a_table(self):
            check_nothing_forgotten(vendor, routes, answers, findings)

    class OfThoseLookedFor(OfAll):
        @pytest.mark.parametrize(("asked", "line"), questions)
        def test_a_question_asks_for_our_mark(self, asked, line):
            check_question(vendor, asked, line)

        @pytest.mark.parametrize(("asked", "answer", "verdict"), findings)
        def test_a_probe_finds_too_little_and_never_too_much(self, asked, answer, verdict):
            assert seen(vendor.asked(asked).finding(answer)) == verdict

    return OfThoseLookedFor if questions else OfAll


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


def check_follows(vendor: Vendor, route: str, known: Mapping[str, Any], step: str) -> None:
    """`known` has the verdicts of probes so far, and what `follows` takes beside them."""
    given = dict(known)
    assert follows(vendor.route(route), *given.pop("seen", ()), **given) == step


def check_promise(vendor: Vendor, route: str, strength: str, *says: str) -> None:
    promise = str(guarantee(vendor.route(route)))
    assert promise.partition(":")[0] == strength
    assert [part for part in says if part not in promise] == []


def check_nothing_forgotten(vendor: Vendor, routes: Rows, answers: Rows, findings: Rows) -> None:
    """Every recorded shape is asked about, and every route has its turn."""
    assert {row[0] for row in routes} == set(vendor.shapes["requests"])
    used = {row[1] for row in [*answers, *findings]}
    assert set(vendor.shapes["answers"]) - used == set()
    assert {route.name for route in vendor.destination.routes} - {row[1] for row in routes} == set()
    asked = {vendor.finds(row[0]) for row in answers}
    writes = {route.name for route in vendor.destination.routes if route.does == "write"}
    assert writes - asked == set()
