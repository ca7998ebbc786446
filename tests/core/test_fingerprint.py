"""What counts as the same request, and what does not."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.effect import Fingerprint
from gateway.core.fingerprint import (
    CANONICAL_MAX_BYTES,
    AmbiguousJson,
    Hasher,
    canonical_json,
    fingerprint,
    strict_json,
)
from gateway.core.jsonpath import Path

JSON = "application/json"


def of(
    body: bytes = b"",
    content_type: str | None = JSON,
    *,
    method: str = "POST",
    target: str = "/notes?a=1",
    ignore: tuple[str, ...] = (),
    looked_into: bool = True,
    **headers: str,
) -> Fingerprint:
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return fingerprint(
        method=method,
        target=target,
        headers=fields if content_type is None else [("content-type", content_type), *fields],
        body_digest=hashlib.sha256(body).digest(),
        body=body if looked_into else None,
        ignore=[Path.parse(path) for path in ignore],
    )


def same(one: Fingerprint, other: Fingerprint) -> bool:
    assert one.same_request(other) is other.same_request(one)
    return one.same_request(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}'),
        (b'{"a":{"x":1,"y":[1,2]}}', b' {\n "a" : { "y" : [ 1 , 2 ] , "x" : 1 }\t}\r\n'),
        (b'{"a":"\xc3\xa9"}', b'{"a":"\\u00e9"}'),
        (b'{"a":"\xc3\xa9"}', b'{"\\u0061":"\\u00E9"}'),
        (b'{"a":"/"}', b'{"a":"\\/"}'),
        (b'{"a":"\xf0\x9f\x98\x80"}', b'{"a":"\\ud83d\\ude00"}'),
        (b'["\\n"]', b'["\\u000a"]'),
        (b"[1.50, 1e400, true, null]", b"[1.50,1e400,true,null]"),
    ],
)
def test_json_that_was_written_anew_is_the_same_request(one: bytes, other: bytes):
    assert same(of(one), of(other))
    assert same(of(one, "application/vnd.crm+json"), of(other, "application/vnd.crm+json"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1}', b'{"a":2}'),
        (b'{"a":1}', b'{"a":1,"b":1}'),
        (b'{"a":null}', b"{}"),
        (b"[1,2]", b"[2,1]"),
        (b"[[1],2]", b"[1,[2]]"),
        (b"[1]", b"[1.0]"),
        (b"[0.1]", b"[0.10]"),
        (b"[0]", b"[-0]"),
        (b"[1e400]", b"[1e500]"),
        (b"[1e2]", b"[1E2]"),
        (b"[9007199254740993]", b"[9007199254740992]"),
        (b"[" + b"9" * 5000 + b"]", b"[" + b"9" * 4999 + b"8]"),
        (b"[1]", b'["1"]'),
        (b"[true]", b'["true"]'),
        (b"[true]", b"[1]"),
        (b"[1]", b'["\\u00001"]'),
        (b'[ "\\u00001"]', b'["\\u00001"]'),
        (b'{"a":"\\ud83d"}', b'{"a":"\\ude00"}'),
        (b'{"A":1}', b'{"a":1}'),
        (b'["e\xcc\x81"]', b'["\xc3\xa9"]'),  # no Unicode normal form is taken
        (b"", b"null"),
    ],
)
def test_json_that_differs_in_a_value_is_another_request(one: bytes, other: bytes):
    assert not same(of(one), of(other))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"a":1,"a":2}', id="a name twice"),
        pytest.param(b'{"a":1,"\\u0061":1}', id="a name twice, once escaped"),
        pytest.param(b'{"x":[{"a":1,"a":1}]}', id="a name twice, deep inside"),
        pytest.param(b"[NaN]", id="NaN"),
        pytest.param(b"[-Infinity]", id="Infinity"),
        pytest.param(b"\xef\xbb\xbf[1]", id="byte order mark"),
        pytest.param("[1]".encode("utf-16"), id="UTF-16"),
        pytest.param("[1]".encode("utf-16-le"), id="UTF-16 without a mark"),
        pytest.param(b'["\\u0000"]', id="NUL, escaped"),
        pytest.param(b'["\x00"]', id="NUL"),
        pytest.param(b'["\xff"]', id="not UTF-8"),
        pytest.param(b'["\xed\xa0\x80"]', id="a surrogate in UTF-8"),
        pytest.param(b'["\n"]', id="a raw newline in a string"),
        pytest.param(b"[1,]", id="a comma too many"),
        pytest.param(b"[01]", id="a leading zero"),
        pytest.param(b"[1] [2]", id="two texts"),
        pytest.param(b"[" * 64 + b"1" + b"]" * 64, id="65 levels"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="very deep"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="very deep objects"),
        pytest.param(b'"' + b"x" * CANONICAL_MAX_BYTES + b'"', id="too long"),
        pytest.param(b"", id="empty"),
    ],
)
def test_json_that_readers_may_take_differently_has_no_canonical_form(body: bytes):
    assert of(body).canonical is None
    assert same(of(body), of(body))
    assert not same(of(body), of(body + b" "))


def test_json_of_64_levels_has_a_canonical_form():
    assert canonical_json(b"[" * 63 + b"1" + b"]" * 63) is not None


def test_a_name_that_stands_there_twice_among_very_many_is_found_at_once():
    # quadratic work here would stop every other request for minutes
    names = ",".join(f'"{n}":0' for n in range(60_000))

    assert canonical_json(f'{{{names},"59999":0}}'.encode()) is None


def test_strict_json_reads_what_every_reader_reads_alike():
    assert strict_json(b' {"a": [1, 1.5, "\\u00e9", null]} ') == {"a": [1, 1.5, "é", None]}


@pytest.mark.parametrize(
    "body",
    [b"{", b"", b"[NaN]", b"\xef\xbb\xbf[]", b'"\xff"', b"[" * 100_000],
)
def test_strict_json_refuses_damage(body: bytes):
    with pytest.raises(ValueError):
        strict_json(body)


def test_strict_json_names_the_member_that_is_there_twice():
    with pytest.raises(AmbiguousJson, match="'amount' is there twice"):
        strict_json(b'{"amount": 1, "x": 0, "amount": 100}')


def test_a_body_too_large_to_be_looked_into_matches_by_its_bytes_only():
    assert same(of(b'{"a":1}', looked_into=False), of(b'{"a":1}', looked_into=False))
    assert not same(of(b'{"a": 1}', looked_into=False), of(b'{"a":1}', looked_into=False))
    assert same(of(b'{"a":1}', looked_into=False), of(b'{"a":1}'))


def test_the_hasher_gives_the_digest_of_the_pieces_together():
    hasher = Hasher()
    for piece in (b"ab", b"", b"c"):
        hasher.update(piece)

    assert hasher.digest() == hashlib.sha256(b"abc").digest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (of(method="POST"), of(method="PUT")),
        (of(target="/a/b"), of(target="/a%2Fb")),
        (of(target="/a%2fb"), of(target="/a%2Fb")),
        (of(target="/a?x=1&y=2"), of(target="/a?y=2&x=1")),
        (of(target="/a?"), of(target="/a")),
        (of(target="/a//b"), of(target="/a/b")),
        (of(b"x", "text/plain"), of(b"x", "text/html")),
        (of(b"x", "text/plain"), of(b"x", "text/plain; charset=utf-8")),
        (of(b"x", None), of(b"x", "text/plain")),
        (of(if_match='"1"'), of(if_match='"2"')),
        (of(if_match='"1"'), of()),
        (of(if_match='"1"'), of(if_none_match='"1"')),
        (of(content_range="bytes 0-1/4"), of(content_range="bytes 2-3/4")),
        (of(stripe_version="2026-01-01"), of(stripe_version="2026-02-02")),
        (of(notion_version="1"), of()),
        (of(prefer="return=minimal"), of(prefer="return=representation")),
        (of(b"1", content_encoding="gzip"), of(b"1")),
        # lengths are hashed too, so that nothing can move from one field to the next
        (of(method="POST", target="/a"), of(method="POS", target="T/a")),
    ],
)
def test_what_changes_the_meaning_of_a_request_makes_it_another(
    one: Fingerprint, other: Fingerprint
):
    assert not same(one, other)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer two"},
        {"user_agent": "agent/2"},
        {"date": "Fri, 02 Oct 2026 07:00:00 GMT"},
        {"traceparent": "00-1-2-01"},
        {"accept_encoding": "gzip"},
        {"fence_term": "8"},
        {"prefer": "wait=20"},
        {"prefer": "WAIT = 5"},
    ],
)
def test_what_differs_between_tries_is_not_counted(headers: dict[str, str]):
    assert same(of(b"[1]", **headers), of(b"[1]"))


def test_of_prefer_only_the_wait_is_not_counted():
    plain = of(prefer="return=minimal, respond-async")

    assert same(of(prefer="wait=3, return=minimal, respond-async"), plain)
    assert same(of(prefer="return=minimal, wait=9, respond-async"), plain)
    assert same(of(prefer="return=minimal, respond-async, wait=1"), plain)
    assert not same(of(prefer="return=minimal, waiting=1, respond-async"), plain)


def test_the_order_of_header_fields_is_not_counted():
    assert same(
        of(if_match='"1"', api_version="2"),
        of(api_version="2", if_match='"1"'),
    )


def test_header_bytes_outside_ascii_are_counted_not_tripped_over():
    strange = b"\xff".decode("utf-8", "surrogateescape")

    assert same(of(if_match=strange), of(if_match=strange))
    assert not same(of(if_match=strange), of(if_match=strange * 2))
    assert of(b"--\xff\r\n", f"multipart/form-data; boundary={strange}").canonical is None


def test_a_form_counts_as_its_bytes():
    form = "application/x-www-form-urlencoded"

    assert of(b"a=1&b=2", form).canonical is None
    assert not same(of(b"a=1&b=2", form), of(b"b=2&a=1", form))


def test_a_coded_body_counts_as_its_bytes():
    assert of(b"[1]", content_encoding="gzip").canonical is None


@pytest.mark.parametrize(
    ("one", "other", "ignore"),
    [
        (b'{"a":1,"at":1}', b'{"a":1,"at":2}', ("at",)),
        (b'{"a":1,"at":1}', b'{"a":1}', ("at",)),
        (b'{"a":{"at":1,"b":2}}', b'{"a":{"at":9,"b":2}}', ("a.at",)),
        (b'[{"at":1},{"at":2}]', b'[{"at":3},{"at":4}]', ("[*].at",)),
        (b'{"l":[{"at":1}]}', b'{"l":[{"at":3}]}', ("l[0].at", "nowhere.x")),
        (b'{"a":1,"at":1,"n":2}', b'{"n":3,"a":1}', ("at", "n")),
    ],
)
def test_what_the_route_ignores_is_not_counted(one: bytes, other: bytes, ignore: tuple[str, ...]):
    assert same(of(one, ignore=ignore), of(other, ignore=ignore))
    assert not same(of(one), of(other))


@pytest.mark.parametrize(
    ("one", "other", "ignore"),
    [
        (b'{"a":1,"at":1}', b'{"a":2,"at":1}', "at"),
        (b'{"a":{"at":1}}', b'{"a":{"at":2}}', "at"),
        (b'[{"at":1},{"at":2}]', b'[{"at":1},{"at":3}]', "[0].at"),
        (b'[{"at":1}]', b'[{"at":3}]', "[7].at"),
        (b'[{"at":1}]', b'[{"at":3}]', "at"),
        (b'{"at":{"x":1}}', b'{"at":{"x":2}}', "[*].x"),
        (b"[1]", b"[2]", "[0]"),  # a path to an item, not to a member, ignores nothing
        (b"[1]", b"[2]", "[*]"),
    ],
)
def test_what_is_beside_an_ignored_path_is_counted(one: bytes, other: bytes, ignore: str):
    assert not same(of(one, ignore=(ignore,)), of(other, ignore=(ignore,)))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def written(value: Any, dice: random.Random) -> str:
    """Serialise `value` as another writer might: order, white space and escapes as they fall."""

    def gap() -> str:
        return "".join(dice.choices(" \t\r\n", k=dice.randrange(3)))

    match value:
        case dict():
            members = list(value.items())
            dice.shuffle(members)
            inside = ",".join(
                f"{gap()}{written(name, dice)}{gap()}:{gap()}{written(item, dice)}{gap()}"
                for name, item in members
            )
            return f"{{{inside}}}"
        case list():
            return f"[{','.join(gap() + written(item, dice) + gap() for item in value)}]"
        case _:
            return json.dumps(value, ensure_ascii=dice.random() < 0.5)


def changed(value: Any, dice: random.Random) -> Any:
    """Return `value` with one leaf, chosen by chance, replaced by another value."""
    if isinstance(value, dict) and value:
        name = dice.choice(sorted(value))
        return {**value, name: changed(value[name], dice)}
    if isinstance(value, list) and value:
        at = dice.randrange(len(value))
        return [*value[:at], changed(value[at], dice), *value[at + 1 :]]
    others = [None, True, False, 0, 1, "", "0", [], {}, [None], {"": None}, 1.0, "null"]
    return dice.choice([other for other in others if json.dumps(other) != json.dumps(value)])


@given(values, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None, database=None)
def test_two_writings_of_a_value_are_one_request_and_any_changed_leaf_is_another(
    value: Any, dice: random.Random
):
    once = of(written(value, dice).encode())

    assert same(once, of(written(value, dice).encode()))
    assert not same(once, of(written(changed(value, dice), dice).encode()))
