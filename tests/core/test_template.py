"""Templates of the policy language: what they may name, and what they make of it."""

from __future__ import annotations

import re
import uuid
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.errors import Malformed, PolicyError
from gateway.core.template import RequestValues, Template, shorten

VALUES = RequestValues(
    parts={"id": "a/b c", "rest": "x/y", "term": "part"},
    query={"q": "1&2", "empty": ""},
    query_string="q=1%262&empty=",
    headers={"x-trace": "t-1"},
    body={
        "email": "ana@example.com",
        "n": 7,
        "price": 1.5,
        "yes": True,
        "nothing": None,
        "inner": {"a.b": "dotted"},
        "list": ["only"],
        "many": [1, 2],
        "empty": "",
        "half": "\ud83d",
    },
    unit="report:2026-10-02",
    term=7,
    effect="0123456789abcdef0123456789abcdef",
    first_sent_s=1_000_000,
)
PARTS = frozenset({"id", "rest"})


def rendered(text: str, values: RequestValues = VALUES, *, url: bool = False) -> str:
    return Template.parse(text, PARTS).render(values, url=url)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{effect}", VALUES.effect),
        ("{unit}/{term}", "report:2026-10-02/7"),
        ("<{id}>{rest}", "<a/b c>x/y"),
        ("{query}", "q=1%262&empty="),
        ("{query.q}|{query.empty}", "1&2|"),
        ("{header.X-Trace}", "t-1"),
        ("{body.email}", "ana@example.com"),
        ("{body.n} {body.price} {body.yes}", "7 1.5 true"),
        ('{body.inner["a.b"]}', "dotted"),
        ("{body.list[0]} {body.list[*]}", "only only"),
        ("{body.empty}", ""),
        ("{first_sent}", "1000000"),
        ("{first_sent | minus 60s | unix}", "999940"),
        ("{first_sent | minus 2m}", "999880"),
        ("{first_sent|minus 1h}", "996400"),
        ("{body.email | lower}", "ana@example.com"),
    ],
)
def test_a_template_says_its_values(text: str, result: str):
    assert rendered(text) == result


def test_the_name_of_a_part_comes_before_a_word():
    template = Template.parse("{term}", frozenset({"term"}))

    assert template.sources == {"part"}
    assert template.render(VALUES) == "part"


def test_a_template_knows_where_its_values_come_from():
    template = Template.parse("{id}{body.n}{effect}{query.q}{header.A}{query}x", PARTS)

    assert template.sources == {
        "part", "body", "effect", "query-field", "header-field", "query",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "{body.gone}", "{body.nothing}", "{body.inner}", "{body.many}", "{body.many[*]}",
        "{body.many[9]}", "{query.gone}", "{header.Gone}", "{probe}",
    ],
)  # fmt: skip
def test_a_value_that_the_request_does_not_have_is_malformed_and_named(text: str):
    with pytest.raises(Malformed, match=re.escape(text)):
        rendered(f"before {text} after")


@pytest.mark.parametrize("body", [None, [], "text", 1])
def test_a_body_of_another_kind_has_no_members(body: Any):
    with pytest.raises(Malformed):
        rendered("{body.n}", RequestValues(parts={}, body=body))


@pytest.mark.parametrize(
    "text",
    [
        "{body.email | minus 60s}",
        "{body.half}",
        "{body.half | text 16}",
        "{body.half | uuid4}",
        "{body.half | base32hex}",
    ],
)
def test_a_value_that_cannot_be_written_so_is_malformed_and_shown(text: str):
    for url in (False, True):
        with pytest.raises(Malformed, match=re.escape(text)):
            rendered(text, url=url)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
@settings(max_examples=100, deadline=None, database=None)
def test_a_value_in_a_url_is_always_encoded_and_comes_back(text: str):
    values = RequestValues(parts={"id": text}, body={"v": text}, query={"v": text})

    made = rendered("/a/{id}?x={body.v}&y={query.v}", values, url=True)

    path, _, query = made.partition("?")
    assert path.count("/") == 2
    assert query.count("&") == 1
    assert made.isascii()
    assert unquote(path) == f"/a/{text}"
    assert [unquote(field[2:]) for field in query.split("&")] == [text, text]


def test_the_text_between_the_values_stands_in_a_url_as_written():
    assert rendered("/a b/{id}", url=True) == "/a b/a%2Fb%20c"


@pytest.mark.parametrize(
    "text",
    ["{", "}", "{id", "id}", "{{id}}", "a}b{", "{}", "{ }", "{gone}", "{body}", "{body.}",
     "{query.}", "{header.}", "{headers.x}", "{body.a..b}", "{id | }", "{id | shout}",
     "{id | text}", "{id | text 15}", "{id | text -20}", "{id | text \u00b2\u00b2}",
     "{id | minus 60}", "{id | minus 60d}", "{id | lower 5}", "{effect.x}"],
)  # fmt: skip
def test_a_template_that_cannot_be_understood_is_refused_when_it_is_loaded(text: str):
    with pytest.raises(PolicyError):
        Template.parse(text, PARTS)


def test_a_refusal_says_what_is_known_here():
    with pytest.raises(PolicyError, match=r"\{gone\} is not known here; known are .*effect.*id"):
        Template.parse("{gone}", PARTS)


@given(st.text(max_size=60), st.text(max_size=60), st.integers(16, 40))
@settings(max_examples=200, deadline=None, database=None)
def test_shortened_texts_stay_distinct_and_within_their_length(one: str, other: str, limit: int):
    assert len(shorten(one, limit)) <= limit
    assert (shorten(one, limit) == shorten(other, limit)) is (one == other)


def test_a_text_is_shortened_only_when_it_must_be():
    assert shorten("x" * 20, 20) == "x" * 20
    assert shorten("x" * 41, 40).startswith("x" * 8)
    assert len(shorten("x" * 41, 40)) == 40
    assert shorten("x" * 100 + "a", 40) != shorten("x" * 100 + "b", 40)


def test_a_uuid4_is_one_and_is_the_same_for_the_same_text():
    made = rendered("{effect | uuid4}")

    assert uuid.UUID(made).version == 4
    assert uuid.UUID(made).variant == uuid.RFC_4122
    assert str(uuid.UUID(made)) == made
    assert made == rendered("{effect | uuid4}")
    assert made != rendered("{unit | uuid4}")


def test_base32hex_keeps_to_its_alphabet():
    made = rendered("{id | base32hex}")

    assert re.fullmatch(r"[0-9a-v]{32}", made)
    assert made != rendered("{unit | base32hex}")


def test_ascii_writes_other_letters_as_escapes():
    values = RequestValues(parts={"id": "caf\u00e9 \u20ac \U0001f600"})

    assert rendered("{id | ascii}", values) == r"caf\xe9 \u20ac \U0001f600"


def test_encoders_work_from_left_to_right():
    values = RequestValues(parts={"id": "A\u00c9" * 40})

    assert rendered("{id | lower | ascii | text 30}", values) == shorten("a\\xe9" * 40, 30)
    assert rendered("{id | text 30 | lower}", values) == shorten("A\u00c9" * 40, 30).lower()


def test_a_probe_has_a_name_where_there_is_one():
    values = RequestValues(parts={}, probe="e-1.2")

    assert rendered("{probe | text 40}", values) == "e-1.2"
