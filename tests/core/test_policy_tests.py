"""The tests of the policy language: a condition on an answer, or on a request."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.core.fence import OnDuplicate
from gateway.core.guards import Look, NativeKey, SendAs, Stamp, Version
from gateway.core.jsonpath import Path
from gateway.core.match import Match, parse_segment
from gateway.core.policy import (
    NOT_JSON,
    Destination,
    Does,
    Expect,
    Facts,
    Is,
    Login,
    Route,
    Rule,
    Secret,
    Test,
)
from gateway.core.template import RequestValues, Template

VALUES = RequestValues(parts={"id": "7"}, body={"email": "ana@example.com"}, effect="m-1")
PRESENT, ABSENT = Expect(present=True), Expect(absent=True)


def one_of(*values: Any) -> Expect:
    return Expect(values=values)


def json_is(path: str, expect: Expect) -> Test:
    return Test(json=((Path.parse(path), expect),))


def same(path: str, template: str) -> Test:
    return Test(same=((Path.parse(path), Template.parse(template, frozenset({"id"}))),))


def holds(test: Test, body: Any = NOT_JSON, *, status: int | None = 200, **headers: str) -> bool:
    fields = {name.replace("_", "-"): value.split("|") for name, value in headers.items()}
    return test.holds(Facts(status, fields, body), VALUES)


def test_a_status_is_one_of_those_listed():
    test = Test(status=frozenset({200, 201}))

    assert holds(test)
    assert not holds(test, status=202)
    assert not holds(test, status=None)


def test_a_test_that_asks_nothing_holds():
    assert holds(Test())


@pytest.mark.parametrize(
    ("expect", "headers", "result"),
    [
        (one_of("slow"), {"x_reason": "slow"}, True),
        (one_of("slow", "busy"), {"x_reason": "busy"}, True),
        (one_of("slow"), {"x_reason": "Slow"}, False),
        (one_of("slow"), {"x_reason": "slow, really"}, False),
        (one_of("slow"), {"x_reason": "other|slow"}, True),
        (one_of("slow"), {}, False),
        (PRESENT, {"x_reason": ""}, True),
        (PRESENT, {}, False),
        (ABSENT, {}, True),
        (ABSENT, {"x_reason": "x"}, False),
        (Expect(matches=re.compile("^s")), {"x_reason": "slow"}, True),
        (Expect(matches=re.compile("^s")), {"x_reason": "less"}, False),
    ],
)
def test_a_header_is_compared_as_it_is(expect: Expect, headers: dict[str, str], result: bool):
    assert holds(Test(header=(("x-reason", expect),)), **headers) is result


@pytest.mark.parametrize(
    ("wanted", "found", "result"),
    [
        (True, True, True),
        (True, "true", False),
        (True, 1, False),
        (1, True, False),
        (1, 1, True),
        (1, "1", False),
        (1, 1.0, False),
        (False, 0, False),
        (False, None, False),
        (None, None, True),
        ("", None, False),
        ("ok", "ok", True),
        ("ok", "OK", False),
        ("ok", ["ok"], False),
    ],
)
def test_types_matter(wanted: Any, found: Any, result: bool):
    assert holds(json_is("a", one_of(wanted)), {"a": found}) is result


@pytest.mark.parametrize(
    ("test", "body", "result"),
    [
        (json_is("a", one_of(1, 2)), {"a": 2}, True),
        (json_is("a.b", one_of(1)), {"a": 1}, False),
        (json_is("a", one_of(None)), {}, False),
        (json_is("a", PRESENT), {"a": None}, True),
        (json_is("a", PRESENT), {}, False),
        (json_is("a", ABSENT), {}, True),
        (json_is("a", ABSENT), {"a": None}, False),
        (json_is("a[0]", ABSENT), {"a": []}, True),
        (json_is("[0]", PRESENT), [1], True),
        (json_is("a[*].code", one_of("x")), {"a": [{"code": "y"}, {"code": "x"}]}, True),
        (json_is("a[*].code", one_of("x")), {"a": [{"code": "y"}]}, False),
        (json_is("a[*].code", one_of("x")), {"a": []}, False),
        (json_is("a", Expect(matches=re.compile("^rate"))), {"a": "rate_limited"}, True),
        (json_is("a", Expect(matches=re.compile("^rate"))), {"a": "a rate"}, False),
        (json_is("a", Expect(matches=re.compile("7"))), {"a": 7}, False),
        (json_is("a", Expect()), {"a": 1}, False),
        (same("mark", "{effect}"), {"mark": "m-1"}, True),
        (same("mark", "{effect}"), {"mark": "m-2"}, False),
        (same("mark", "{effect}"), {}, False),
        (same("all[*].mark", "{effect}"), {"all": [{"mark": "x"}, {"mark": "m-1"}]}, True),
        (same("id", "{id}"), {"id": "7"}, True),
        (same("id", "{id}"), {"id": 7}, False),
        (same("email", "{body.email}"), {"email": "ana@example.com"}, True),
        (same("email", "{body.gone}"), {"email": "ana@example.com"}, False),
        (same("gone", "{body.gone}"), {}, False),
    ],
)
def test_json_is_looked_up_by_its_path(test: Test, body: Any, result: bool):
    assert holds(test, body) is result


@pytest.mark.parametrize(
    "test",
    [
        json_is("a", PRESENT),
        json_is("a", ABSENT),
        json_is("a", one_of(None)),
        json_is("a", Expect(matches=re.compile(""))),
        same("a", "{effect}"),
    ],
)
def test_a_body_that_is_not_json_makes_every_test_on_it_false(test: Test):
    assert test.reads_body
    assert not holds(test)


def test_all_that_is_given_must_hold():
    test = Test(
        status=frozenset({200}),
        header=(("x-a", one_of("1")), ("x-b", PRESENT)),
        json=((Path.parse("a"), one_of(1)), (Path.parse("b"), one_of(2))),
        same=((Path.parse("mark"), Template.parse("{effect}")),),
    )
    body = {"a": 1, "b": 2, "mark": "m-1"}

    assert holds(test, body, x_a="1", x_b="")
    assert not holds(test, body, status=201, x_a="1", x_b="")
    assert not holds(test, body, x_a="1")
    assert not holds(test, body | {"b": 3}, x_a="1", x_b="")
    assert not holds(test, body | {"mark": "m"}, x_a="1", x_b="")


def test_a_secret_shows_itself_nowhere():
    login = Login("bearer", header=Secret("Bearer s3cr3t"))

    assert "s3cr3t" not in f"{login} {login!r} {login.header} {login.header!r}"
    assert login.header.value == "Bearer s3cr3t"


def route(name: str, methods: str, *pieces: str, **more: Any) -> Route:
    segments = [segment for piece in pieces if (segment := parse_segment(piece)) is not None]
    match = Match(name, frozenset(methods.split("|")), tuple(segments))
    return Route(name=name, match=match, does=Does.WRITE, **more)


def destination(*routes: Route) -> Destination:
    return Destination(
        name="crm", scheme="http", host="crm.test", port=80, prefix="/api", digest="", routes=routes
    )


def test_candidates_end_with_the_first_route_that_asks_nothing_more():
    when = json_is("kind", one_of("x"))
    crm = destination(
        route("reads", "GET", "{rest*}"),
        route("when", "POST", "{kind}", when=when),
        route("plain", "POST", "notes"),
        route("never reached", "POST", "{rest*}"),
    )

    found = [(one.name, parts) for one, parts in crm.candidates("POST", "/notes")]

    assert found == [("when", {"kind": "notes"}), ("plain", {})]
    assert crm.candidates("DELETE", "/notes") == []
    assert crm.base_url == "http://crm.test:80/api"


@pytest.mark.parametrize(
    ("more", "reads"),
    [
        ({}, False),
        ({"key": Template.parse("{unit}/{effect}")}, False),
        ({"key": Template.parse("{unit}/{body.email}")}, True),
        ({"covers": Template.parse("{body.email}")}, True),
        ({"when": json_is("a", PRESENT)}, True),
        ({"when": Test(header=(("x-a", PRESENT),))}, False),
        ({"results": (Rule(json_is("a", PRESENT), Is.CONFIRMED),)}, False),
        ({"results": (Rule(same("a", "{effect}"), Is.CONFIRMED),)}, False),
        ({"results": (Rule(same("a", "{body.email}"), Is.CONFIRMED),)}, True),
        ({"on_duplicate": OnDuplicate.REJECT}, False),
    ],
)
def test_a_route_knows_whether_it_reads_the_request_body(more: dict[str, Any], reads: bool):
    assert route("r", "POST", "notes", **more).reads_request_body is reads


MARKED = Stamp(json=((Path.parse("a"), Template.parse("{effect}")),))
KEYED = NativeKey(value=Template.parse("{effect}"), window_ms=1, header="Key")
BODY_KEYED = NativeKey(value=Template.parse("{effect}"), window_ms=1, body=Path.parse("k"))


def looking(target: str, found: str = "{effect}") -> Look:
    return Look("GET", Template.parse(target), same("a", found), Test(), 0)


@pytest.mark.parametrize(
    ("more", "properties"),
    [
        ({}, set()),
        ({"stamp": MARKED}, {"dresses", "edits_body", "uses_values", "uses_mark"}),
        ({"native_key": KEYED}, {"dresses", "uses_values", "uses_mark"}),
        ({"native_key": BODY_KEYED}, {"dresses", "edits_body", "uses_values", "uses_mark"}),
        ({"send_as": SendAs(drop=(Path.parse("a"),))}, {"dresses", "edits_body"}),
        ({"send_as": SendAs("PUT", Template.parse("/{body.a}"))},
         {"dresses", "uses_values", "reads_request_body"}),
        ({"version": Version(lost_when=Test(), header="If-Match")}, {"dresses"}),
        ({"version": Version(lost_when=json_is("a", PRESENT), query=(("q", Template.parse("x")),))},
         {"dresses", "uses_values", "reads_answer"}),
        ({"look": looking("/{effect}")}, set()),
        ({"look": looking("/a", "{body.a}")}, {"reads_request_body"}),
        ({"results": (Rule(same("a", "{effect}"), Is.CONFIRMED),)},
         {"uses_values", "uses_mark", "reads_answer"}),
    ],
)  # fmt: skip
def test_a_route_knows_what_its_words_cost(more: dict[str, Any], properties: set[str]):
    one = route("r", "POST", "notes", **more)

    known = ("dresses", "edits_body", "uses_values", "uses_mark", "reads_request_body",
             "reads_answer")  # fmt: skip
    assert {name for name in known if getattr(one, name)} == properties
