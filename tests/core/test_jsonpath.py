"""Paths into JSON: which are understood, and what they find."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import PolicyError
from gateway.core.jsonpath import ANY, Path

DOCUMENT: dict[str, Any] = {
    "a": {"b": [{"c": 1}, {"c": 2}, {"d": 3}], "b-c": "dash", "null": None},
    "x.y": "dotted",
    "@odata.etag": 'W/"1"',
    "$id": 0,
    "list": [[1, 2], [3]],
    "0": "a name, not an index",
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b[0].c", [1]),
        ("a.b[1].c", [2]),
        ("a.b[*].c", [1, 2]),
        ("a.b[2]", [{"d": 3}]),
        ("a.b-c", ["dash"]),
        ("a.null", [None]),
        ('["x.y"]', ["dotted"]),
        ('"x.y"', ["dotted"]),
        ('"@odata.etag"', ['W/"1"']),
        ('a."b-c"', ["dash"]),
        ('a["b"][0]["c"]', [1]),
        ("$id", [0]),
        ("list[*][*]", [1, 2, 3]),
        ("list[1][0]", [3]),
        ('["0"]', ["a name, not an index"]),
        # what is not there is not found, and is no error
        ("a.b[3]", []),
        ("a.b[*].z", []),
        ("z", []),
        ("a.null.z", []),
        ("a[0]", []),
        ("a[*]", []),
        ("list.x", []),
        ("list[0][0].x", []),
        ("x.y", []),
    ],
)
def test_a_path_finds_every_value_it_points_at(path: str, found: list[Any]):
    assert Path.parse(path).find(DOCUMENT) == found


def test_a_path_may_begin_with_an_index_or_any():
    assert Path.parse("[0].id").find([{"id": 1}, {"id": 2}]) == [1]
    assert Path.parse("[*].id").find([{"id": 1}, {"id": 2}]) == [1, 2]
    assert Path.parse("[0]").find({"0": 1}) == []


def test_a_path_keeps_how_it_was_written():
    path = Path.parse("a[*].b")

    assert path.text == "a[*].b"
    assert path.steps == ("a", ANY, "b")


@pytest.mark.parametrize(
    "text",
    [
        "a.", ".a", "a..b", "a[", "a[]", "a[-1]", "a[x]", "a[1:2]", "a.[0]", "a.0", "a b",
        "a[?(@.x)]", '[""]', '""', '["a', "a/b", "*", "a.*", "..", "[1234567890]", '."a"',
    ],
)  # fmt: skip
def test_a_path_of_another_form_is_refused_and_shown(text: str):
    with pytest.raises(PolicyError) as refused:
        Path.parse(text)

    assert repr(text) in str(refused.value)


def test_an_empty_path_is_refused():
    with pytest.raises(PolicyError, match="empty path"):
        Path.parse("")


@pytest.mark.parametrize(
    ("one", "other", "within"),
    [("a", "a", True), ("a.b", "a", True), ("a", "a.b", False), ("ab", "a", False),
     ("a[0].b", "a[0]", True), ("a[1]", "a[0]", False)],
)  # fmt: skip
def test_a_path_lies_within_another_or_not(one: str, other: str, within: bool):
    assert Path.parse(one).is_within(Path.parse(other)) is within


def test_a_path_with_any_points_at_no_one_place():
    assert Path.parse("a[0].b").points
    assert not Path.parse("a[*].b").points


def test_the_list_itself_is_what_stands_around_its_entries():
    assert Path.parse("a.b[*]").list_itself.find({"a": {"b": [1]}}) == [[1]]
    assert Path.parse("[*]").list_itself.find([1]) == [[1]]
    assert Path.parse("a").list_itself.find({"a": [1]}) == [[1]]
