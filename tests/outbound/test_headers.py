"""Which fields go through, and which values are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.core.errors import Malformed
from gateway.core.policy import Login, Secret
from gateway.outbound import headers
from gateway.outbound.headers import inject, reply_headers, request_headers, stored_headers
from gateway.outbound.login import login_header

KEPT = [
    (b"User-Agent", b"sdk/1"),
    (b"accept", b"*/*"),
    (b"Content-Type", b"application/json"),
    (b"Content-Encoding", b"gzip"),
    (b"X-Empty", b""),
    (b"X-Tab", b"a\tb"),
    (b"X-City", "São Paulo".encode()),
    (b"If-Match", b'"7"'),
    (b"Accept-Encoding", b"gzip"),
    (b"traceparent", b"00-1-2-01"),
    (b"Origin", b"https://app"),
    (b"X-Forward", b"kept"),
    (b"Fencer", b"kept"),
]


def words(text: str) -> list[str]:
    return text.split()


DROPPED = words("""
    Connection Proxy-Connection Keep-Alive Proxy-Authenticate Proxy-Authorization TE Trailer
    Transfer-Encoding Upgrade HTTP2-Settings Content-Length Host Expect Authorization Cookie
    Fence-Authorization Fence-Term Fence-Function Fence-Anything Idempotency-Key X-Forwarded-For
    X-Forwarded-Proto X-Forwarded-Whatever Forwarded Via X-Real-IP
    Fence_Term IDEMPOTENCY_KEY fence_authorization Content_Length x_forwarded_for Proxy_Connection
