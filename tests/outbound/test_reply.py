"""Answers taken apart: how they are framed, where they end, and which are refused."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.outbound.reply import (
    HEAD_FIELDS_MAX,
    HEAD_LINE_MAX_BYTES,
    HEAD_MAX_BYTES,
    INTERIM_MAX,
    Reply,
    Unreadable,
)

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
NEXT = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"


def reply_to(method: str, *pieces: bytes) -> Reply:
    reply = Reply(method)
    feed(reply, pieces)
    return reply


def feed(reply: Reply, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        reply.feed(piece)


def in_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


CONFLICTS = {
    "two lengths": b"Content-Length: 1\r\nContent-Length: 2\r\n",
    "two equal lengths": b"Content-Length: 1\r\nContent-Length: 1\r\n",
    "a list of lengths": b"Content-Length: 1, 1\r\n",
    "a signed length": b"Content-Length: +1\r\n",
    "a negative length": b"Content-Length: -1\r\n",
    "a hexadecimal length": b"Content-Length: 0x1\r\n",
    "an empty length": b"Content-Length: \r\n",
    "a length beyond all numbers": b"Content-Length: 99999999999999999999999\r\n",
    "length, then chunked": b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
    "chunked, then length": b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "another coding": b"Transfer-Encoding: gzip, chunked\r\n",
    "chunked not last": b"Transfer-Encoding: chunked, gzip\r\n",
    "no coding known": b"Transfer-Encoding: identity\r\n",
    "folded": b"X-A: b\r\n c\r\n",
    "folded at the start": b" X-A: b\r\n",
    "bare line feed": b"X-A: b\nX-Evil: 1\r\n",
    "bare carriage return": b"X-A: b\rX-Evil: 1\r\n",
    "NUL": b"X-A: b\x00c\r\n",
    "control byte before the length": b"Content-Length: \x0b1\r\n",
    "control byte behind the length": b"Content-Length: 1\x01\r\n",
    "control byte before chunked": b"Transfer-Encoding: \x0bchunked\r\n",
    "control byte behind chunked": b"Transfer-Encoding: chunked\x7f\r\n",
    "control byte in a name": b"X\x01A: b\r\n",
    "control byte behind a name": b"Content-Length\x0c: 1\r\n",
    "blank before the colon": b"X-A : b\r\n",
    "no colon": b"X-A\r\n",
    "no name": b": b\r\n",
    "name outside ASCII": b"X-\xc3\x89: b\r\n",
    "blank in the name": b"X A: b\r\n",
}


@pytest.mark.parametrize("piecewise", [False, True])
@pytest.mark.parametrize("fields", CONFLICTS.values(), ids=CONFLICTS)
def test_a_head_that_can_be_read_in_two_ways_is_not_read(fields: bytes, piecewise: bool) -> None:
    data = OK + fields + b"\r\n"

    with pytest.raises(Unreadable):
        reply_to("POST", *(in_bytes(data) if piecewise else [data]))


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/2.0 200 OK", b"HTTP/0.9 200 OK", b"HTTP/1.2 200 OK", b"HTTP/1 200 OK", b"ICY 200 OK",
        b"RTSP/1.0 200 OK", b"http/1.1 200 OK", b"HTTP/1.1 abc OK", b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK", b"HTTP/1.1  200 OK", b"HTTP/1.1 +20 OK", b"HTTP/1.1\t200 OK",
        b"HTTP/1.1\x0b200 OK", b"HTTP/1.1 200 OK\r",
        b"GET / HTTP/1.1", b"SSH-2.0-OpenSSH", b"\x16\x03\x01", b"",
        b"\r\nHTTP/1.1 200 OK", b"\nHTTP/1.1 200 OK", b" HTTP/1.1 200 OK",
    ],
)  # fmt: skip
@pytest.mark.parametrize("piecewise", [False, True])
def test_a_first_line_that_is_not_http_1_is_not_read(line: bytes, piecewise: bool) -> None:
    data = line + b"\r\nContent-Length: 0\r\n\r\n"

    with pytest.raises(Unreadable):
        reply_to("POST", *(in_bytes(data) if piecewise else [data]))


def test_bare_line_feeds_are_noticed_at_once() -> None:
    with pytest.raises(Unreadable):
        reply_to("POST", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n")


BAD_CHUNKS = {
    "prefix": b"0x3\r\nabc\r\n",
    "blank behind the size": b"3 \r\nabc\r\n",
    "line feeds alone": b"3\nabc\n",
    "data longer than its size": b"3\r\nabcd\r\n",
    "a size beyond all numbers": b"fffffffffffffffff\r\nabc",
    "negative": b"-3\r\nabc",
    "no size": b"\r\nabc",
    "line feed in an extension": b"3;a\nb\r\nabc\r\n",
    "control byte in a trailer": b"0\r\nX\x00: b\r\n\r\n",
    "a length in the trailer": b"0\r\nContent-Length: 5\r\n\r\n",
    "a folded trailer": b"0\r\nX: a\r\n b\r\n\r\n",
}


@pytest.mark.parametrize("piecewise", [False, True])
@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
def test_a_badly_chunked_body_is_not_whole(body: bytes, piecewise: bool) -> None:
    reply = reply_to("POST", CHUNKED)

    with pytest.raises(Unreadable):
        feed(reply, in_bytes(body) if piecewise else [body])

    assert not reply.done
    assert reply.status == 200


ANSWERS = {
    "length": (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "blanks round the length": (OK + b"Content-Length: \t5 \t\r\n\r\nhello", b"hello"),
    "nothing": (OK + b"Content-Length: 0\r\n\r\n", b""),
    "chunks": (CHUNKED + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", b"hello"),
    "no chunk": (CHUNKED + b"0\r\n\r\n", b""),
    "a chunk of line breaks": (CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n"),
    "extensions": (CHUNKED + b'5;a=b;c="d;e"\r\nhello\r\n0;z\r\n\r\n', b"hello"),
    "trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nX-T: 1\r\nFence-Term: 2\r\n\r\n", b"hello"),
    "interim": (b"HTTP/1.1 103 Hint\r\nX-I: 1\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx", b"x"),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", b"x"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "body"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_the_same_in_one_piece_and_byte_by_byte(data: bytes, body: bytes) -> None:
    whole, dripped = reply_to("POST", data), reply_to("POST", *in_bytes(data))

    for reply in (whole, dripped):
        assert (reply.status, reply.done, reply.take()) == (200, True, body)
        assert (reply.keep_alive, reply.surplus, reply.delimited) == (True, False, True)
    assert whole.fields == dripped.fields
    names = {name.lower() for name, _ in whole.fields}
    assert names <= {b"content-length", b"transfer-encoding"}


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(0, 120), max_size=6))
def test_where_the_pieces_are_cut_does_not_matter(name: str, cuts: list[int]) -> None:
    data, body = ANSWERS[name]
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges) if data[a:b]]

    reply = reply_to("POST", *pieces)

    assert (reply.done, reply.take(), reply.surplus) == (True, body, False)


@pytest.mark.parametrize("extra", [NEXT, b"\r\n", b"\r", b"\n", b"x", b"\0", b"\r\n\r\n", b"0"])
@pytest.mark.parametrize("name", ["length", "nothing", "chunks", "no chunk", "trailers", "interim"])
def test_whatever_stands_behind_an_answer_is_noticed_and_no_part_of_it(
    name: str, extra: bytes
) -> None:
    data, body = ANSWERS[name]

    at_once = reply_to("POST", data + extra)
    split = reply_to("POST", data[:-1], data[-1:] + extra)

    for reply in (at_once, split):
        assert (reply.done, reply.take(), reply.surplus) == (True, body, True)
        assert (b"Content-Length", b"6") not in reply.fields


@pytest.mark.parametrize("extra", [b"", b"x", b"0\r\n\r\n", NEXT])
@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", OK + b"Content-Length: 1234\r\n\r\n"),
        ("HEAD", CHUNKED),
        ("HEAD", OK + b"\r\n"),
        ("POST", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"),
    ],
)
def test_an_answer_without_a_body_ends_with_its_head(
    method: str, head: bytes, extra: bytes
) -> None:
    reply = reply_to(method, head + extra)

    assert (reply.done, reply.take(), reply.delimited) == (True, b"", True)
    assert (reply.keep_alive, reply.surplus) == (True, bool(extra))


@pytest.mark.parametrize("field", [b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_204_that_announces_a_body_costs_the_connection(field: bytes) -> None:
    assert not reply_to("POST", b"HTTP/1.1 204 No Content\r\n" + field + b"\r\n").keep_alive


@pytest.mark.parametrize(
    ("version", "connection", "stays"),
    [
        (b"1.1", None, True),
        (b"1.1", b"keep-alive", True),
        (b"1.1", b"close", False),
        (b"1.1", b"Keep-Alive, CLOSE", False),
        (b"1.1", b"x-close", True),
        (b"1.0", None, False),
        (b"1.0", b"Keep-Alive", True),
        (b"1.0", b"keep-alive, close", False),
    ],
)
def test_who_may_be_used_again(version: bytes, connection: bytes | None, stays: bool) -> None:
    field = b"" if connection is None else b"Connection: " + connection + b"\r\n"

    reply = reply_to("GET", b"HTTP/%s 200 OK\r\n%sContent-Length: 0\r\n\r\n" % (version, field))

    assert reply.keep_alive is stays


@pytest.mark.parametrize("control", [b"\x01", b"\x0b", b"\x1f", b"\x7f"])
@pytest.mark.parametrize("piecewise", [False, True])
def test_a_control_byte_in_a_value_becomes_a_blank(control: bytes, piecewise: bool) -> None:
    head = b"HTTP/1.1 200 O%sK\r\nX-A: b%sc\r\nX-B: S\xc3\xa3o\r\nConnection: close%s\r\n"
    data = head % (control, control, control) + b"Content-Length: 1\r\n\r\n" + control

    reply = reply_to("POST", *(in_bytes(data) if piecewise else [data]))

    assert reply.fields[:2] == [(b"X-A", b"b c"), (b"X-B", b"S\xc3\xa3o")]
    assert (reply.reason, reply.take(), reply.done) == (b"O K", control, True)
    assert not reply.keep_alive


def test_every_connection_line_counts() -> None:
    fields = b"Connection: keep-alive\r\nX-A: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

    assert not reply_to("GET", OK + fields).keep_alive


def test_chunks_in_http_1_0_cost_the_connection() -> None:
    head = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"

    reply = reply_to("GET", head + b"1\r\nx\r\n0\r\n\r\n")

    assert (reply.take(), reply.keep_alive) == (b"x", False)


def test_a_body_without_length_ends_with_the_connection() -> None:
    reply = reply_to("GET", OK + b"\r\nhe", b"llo")
    assert not reply.done

    assert reply.end_of_file()
    assert (reply.done, reply.take()) == (True, b"hello")
    assert (reply.delimited, reply.keep_alive) == (False, False)


@pytest.mark.parametrize(
    "cut", [b"", OK, OK + b"Content-Length: 5\r\n\r\nhell", CHUNKED + b"0\r\n"]
)
def test_an_end_of_file_anywhere_else_leaves_the_answer_unfinished(cut: bytes) -> None:
    reply = Reply("GET")
    if cut:
        reply.feed(cut)

    assert not reply.end_of_file()


@pytest.mark.parametrize("status", [101, 600, 999])
def test_an_odd_status_is_reported_and_nothing_behind_it_read(status: int) -> None:
    head = b"HTTP/1.1 %d Odd\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw" % status

    reply = reply_to("POST", head)

    assert (reply.status, reply.done, reply.keep_alive, reply.take()) == (status, True, False, b"")


@pytest.mark.parametrize("piecewise", [False, True])
@pytest.mark.parametrize(
    "head",
    [
        OK + b"X-Long: " + b"x" * (HEAD_LINE_MAX_BYTES + 1) + b"\r\n\r\n",
        b"HTTP/1.1 200 " + b"x" * (HEAD_LINE_MAX_BYTES + 1) + b"\r\n\r\n",
        OK + b"X" * (HEAD_LINE_MAX_BYTES + 1) + b": 1\r\n\r\n",
        OK + b"".join(b"X-%d: 1\r\n" % n for n in range(HEAD_FIELDS_MAX + 1)) + b"\r\n",
        OK + (b"X: " + b"x" * 1000 + b"\r\n") * (HEAD_MAX_BYTES // 1000) + b"\r\n",
    ],
    ids=["value", "reason", "name", "fields", "all"],
)
def test_a_head_beyond_the_limits_is_not_read(head: bytes, piecewise: bool) -> None:
    step = 997 if piecewise else len(head)

    with pytest.raises(Unreadable):
        reply_to("GET", *(head[at : at + step] for at in range(0, len(head), step)))


def test_a_line_without_end_is_given_up_before_it_fills_the_memory() -> None:
    reply = reply_to("GET", OK + b"X-Long: ")

    with pytest.raises(Unreadable):
        feed(reply, [b"x" * 1000] * (HEAD_LINE_MAX_BYTES // 1000 + 2))


def test_a_head_within_the_limits_is_read() -> None:
    fields = b"".join(b"X-%d: 1\r\n" % n for n in range(HEAD_FIELDS_MAX - 2))
    long = b"X-Long: " + b"x" * (HEAD_LINE_MAX_BYTES - 10) + b"\r\n"

    reply = reply_to("GET", OK + fields + long + b"Content-Length: 0\r\n\r\n")

    assert reply.done
    assert len(reply.fields) == HEAD_FIELDS_MAX


def test_interim_answers_without_end_are_given_up() -> None:
    reply = Reply("GET")

    with pytest.raises(Unreadable):
        feed(reply, [b"HTTP/1.1 102 Processing\r\n\r\n"] * (INTERIM_MAX + 1))


def test_the_fields_of_an_interim_answer_are_not_the_answers() -> None:
    hint = b"HTTP/1.1 103 Hint\r\nConnection: close\r\nContent-Length: 3\r\nX-H: 1\r\n\r\n"

    reply = reply_to("GET", hint + OK + b"Content-Length: 0\r\n\r\n")

    assert reply.fields == [(b"Content-Length", b"0")]
    assert (reply.reason, reply.keep_alive) == (b"OK", True)


@pytest.mark.parametrize("flood", [b"x" * 1000, b"X-T: 1\r\n" * 125])
def test_a_trailer_without_end_is_given_up(flood: bytes) -> None:
    reply = reply_to("GET", CHUNKED + b"1\r\nx\r\n0\r\nX-Long: 1\r\nX-T: ")

    with pytest.raises(Unreadable):
        feed(reply, [flood] * (HEAD_MAX_BYTES // 1000 + 2))


def test_many_small_chunks_become_one_piece() -> None:
    reply = reply_to("GET", CHUNKED + b"1\r\nx\r\n" * 1000)

    assert len(reply.pieces) == 1
    assert reply.size == 1000
