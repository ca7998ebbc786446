"""What a request says to the gateway in its header fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import Malformed
from gateway.wire.headers import FenceHeaders, parse_fence

SINGLE = [
    b"Fence-Function",
    b"Fence-Unit",
    b"Fence-Item",
    b"Fence-Term",
    b"Fence-Holder",
    b"Idempotency-Key",
    b"Fence-Request-Id",
]


def test_a_complete_command_is_read():
    found = parse_fence(
        [
            (b"Host", b"gate"),
            (b"Fence-Function", b"relatorio-diario"),
            (b"FENCE-UNIT", b"relatorio:2026-10-02"),
            (b"fence-item", b"item-7"),
            (b"Fence-Term", b"42"),
            (b"Fence-Holder", b"ana#7f3a"),
            (b"Idempotency-Key", b'"note 1"'),
            (b"Prefer", b"wait=10"),
            (b"Fence-Request-Id", b"req-1"),
            (b"Early-Data", b"1"),
        ]
    )

    assert found == FenceHeaders(
        "relatorio-diario",
        "relatorio:2026-10-02",
        "item-7",
        42,
        "ana#7f3a",
        "note 1",
        10,
        "req-1",
        True,
    )


def test_a_request_without_our_fields_says_nothing():
    assert parse_fence([(b"Host", b"gate"), (b"Accept", b"*/*")]) == FenceHeaders()


@pytest.mark.parametrize("name", SINGLE)
def test_a_repeated_field_is_refused_by_name(name):
    with pytest.raises(Malformed, match=name.decode()):
        parse_fence([(name, b"7"), (name.lower(), b"7")])


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("value", [b"caf\xc3\xa9", b"\xff"])
def test_a_field_that_is_not_ascii_is_refused_by_name(name, value):
    with pytest.raises(Malformed, match=name.decode()):
        parse_fence([(name, value)])


@pytest.mark.parametrize("name", SINGLE[:-1])
def test_an_empty_field_is_refused(name):
    with pytest.raises(Malformed, match=name.decode()):
        parse_fence([(name, b"")])


@pytest.mark.parametrize("term", [b"0", b"-1", b"+1", b"01", b"1.0", b"1e3", b"9007199254740992"])
def test_a_term_in_another_form_is_refused(term):
    with pytest.raises(Malformed, match="Fence-Term"):
        parse_fence([(b"Fence-Term", term)])


@pytest.mark.parametrize("name", [b"Fence_Term", b"fence_function", b"Idempotency_Key"])
def test_a_look_alike_with_underscores_says_nothing(name):
    assert parse_fence([(name, b"7"), (name, b"8")]) == FenceHeaders()


@pytest.mark.parametrize(
    "name", [b"X-HTTP-Method-Override", b"x-http-method", b"X-Method-Override"]
)
def test_a_method_override_is_refused(name):
    with pytest.raises(Malformed, match=r"(?i)method"):
        parse_fence([(name, b"DELETE")])


@pytest.mark.parametrize(
    ("lines", "wait_s"),
    [
        ([b"wait=0"], 0),
        ([b"wait=30"], 30),
        ([b"wait=31"], 30),
        ([b"wait=999999999"], 30),
        ([b"Wait = 5"], 5),
        ([b'wait="5"'], 5),
        ([b"return=minimal, wait=7"], 7),
        ([b'handling=lenient; a="x"', b"respond-async", b"wait=9;strict"], 9),
        ([b"wait=4", b"wait=8"], 4),
        ([b"respond-async"], None),
        ([b"wait"], None),
        ([b"wait=-1"], None),
        ([b"wait=1.5"], None),
        ([b"wait=x"], None),
        ([b"await=3"], None),
    ],
)
def test_the_wait_is_found_among_other_preferences(lines, wait_s):
    assert parse_fence([(b"Prefer", line) for line in lines]).wait_s == wait_s


@pytest.mark.parametrize(
    ("headers", "request_id"),
    [
        ([(b"X-Request-Id", b"b")], "b"),
        ([(b"X-Request-Id", b"b"), (b"Fence-Request-Id", b"a")], "a"),
        ([(b"Fence-Request-Id", b"not one"), (b"X-Request-Id", b"b")], "b"),
        ([(b"X-Request-Id", b"a b")], None),
        ([(b"X-Request-Id", b"\xff")], None),
        ([(b"X-Request-Id", b"a" * 129)], None),
        ([(b"X-Request-Id", b"a\n")], None),
    ],
)
def test_a_request_id_counts_if_it_has_its_form(headers, request_id):
    assert parse_fence(headers).request_id == request_id


@pytest.mark.parametrize(("value", "early"), [(b"1", True), (b"0", False), (b"", False)])
def test_early_data_is_reported(value, early):
    assert parse_fence([(b"Early-Data", value)]).early_data is early


@given(
    st.lists(
        st.tuples(st.sampled_from([*SINGLE, b"Prefer", b"X-Request-Id"]), st.binary(max_size=30))
    )
)
def test_anything_else_is_malformed_and_never_an_accident(headers):
    try:
        found = parse_fence(headers)
    except Malformed:
        return
    assert found.term is None or found.term >= 1
    assert found.key is None or 1 <= len(found.key) <= 255
