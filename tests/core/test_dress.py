"""What is really sent: marks, keys, conditions and safer forms."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.dress import Dressed, dress, with_fields
from gateway.core.errors import Malformed
from gateway.core.guards import NativeKey, SendAs, Stamp, Version
from gateway.core.jsonpath import Path
from gateway.core.match import Match
from gateway.core.policy import Does, Route, Test
from gateway.core.template import RequestValues, Template

VALUES = RequestValues(
    parts={"type": "deals", "rest": "", "odd": "a/b ?"},
    body={"email": "a@b", "line": "x\r\nFence-Term: 9", "empty": "", "dots": ".."},
    effect="m1",
    term=7,
    first_sent_s=1_000,
)
PARTS = frozenset(VALUES.parts)
JSON = [("Content-Type", "application/json"), ("X-Other", "1")]
FORM = [("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")]


def t(text: str) -> Template:
    return Template.parse(text, PARTS)


def fields(**texts: str) -> tuple[tuple[str, Template], ...]:
    return tuple((name, t(text)) for name, text in texts.items())


def stamp(**paths: str) -> Stamp:
    return Stamp(tuple((Path.parse(p.replace("__", ".")), t(text)) for p, text in paths.items()))


def key(value: str = "{effect}", **place: Any) -> NativeKey:
    return NativeKey(value=t(value), window_ms=1, **place)


def version(**more: Any) -> Version:
    return Version(lost_when=Test(), **more)


def dressed(
    target: str = "/a?x=1",
    headers: list[tuple[str, str]] | None = None,
    body: bytes | None = b'{"n": 1.0}',
    values: RequestValues = VALUES,
    **words: Any,
) -> Dressed:
    route = Route(name="r", match=Match("", frozenset(), ()), does=Does.WRITE, **words)
    given = JSON if headers is None else headers
    return dress(route, method="POST", target=target, headers=given, body=body, values=values)


def refused(**more: Any) -> str:
    with pytest.raises(Malformed) as refusal:
        dressed(**more)
    return str(refusal.value)


def test_a_route_without_these_words_sends_what_came():
    body, headers = b"not { json", [("X", "1"), ("X", "2")]

    made = dressed("/a?x=%20&x", headers, body)

    assert made == Dressed("POST", "/a?x=%20&x", headers, body)
    assert made.body is body


def test_stamps_are_set_beside_what_the_worker_sent():
    made = dressed(stamp=stamp(p__mark="{effect}", term="{term}", at="{first_sent | unix}"))

    assert made.body == b'{"n": 1.0,"p":{"mark":"m1"},"term":"7","at":"1000"}'
    assert (made.target, made.headers) == ("/a?x=1", JSON)


def test_fields_that_speak_of_the_bytes_go_with_the_bytes():
    digests = [("Content-MD5", "x"), ("content-digest", "x"), ("Digest", "x"), ("Repr_Digest", "x")]

    stamped = dressed(headers=[*JSON, *digests], stamp=stamp(a="{effect}"))
    keyed = dressed(headers=[*JSON, *digests], native_key=key(header="Key"))

    assert stamped.headers == JSON
    assert keyed.headers == [*JSON, *digests, ("Key", "m1")]


@pytest.mark.parametrize("body", [None, b"", b"[1]", b"\xff", b'{"a":1', b'"x"'])
def test_a_body_that_takes_no_stamp_is_refused(body: bytes | None):
    assert "no JSON object" in refused(body=body, stamp=stamp(a="{effect}"))


def test_a_coded_body_is_refused():
    said = refused(headers=[("content_encoding", "gzip")], stamp=stamp(a="{effect}"))

    assert "Content-Encoding" in said


@pytest.mark.parametrize("words", [{"stamp": stamp(n__x="{effect}")},
                                   {"native_key": key(body=Path.parse("n.x"))}])  # fmt: skip
def test_a_scalar_in_the_way_is_refused(words: dict[str, Any]):
    assert "n.x cannot be set in the body" in refused(**words)


def test_a_value_that_the_request_does_not_have_is_refused():
    assert "{body.gone}" in refused(stamp=stamp(a="{body.gone}"))


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (b"a=1&b=%20+", b"a=1&b=%20+&metadata%5Bterm%5D=7"),
        (b"metadata[term]=9&a=1&metadata%5bterm%5d=8", b"a=1&metadata%5Bterm%5D=7"),
        (b"", b"metadata%5Bterm%5D=7"),
        (None, b"metadata%5Bterm%5D=7"),
    ],
)
def test_form_fields_replace_their_namesakes(body: bytes | None, result: bytes):
    made = dressed(headers=FORM, body=body, stamp=Stamp(form=(("metadata[term]", t("{term}")),)))

    assert made.body == result
    assert made.headers == FORM


def test_a_form_that_is_not_there_is_made():
    made = dressed(headers=[], body=None, stamp=Stamp(form=fields(a="{body.email} &")))

    assert made.body == b"a=a%40b%20%26"
    assert made.headers == [("Content-Type", "application/x-www-form-urlencoded")]


@pytest.mark.parametrize("headers", [JSON, [("Content-Type", "multipart/form-data; boundary=x")],
                                     []])  # fmt: skip
def test_a_body_that_is_no_form_is_refused(headers: list[tuple[str, str]]):
    assert "form" in refused(headers=headers, body=b"x", stamp=Stamp(form=fields(a="b")))


def test_a_native_key_goes_where_the_policy_says():
    header = dressed(headers=[("idempotency_key", "theirs")], native_key=key(header="X-Key"))
    query = dressed("/a?k=1&x=2&%6b=3", native_key=key("{effect}/{body.email}", query="k"))
    body = dressed(native_key=key(body=Path.parse("message.sendId")), stamp=stamp(t="{term}"))

    assert header.headers == [("idempotency_key", "theirs"), ("X-Key", "m1")]
    assert query.target == "/a?x=2&k=m1%2Fa%40b"
    assert body.body == b'{"n": 1.0,"t":"7","message":{"sendId":"m1"}}'


def test_a_header_takes_the_place_of_its_namesakes():
    given = [("IDEMPOTENCY_KEY", "a"), ("Idempotency-Key", "b"), ("X", "1")]

    made = dressed(headers=given, native_key=key(header="Idempotency-Key"))

    assert made.headers == [("X", "1"), ("Idempotency-Key", "m1")]


@pytest.mark.parametrize("value", ["{body.line}", "{body.empty}"])
def test_a_value_never_breaks_out_of_its_header(value: str):
    assert "no header can carry" in refused(native_key=key(value, header="X-Key"))
    assert "no header can carry" in refused(send_as=SendAs(header=fields(Prefer=value)))


@pytest.mark.parametrize(
    ("target", "written", "result"),
    [
        ("/a", "/b/{type}/{effect}", "/b/deals/m1"),
        ("/a", "/b/{odd}", "/b/a%2Fb%20%3F"),
        ("/a?x=1&y", "/b/{type}", "/b/deals?x=1&y"),
        ("/a?x=1&y=2&%78=3", "/b?x={term}", "/b?x=7&y=2"),
        ("/a?", "/b?x={body.empty}", "/b?x="),
        ("/a", "/b//{type}/", "/b//deals/"),
        ("/a", "/b/(id={type})", "/b/(id=deals)"),
    ],
)
def test_a_request_is_sent_in_another_form(target: str, written: str, result: str):
    made = dressed(target, send_as=SendAs("PATCH", t(written)))

    assert (made.method, made.target) == ("PATCH", result)


@pytest.mark.parametrize(
    "written", ["/b/{rest}", "/b/{body.empty}/c", "/b/{body.dots}", "/b/.{rest}"]
)
def test_a_value_never_leads_elsewhere(written: str):
    assert "leads elsewhere" in refused(send_as=SendAs("PUT", t(written)))


def test_extras_are_set_and_members_dropped_before_the_stamps():
    made = dressed(
        "/rows?on_conflict=id&x=a%20b",
        [("Prefer", "return=minimal"), *JSON],
        b'{"id": 1, "mark": "theirs", "n": 2.50}',
        send_as=SendAs(
            query=fields(on_conflict="effect_key"),
            header=fields(Prefer="resolution=ignore-duplicates"),
            drop=(Path.parse("id"), Path.parse("gone.x"), Path.parse("mark")),
        ),
        stamp=stamp(mark="{effect}"),
    )

    assert made.target == "/rows?x=a%20b&on_conflict=effect_key"
    assert made.headers == [*JSON, ("Prefer", "resolution=ignore-duplicates")]
    assert made.body == b'{"n": 2.50,"mark":"m1"}'


def test_the_workers_condition_is_kept_and_known():
    made = dressed(headers=[("if-match", ' "v1" ')], version=version(header="If-Match"))

    assert made.headers == [("if-match", ' "v1" ')]
    assert made.condition == '"v1"'


@pytest.mark.parametrize(
    "headers",
    [[], [("If-Match", "*")], [("If-Match", "")], [("If-Match", '"1"'), ("if_match", '"2"')]],
)
def test_a_write_under_a_version_names_one(headers: list[tuple[str, str]]):
    assert "the one version that you read" in refused(
        headers=headers, version=version(header="If-Match")
    )


def test_a_version_that_the_gateway_read_is_sent():
    words = {"version": version(header="If-Match", read=Path.parse("rev"))}
    read = RequestValues(parts={}, version='"v2"')

    made = dressed(headers=[("If-Match", '"v1"')], values=read, **words)

    assert made.headers == [("If-Match", '"v2"')]
    assert made.condition == '"v2"'
    assert "has not been read" in refused(**words)


def test_a_condition_in_the_query_is_encoded_whole():
    condition = {"or": "(term.is.null,term.lte.{term})"}

    made = dressed("/rows?id=eq.1", version=version(query=fields(**condition)))

    assert made.target == "/rows?id=eq.1&or=%28term.is.null%2Cterm.lte.7%29"
    assert made.condition == "or=(term.is.null,term.lte.7)"


def test_a_condition_never_takes_the_place_of_the_workers_own_filter():
    with pytest.raises(Malformed, match="'or'"):
        dressed("/rows?or=(x)&id=eq.1", version=version(query=fields(**{"or": "(y)"})))


def test_dressing_twice_is_dressing_once():
    words = {
        "stamp": stamp(p__mark="{effect}", term="{term}"),
        "native_key": key(header="Key"),
        "send_as": SendAs(query=fields(a="1"), header=fields(Prefer="x"), drop=(Path.parse("n"),)),
    }

    once = dressed(**words)
    twice = dressed(once.target, once.headers, once.body, **words)

    assert twice == once


def test_query_fields_are_left_alone_when_there_are_none_to_set():
    assert with_fields("/a?&&x", []) == "/a?&&x"
    assert with_fields("/a", [("b c", "d&e")]) == "/a?b%20c=d%26e"
