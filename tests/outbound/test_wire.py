"""What the destination receives, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.core.policy import Login, Secret
from gateway.outbound import Incoming, Outbound
from gateway.outbound.headers import request_headers
from gateway.outbound.login import login_header
from tests.outbound.sending import read, silence, to, whole, write
from tests.raw_destination import (
    Behaviour,
    RawDestination,
    answer,
    chunked,
    early,
    fin,
    in_turn,
    raw,
    rst,
    truncate,
    until_close,
)

TARGETS = [
    "/",
    "/a/b",
    "/a//b/",
    "//evil/x",
    "/@evil/x",
    "/a%2Fb%2f",
    "/%41%7e%7E%3A%27",
    "/a/../b/./c",
    "/a/%2e%2e/b",
    "/a;v=1,2",
    "/a?",
    "/a??b=c?d",
    "/a?x=%2F&x=/&y=a+b&&;=",
    "/a|b^c[d]{e}\\`<f>",
    "/a?b|c^d[e]{f}\\`<g>",
    "/%",
    "/%zz?%",
    "/a:80/x",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("prefix", ["", "/api/v3"])
async def test_path_and_query_arrive_byte_for_byte(
    crm: RawDestination, outbound: Outbound, prefix: str, target: str
) -> None:
    await whole(outbound, to(crm, prefix=prefix), read(target=target))

    assert crm.received[0].line == f"GET {prefix}{target} HTTP/1.1"


@pytest.mark.parametrize(
    ("prefix", "target", "arrives"),
    [
        ("", "", "/"),
        ("", "?q=1", "/?q=1"),
        ("/v1", "", "/v1"),
        ("/v1", "?q=1", "/v1?q=1"),
        ("/v1", "?", "/v1?"),
    ],
)
async def test_an_empty_path_is_the_prefix_itself(
    crm: RawDestination, outbound: Outbound, prefix: str, target: str, arrives: str
) -> None:
    await whole(outbound, to(crm, prefix=prefix), read(target=target))

    assert crm.received[0].target == arrives


@pytest.mark.parametrize(
    ("method", "body", "framing"),
    [
        ("GET", None, b""),
        ("DELETE", None, b""),
        ("POST", None, b""),
        ("POST", b"", b"Content-Length: 0\r\n"),
        ("DELETE", b"", b"Content-Length: 0\r\n"),
        ("GET", b"{}", b"Content-Length: 2\r\n"),
        ("POST", b"{}", b"Content-Length: 2\r\n"),
        ("QUERY", b"{}", b"Content-Length: 2\r\n"),
    ],
)
async def test_nothing_is_added_to_what_the_caller_said(
    crm: RawDestination, outbound: Outbound, method: str, body: bytes | None, framing: bytes
) -> None:
    outgoing = write(method, "/a", body, headers=[("x-One", "1"), ("x-One", "2"), ("X-É", "é")])

    await whole(outbound, to(crm), outgoing)

    host = f"Host: {crm.host}:{crm.port}\r\n".encode()
    own = "x-One: 1\r\nx-One: 2\r\nX-É: é\r\n\r\n".encode()
    assert crm.wires[0].raw == f"{method} /a HTTP/1.1\r\n".encode() + host + framing + own + (
        body or b""
    )


async def test_the_login_replaces_whatever_the_caller_sent_and_the_host_is_pinned(
    crm: RawDestination, outbound: Outbound
) -> None:
    login = Login("header", "X-Api-Key", Secret("real"))
    sent = [
        (b"Host", b"evil.example"),
        (b"Authorization", b"Bearer gateway-token"),
        (b"x-api-key", b"guess"),
        (b"X_Api_Key", b"guess"),
    ]

    outgoing = write(headers=request_headers(sent, login_header(login)))
    await whole(outbound, to(crm), outgoing)

    received = crm.received[0]
    assert [name for name, _ in received.headers] == ["Host", "Content-Length", "X-Api-Key"]
    assert (received.header("X-Api-Key"), received.header("Host")) == (
        "real",
        f"{crm.host}:{crm.port}",
    )


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
async def test_a_spooled_body_arrives_exactly_and_with_its_length(
    crm: RawDestination, outbound: Outbound, tmp_path: Path, size: int
) -> None:
    body = bytes(range(251)) * (size // 251) + b"z" * (size % 251)
    (tmp_path / "body").write_bytes(body)

    await whole(outbound, to(crm), write("PUT", body=tmp_path / "body"))

    received = crm.received[0]
    assert received.header("Content-Length") == str(size)
    assert received.header("Transfer-Encoding") is None
    assert received.body == body


async def test_a_large_body_in_memory_arrives_exactly(
    crm: RawDestination, outbound: Outbound
) -> None:
    body = b"0123456789" * 500_000

    await whole(outbound, to(crm), write(body=body))

    assert crm.received[0].body == body


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_a_spooled_body_is_not_sent_again_after_a_reset(
    crm: RawDestination, outbound: Outbound, tmp_path: Path, method: str
) -> None:
    (tmp_path / "body").write_bytes(b"x" * 1000)
    crm.default = rst

    result = await silence(outbound, to(crm), write(method, body=tmp_path / "body"))

    assert (result.sent, len(crm.received)) == (True, 1)


@pytest.mark.parametrize("spooled", [False, True])
async def test_a_refusal_during_a_big_upload_is_the_answer(
    crm: RawDestination, outbound: Outbound, tmp_path: Path, spooled: bool
) -> None:
    crm.default = early(answer(413, b"too large"))
    body: bytes | Path = b"x" * 8_000_000
    if spooled:
        body = tmp_path / "body"
        body.write_bytes(b"x" * 8_000_000)

    result = await outbound.send_once(to(crm), write(body=body))

    assert isinstance(result, Incoming)
    assert (result.status, await result.read(100)) == (413, b"too large")
    assert await crm.how_it_ended(0) is not None
    assert crm.bytes_received < 8_000_000
    crm.default = answer(200)
    await whole(outbound, to(crm), write())
    assert crm.received[1].connection == 1


async def test_coded_bodies_pass_untouched(crm: RawDestination, outbound: Outbound) -> None:
    crm.default = answer(200, b"\x1f\x8b not really gzip", [("Content-Encoding", "gzip")])
    outgoing = write(body=b"\x1f\x8b neither", headers=[("Content-Encoding", "gzip")])

    assert await whole(outbound, to(crm), outgoing) == b"\x1f\x8b not really gzip"

    assert crm.received[0].body == b"\x1f\x8b neither"


@pytest.mark.parametrize(
    ("method", "status", "head"),
    [
        ("HEAD", 200, b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"),
        ("POST", 204, b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", 304, b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"),
        ("POST", 201, b"HTTP/1.1 201 \r\nContent-Length: 0\r\n\r\n"),
    ],
)
async def test_answers_without_a_body_are_complete_at_once(
    crm: RawDestination, outbound: Outbound, method: str, status: int, head: bytes
) -> None:
    crm.default = raw(head)
    body = b"{}" if method == "POST" else None

    for _ in range(2):
        result = await outbound.send_once(to(crm), write(method, body=body))

        assert isinstance(result, Incoming)
        assert (result.status, await result.read(10)) == (status, b"")
        assert (result.complete, result.delimited) == (True, True)
    assert len(crm.wires) == 1
    if method == "HEAD":
        assert ("Content-Length", "1234") in result.headers


@pytest.mark.parametrize(
    ("behaviour", "complete", "delimited"),
    [
        (answer(200, b"hello"), True, True),
        (chunked(b"hel", b"lo"), True, True),
        (until_close(200, b"hello"), True, False),
        (truncate(200, b"hello", 9), False, True),
        (truncate(200, b"hello", 9, by_reset=True), False, True),
        (chunked(b"hel", b"lo", end=b""), False, True),
        (until_close(200, b"hello", by_reset=True), False, False),
        (in_turn(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), fin), False, True),
    ],
)
async def test_a_cut_body_is_never_taken_for_a_whole_one(
    crm: RawDestination, outbound: Outbound, behaviour: Behaviour, complete: bool, delimited: bool
) -> None:
    crm.default = behaviour

    result = await outbound.send_once(to(crm), write())

    # A reset can overtake the head itself; then there is no answer, and it counts as sent.
    if isinstance(result, Incoming):
        body = await result.read(1000)
        assert (result.status, result.complete, result.delimited) == (200, complete, delimited)
        assert (result.broken is None) is complete
        assert body == b"hello" if complete else b"hello".startswith(body)
    else:
        assert result.sent
        assert not complete
    assert len(crm.received) == 1


async def test_a_long_body_is_read_up_to_the_limit_and_goes_on_in_chunks(
    crm: RawDestination, outbound: Outbound
) -> None:
    body = b"0123456789" * 200_000
    crm.default = answer(200, body)
    result = await outbound.send_once(to(crm), write())
    assert isinstance(result, Incoming)

    first = await result.read(1000)

    assert len(first) > 1000
    assert not result.ended
    assert first + b"".join([chunk async for chunk in result.chunks()]) == body
    assert result.complete


async def test_an_answer_that_nobody_wants_any_more_is_reset(
    crm: RawDestination, outbound: Outbound
) -> None:
    crm.default = answer(200, b"x" * 5_000_000)
    result = await outbound.send_once(to(crm), write())
    assert isinstance(result, Incoming)

    result.abort()

    assert await crm.how_it_ended(0) in ("rst", "fin")
    assert (result.complete, result.broken) == (False, "aborted")
    crm.default = answer(200, b"next")
    assert await whole(outbound, to(crm), write()) == b"next"
