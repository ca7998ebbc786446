"""Setting and dropping members of a JSON text: what is not touched stays byte for byte."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.errors import Malformed
from gateway.core.jsonedit import JsonEdit
from gateway.core.jsonpath import Path


def with_set(body: str, path: str, value: str = "m") -> str:
    edit = JsonEdit(body.encode())
    edit.set(Path.parse(path), value)
    return edit.body.decode()


def without(body: str, path: str) -> str:
    edit = JsonEdit(body.encode())
    edit.drop(Path.parse(path))
    return edit.body.decode()


@pytest.mark.parametrize(
    ("body", "path", "result"),
    [
        ("{}", "a", '{"a":"m"}'),
        (" { } ", "a", ' {"a":"m" } '),
        ('{"x":1.0}', "a", '{"x":1.0,"a":"m"}'),
        ('{"x" : 1e400 , "y": 12345678901234567890123 }', "a",
         '{"x" : 1e400 , "y": 12345678901234567890123,"a":"m" }'),
        ('{"a":"theirs","b":2}', "a", '{"a":"m","b":2}'),
        ('{"a" : null }', "a", '{"a" : "m" }'),
        ('{"a":-1.50E+2,"b":[1.0, {}]}', "a", '{"a":"m","b":[1.0, {}]}'),
        ('{"p":{}}', "p.q.r", '{"p":{"q":{"r":"m"}}}'),
        ("{}", "p.q.r", '{"p":{"q":{"r":"m"}}}'),
        ('{"p": {"q": {"r": 1, "s": [ ]}}}', "p.q.r", '{"p": {"q": {"r": "m", "s": [ ]}}}'),
        ('{"p":[{"x":1},{"y":2}]}', "p[1].q", '{"p":[{"x":1},{"y":2,"q":"m"}]}'),
        ('{"\\u0061":1}', "a", '{"\\u0061":"m"}'),
        ('{"b":"}{\\"a\\":1,"}', "a", '{"b":"}{\\"a\\":1,","a":"m"}'),
        ("{}", '["x.y"]', '{"x.y":"m"}'),
        ('{\n  "x": "é\\/",\r\n\t"y": true\n}', "z", '{\n  "x": "é\\/",\r\n\t"y": true,"z":"m"\n}'),
    ],
)  # fmt: skip
def test_a_member_is_set_and_all_else_stays(body: str, path: str, result: str):
    assert with_set(body, path) == result


def test_a_value_is_always_one_string():
    text = 'a"b\\c\nd\u20ac{"x":1}'

    assert json.loads(with_set("{}", "a", text)) == {"a": text}


@pytest.mark.parametrize(
    ("body", "path", "said"),
    [
        ("", "a", "no JSON object"),
        ("[]", "a", "no JSON object"),
        ("1", "a", "no JSON object"),
        ('{"a":1', "a", "no JSON object"),
        ('\ufeff{"a":1}', "a", "no JSON object"),
        ('{"a":NaN}', "a", "no JSON object"),
        ('{"a":1,"a":2}', "b", "'a' is there twice"),
        ('{"a":{"b":1,"b":2}}', "c", "'b' is there twice"),
        ('{"p":1}', "p.q", "p.q cannot be set in the body: an object is wanted.*a number"),
        ('{"p":"x"}', "p.q", "a text"),
        ('{"p":true}', "p.q", "true"),
        ('{"p":null}', "p.q", "null"),
        ('{"p":[]}', "p.q", "a list"),
        ('{"p":{}}', "p[0].q", "a list is wanted on the way there, and this is an object"),
        ('{"p":[]}', "p[0].q", "no element 0"),
        ("{}", "p[0].q", "no list"),
        ('{"a":{}}', "a", "has an object there"),
        ('{"a":[1]}', "a", "has a list there"),
    ],
)
def test_what_is_in_the_way_is_named(body: str, path: str, said: str):
    with pytest.raises(Malformed, match=said):
        with_set(body, path)


@pytest.mark.parametrize(
    ("body", "path", "result"),
    [
        ('{"a":1}', "a", "{}"),
        ('{ "a" : 1 }', "a", "{  }"),
        ('{"a":1,"b":1.0}', "a", '{"b":1.0}'),
        ('{"b":1.0 , "a":{"x":[]}}', "a", '{"b":1.0}'),
        ('{"b":1, "a":2, "c":3}', "a", '{"b":1, "c":3}'),
        ('{"p":{"a":1,"b":2}}', "p.a", '{"p":{"b":2}}'),
        ('{"p":[{"a":1},{"a":2}]}', "p[1].a", '{"p":[{"a":1},{}]}'),
        ('{"b":1}', "a", '{"b":1}'),
        ('{"p":1}', "p.a", '{"p":1}'),
        ('{"p":[]}', "p.a", '{"p":[]}'),
        ('{"p":[]}', "p[0].a", '{"p":[]}'),
        ('{"p":{}}', "p[0].a", '{"p":{}}'),
        ("{}", "p.a", "{}"),
    ],
)
def test_a_member_is_dropped_if_it_is_there(body: str, path: str, result: str):
    assert without(body, path) == result


names = st.sampled_from(["a", "b", "c.d", "", "é", '"', "\\", "p"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)  # fmt: skip
_NUMBER = re.compile(r'"\x7f([^"]*)"')


def written(value: Any, indent: int | None) -> str:
    """Return JSON text with decimals in whatever form they have."""

    def spell(one: Any) -> Any:
        if isinstance(one, Decimal):
            return "\x7f" + (f"{one}" if "E" in str(one) else f"{one:f}")
        if isinstance(one, dict):
            return {name: spell(inner) for name, inner in one.items()}
        return [spell(inner) for inner in one] if isinstance(one, list) else one

    text = json.dumps(spell(value), ensure_ascii=False, indent=indent)
    return _NUMBER.sub(r"\1", text)


def read(text: str) -> Any:
    """Parse with every number as its lexeme, and members in their order."""
    return json.JSONDecoder(parse_int=lambda t: ("n", t), parse_float=lambda t: ("n", t)).decode(
        text
    )


@given(st.dictionaries(names, values, max_size=5), st.sampled_from([None, 2]), st.booleans())
@settings(max_examples=400, deadline=None, database=None)
def test_only_the_one_member_differs(document: dict[str, Any], indent: int | None, drop: bool):
    text = written(document, indent)
    path = Path("p.a", ("p", "a"))
    edit = JsonEdit(text.encode())
    try:
        if drop:
            edit.drop(path)
        else:
            edit.set(path, "m")
    except Malformed:
        assert "p" in document
        assert edit.body.decode() == text
        return

    wanted = read(text)
    if not drop:
        wanted.setdefault("p", {})["a"] = "m"
    elif isinstance(wanted.get("p"), dict):
        wanted["p"].pop("a", None)
    made = read(edit.body.decode())
    assert made == wanted
    assert json.dumps(made) == json.dumps(wanted)  # in the same order


PATHS = [Path.parse(text) for text in ("a", "p.a", "p.b.c", "p", "l[0].a", "l[1].p.a", "b")]


def reference(document: dict[str, Any], path: Path, value: str | None) -> None:
    """The same on plain objects, where it can be done; value None drops."""
    around: Any = document
    for step in path.steps[:-1]:
        if value is not None and isinstance(step, str):
            around = around.setdefault(step, {})
        else:
            around = around[step]
    if value is None:
        del around[path.steps[-1]]
    else:
        around[path.steps[-1]] = value


@given(
    st.dictionaries(st.sampled_from(["a", "p", "l", "b", "x"]), values, max_size=4),
    st.lists(st.tuples(st.sampled_from(PATHS), st.none() | st.sampled_from(["m", "n"]))),
)
@settings(max_examples=400, deadline=None, database=None)
def test_one_change_after_another_is_all_of_them(
    document: dict[str, Any], changes: list[tuple[Path, str | None]]
):
    edit = JsonEdit(written(document, 1).encode())
    for path, value in changes:
        before = read(edit.body.decode())
        wanted = json.loads(json.dumps(before))
        try:
            if value is None:
                edit.drop(path)
            else:
                edit.set(path, value)
        except Malformed:
            assert read(edit.body.decode()) == before
            continue
        if value is not None or path.find(before):
            reference(wanted, path, value)
        assert json.dumps(read(edit.body.decode())) == json.dumps(wanted)
