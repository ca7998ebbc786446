"""Which requests a route is for."""

from __future__ import annotations

import pytest

from gateway.core.match import Match, Segment, parse_segment, split_path


def match(methods: str, path: str) -> Match:
    segments = [parse_segment(piece) for piece in path.removeprefix("/").split("/")]
    assert None not in segments
    return Match(
        f"{methods} {path}",
        frozenset(methods.split("|")),
        tuple(segment for segment in segments if segment is not None),
    )


@pytest.mark.parametrize(
    ("pattern", "path", "parts"),
    [
        ("/notes", "/notes", {}),
        ("/notes", "/notes/", None),
        ("/notes/", "/notes/", {}),
        ("/notes/", "/notes", None),
        ("/notes", "/notes/1", None),
        ("/notes", "/Notes", None),
        ("/notes", "/n%6Ftes", {}),
        ("/a%20b", "/a%20b", {}),
        ("/", "/", {}),
        ("/", "/a", None),
        ("/notes/{id}", "/notes/7", {"id": "7"}),
        ("/notes/{id}", "/notes/", None),
        ("/notes/{id}", "/notes", None),
        ("/notes/{id}", "/notes/7/x", None),
        ("/notes/{id}", "/notes/a%2Fb", {"id": "a/b"}),
        ("/notes/{id}", "/notes/a/b", None),
        ("/notes/{id}", "/notes/caf%C3%A9", {"id": "caf\u00e9"}),
        ("/notes/{id}", "/notes/a+b", {"id": "a+b"}),
        ("/notes/{id}", "/notes/%257B", {"id": "%7B"}),
        ("/notes/{id}", "/notes//7", None),
        ("/{kind:a|b}/{id}", "/a/1", {"kind": "a", "id": "1"}),
        ("/{kind:a|b}/{id}", "/b/1", {"kind": "b", "id": "1"}),
        ("/{kind:a|b}/{id}", "/c/1", None),
        ("/{kind:a|b}/{id}", "/a%7Cb/1", None),
        ("/{kind:a|b}/{id}", "//1", None),
        ("/{rest*}", "/", {"rest": ""}),
        ("/{rest*}", "/a/b", {"rest": "a/b"}),
        ("/{rest*}", "//a/", {"rest": "/a/"}),
        ("/v1/{rest*}", "/v1", {"rest": ""}),
        ("/v1/{rest*}", "/v1/", {"rest": ""}),
        ("/v1/{rest*}", "/v1/a%2Fb/c", {"rest": "a/b/c"}),
        ("/v1/{rest*}", "/v2/a", None),
        ("/v1/{id}/{rest*}", "/v1", None),
        ("/v1/{id}/{rest*}", "/v1/7", {"id": "7", "rest": ""}),
    ],
)
def test_a_pattern_fits_a_path_part_by_part(pattern: str, path: str, parts: dict[str, str] | None):
    assert match("POST", pattern).parts_of("POST", split_path(path)) == parts


def test_only_the_named_methods_fit():
    notes = match("POST|PUT", "/notes")

    fitting = [
        method
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "post", "")
        if notes.parts_of(method, ["notes"]) is not None
    ]
    assert fitting == ["POST", "PUT"]


def test_a_match_knows_the_names_of_its_parts():
    assert match("GET", "/a/{x}/{kind:a|b}/{rest*}").parts == {"x", "kind", "rest"}


@pytest.mark.parametrize(
    ("text", "segment"),
    [
        ("notes", Segment(literal="notes")),
        ("a%2Fb", Segment(literal="a/b")),
        ("", Segment(literal="")),
        ("{id}", Segment(name="id")),
        ("{rest*}", Segment(name="rest", rest=True)),
        ("{kind:a|b}", Segment(name="kind", only=frozenset({"a", "b"}))),
    ],
)
def test_a_piece_of_a_pattern_says_one_segment(text: str, segment: Segment):
    assert parse_segment(text) == segment


@pytest.mark.parametrize(
    "text",
    ["{", "}", "{}", "{id", "id}", "a{id}", "{id}b", "{a}{b}", "{1}", "{a-b}", "{*}", "{rest*:a|b}",
     "{rest**}", "{{id}}", "{id:a{b}}", "{id}\n"],
)  # fmt: skip
def test_a_piece_of_another_form_says_none(text: str):
    assert parse_segment(text) is None


def test_an_encoded_slash_or_dot_is_decoded_after_the_split():
    assert split_path("/a%2Fb/%2e%2E/c") == ["a/b", "..", "c"]
    assert split_path("a/b") == ["a", "b"]