""")


def test_end_to_end_fields_pass_in_order() -> None:
    expected = [(name.decode(), value.decode()) for name, value in KEPT]

    assert request_headers(KEPT) == expected


@pytest.mark.parametrize("name", DROPPED)
@pytest.mark.parametrize("spell", [str, str.lower, str.upper])
def test_a_field_that_is_not_the_destinations_to_see_is_dropped(
    name: str, spell: Callable[[str], str]
) -> None:
    spelt = spell(name)
    value = b"TE" if name == "Connection" else b"\xff" if name == "Cookie" else b"1"

    assert request_headers([(b"X-A", b"1"), (spelt.encode(), value)]) == [("X-A", "1")]


@pytest.mark.parametrize(
    ("connection", "kept"),
    [
        (b"X-Hop", ["X-Stay", "X-Other"]),
        (b"close, x-hop ,X-OTHER", ["X-Stay"]),
        (b"keep-alive", ["X-Hop", "X-Stay", "X-Other"]),
        (b"Upgrade, HTTP2-Settings", ["X-Hop", "X-Stay", "X-Other"]),
        (b",,", ["X-Hop", "X-Stay", "X-Other"]),
    ],
)
def test_fields_named_by_connection_stay_here(connection: bytes, kept: list[str]) -> None:
    raw = [(b"X-Hop", b"1"), (b"connection", connection), (b"X-Stay", b"2"), (b"X-Other", b"3")]

    assert [name for name, _ in request_headers(raw)] == kept


def test_every_connection_line_counts() -> None:
    raw = [(b"Connection", b"X-A"), (b"X-A", b"1"), (b"X-B", b"2"), (b"Connection", b"X-B")]

    assert request_headers(raw) == []


@pytest.mark.parametrize(
    "name",
    [
        "Content-Length", "host", "Authorization", "Cookie", "Fence-Term", "fence_holder",
        "Idempotency-Key", "Idempotency_Key", "Content-Type", "Content-Encoding", "If-Match",
    ],
)  # fmt: skip
def test_connection_may_not_name_what_makes_the_request_what_it_is(name: str) -> None:
    with pytest.raises(Malformed, match="Connection names"):
        request_headers([(b"Connection", f"close, {name}".encode())])


@pytest.mark.parametrize(
    ("prefer", "kept"),
    [
        (["wait=5"], []),
        (["Wait=5"], []),
        (["wait = 5"], []),
        (["return=minimal"], ["return=minimal"]),
        (["return=minimal, wait=5"], ["return=minimal"]),
        (["wait=5, return=minimal"], ["return=minimal"]),
        (["respond-async, wait=5, handling=lenient"], ["respond-async, handling=lenient"]),
        (["wait=5;x=1, a=1"], ["a=1"]),
        (['odata="a, wait=5"; b=1'], ['odata="a, wait=5"; b=1']),
        (["waiting=5, x-wait=1"], ["waiting=5, x-wait=1"]),
        (["wait=5", "return=minimal"], ["return=minimal"]),
        (["wait"], []),
    ],
)
def test_only_wait_is_taken_out_of_prefer(prefer: list[str], kept: list[str]) -> None:
    raw = [(b"Prefer", value.encode()) for value in prefer]

    assert request_headers(raw) == [("Prefer", value) for value in kept]


def test_a_repeated_field_keeps_its_order_and_its_first_spelling() -> None:
    raw = [(b"x-Dup", b"1"), (b"X-Other", b"2"), (b"X-DUP", b"3"), (b"x-dup", b"4")]

    assert request_headers(raw) == [
        ("x-Dup", "1"),
        ("X-Other", "2"),
        ("x-Dup", "3"),
        ("x-Dup", "4"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (b"X-Note", b"caf\xe9", "X-Note has the byte 0xe9 at position 3"),
        (b"X-Note", b"a\x00b", r"control character '\\x00' at position 1"),
        (b"X-Note", b"a\r\nX-Evil: 1", "control character"),
        (b"X-Note", b"a\nb", "control character"),
        (b"X-Note", b"\x7f", "control character"),
        (b"X Note", b"1", "not a header name"),
        (b"X-Note:", b"1", "not a header name"),
        (b"", b"1", "not a header name"),
        (b"X-N\xc3\xb3te", b"1", "not a header name"),
    ],
)
def test_what_cannot_be_forwarded_as_it_is_is_malformed(
    name: bytes, value: bytes, says: str
) -> None:
    with pytest.raises(Malformed, match=says):
        request_headers([(name, value)])


def test_a_refused_value_is_not_repeated_in_the_message() -> None:
    with pytest.raises(Malformed) as caught:
        request_headers([(b"X-Token", b"s3cret\xff")])

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("sent", [b"X-Api-Key", b"x-api-key", b"X_API_KEY"])
def test_the_login_comes_last_and_replaces_its_namesakes(sent: bytes) -> None:
    login = login_header(Login("header", "X-Api-Key", Secret("real")))
    raw = [(sent, b"guess"), (b"X-B", b"2"), (b"Connection", b"X-Api-Key")]

    assert request_headers(raw, login) == [("X-B", "2"), ("X-Api-Key", "real")]


def test_without_a_login_nothing_is_injected() -> None:
    assert login_header(None) is None
    assert login_header(Login("bearer", header=Secret("Bearer t"))) == ("Authorization", "Bearer t")


def test_injected_fields_replace_their_namesakes() -> None:
    fields = [("Native-Key", "k"), ("X-Mark", "m")]

    assert inject([("native_key", "x"), ("X-A", "1")], fields) == [("X-A", "1"), *fields]


def test_an_answer_keeps_its_end_to_end_fields() -> None:
    raw = [
        (b"Content-Type", b"application/json"),
        (b"set-cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
        (b"Connection", b"keep-alive, X-Hop"),
        (b"X-Hop", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Fence-Verdict", b"forwarded"),
        (b"fence_effect", b"forged"),
        (b"Retry-After", b"3"),
        (b"Idempotent-Replayed", b"true"),
        (b"X-City", "São".encode()),
        (b"X-Latin", b"caf\xe9"),
        (b"X-Control", b"a\x01b\x7f\tc"),
        (b"X\x80Bad", b"1"),
        (b"X Bad", b"1"),
    ]

    assert reply_headers(raw) == [
        ("Content-Type", "application/json"),
        ("set-cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("Retry-After", "3"),
        ("Idempotent-Replayed", "true"),
        ("X-City", "São"),
        ("X-Latin", "café"),
        ("X-Control", "a b \tc"),
    ]


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        ([(b"Content-Length", b"12")], True),
        ([(b"Content-Length", b"0")], True),
        ([(b"Connection", b"Content-Length"), (b"Content-Length", b"12")], True),
        ([(b"Content-Length", b"12"), (b"Content-Length", b"12")], False),
        ([(b"Content-Length", b"+12")], False),
        ([(b"Content-Length", "١٢".encode())], False),
        ([(b"Content-Length", b"")], False),
        ([(b"Content-Length", b"12"), (b"Transfer-Encoding", b"chunked")], False),
    ],
)
def test_the_length_of_an_answer_is_kept_only_when_it_can_be_relied_on(
    raw: list[tuple[bytes, bytes]], kept: bool
) -> None:
    assert ("Content-Length" in dict(reply_headers(raw))) is kept


def test_what_belonged_to_one_moment_or_one_caller_is_not_stored() -> None:
    gone = words("""
        Set-Cookie Set-Cookie2 WWW-Authenticate Authentication-Info Proxy-Authenticate Date Age
        Server Via Alt-Svc Strict-Transport-Security NEL Report-To Server-Timing Clear-Site-Data
        Retry-After RateLimit RateLimit-Policy X-RateLimit-Remaining X-Rate-Limit-Reset
        X-HubSpot-RateLimit-Daily Sforce-Limit-Info traceparent Content-Length Fence-Term
    """)
    kept = words("""
        Content-Type Content-Encoding Content-Language Content-Disposition Location Link ETag
        Content-Location Last-Modified Cache-Control Vary Allow X-Request-Id Idempotent-Replayed
    """)

    stored = stored_headers([(name, "1") for name in [*gone, *kept]])

    assert [name for name, _ in stored] == kept


def test_names_nobody_uses_twice_do_not_fill_the_memory() -> None:
    for number in range(5000):
        request_headers([(f"X-{number}".encode(), b"1")])

    assert len(headers._REQUEST.known) <= 2048
