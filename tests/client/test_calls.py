"""The small HTTP client: whole answers or none, each request once, and an end to every wait."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.client.calls import Gateway, Headers
from gateway.client.errors import Forbidden, GatewayUnreachable, Malformed, NotReached
from tests.client.script import Asked, Reply, Script, problem

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


async def call(script: Script, method: str = "GET", **how: object):
    given = {"headers": {}, "timeout_s": 5.0} | how
    return await Gateway(script.url, "t-1").call(method, "/x", **given)


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nA: b\r\n\r\n", b"hello"),
        (OK + b"\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)  # fmt: skip
async def test_a_whole_answer_is_read_however_it_is_framed(script: Script, raw: bytes, body: bytes):
    script.then("look", Reply(raw=raw))

    assert (await call(script)).body == body


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200",
        OK + b"Content-Length: 9\r\n\r\nhello",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 1, 1\r\n\r\nx",
        CHUNKED + b"5\r\nhel",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"2\r\nhelp\r\n0\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        OK + b"X: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
async def test_a_part_of_an_answer_is_none(script: Script, raw: bytes):
    script.then("look", Reply(raw=raw))

    with pytest.raises(GatewayUnreachable) as error:
        await call(script)

    assert error.value.effect == "unknown"
    assert len(script.asked) == 1


async def test_a_silent_gateway_is_not_waited_for_longer_than_told(script: Script):
    async def silent(asked: Asked) -> Reply:
        await asyncio.Event().wait()
        return Reply()

    script.then("look", silent)

    with pytest.raises(GatewayUnreachable, match=r"within 0\.1 s"):
        await call(script, timeout_s=0.1)


async def test_a_gateway_that_is_not_there_was_sent_nothing():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(NotReached, match="nothing was sent"):
        await Gateway(f"http://127.0.0.1:{port}").call("GET", "/", headers={}, timeout_s=2)


async def test_a_request_arrives_as_it_was_given(script: Script):
    script.then("x", Reply(200, {}))

    await call(script, "PUT", headers={"X-One": "1", "accept-encoding": "gzip"}, body=b"{}")

    asked = script.asked[0]
    assert (asked.method, asked.path, asked.body) == ("PUT", "/x", b"{}")
    assert asked.headers["x-one"] == "1"
    assert asked.headers["accept-encoding"] == "gzip"
    assert asked.headers["content-length"] == "2"
    assert asked.headers["host"] == script.url.removeprefix("http://")


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET /", "/", {}), ("GET", "x", {}), ("GET", "/a b", {}), ("GET", "/a\r\nX: y", {}),
        ("GET", "/é", {}), ("GET", "/", {"X": "a\r\nFence-Term: 9"}), ("GET", "/", {"X\r\nY": "a"}),
        ("GET", "/", {"X: y": "a"}), ("GET", "/", {"X": "\u0153"}),
    ],
)  # fmt: skip
async def test_nothing_slips_into_a_request(
    script: Script, method: str, path: str, headers: dict[str, str]
):
    with pytest.raises(Malformed):
        await Gateway(script.url).call(method, path, headers=headers, timeout_s=1)

    assert script.asked == []


async def test_a_problem_of_the_control_plane_is_raised(script: Script):
    script.then("look", problem("forbidden", 403))

    with pytest.raises(Forbidden):
        await Gateway(script.url).control("GET", "/v1/x", timeout_s=5)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(404, b"not here"), Reply(200, b"<html>", {"Content-Type": "text/html"}),
        Reply(302, b"", {"Location": "http://127.0.0.1:1/"}), Reply(200, b""),
        Reply(503, {"error": "lb"}),
    ],
)  # fmt: skip
async def test_what_something_else_answers_is_no_answer(script: Script, reply: Reply):
    script.then("look", reply)

    with pytest.raises(GatewayUnreachable, match="check that"):
        await Gateway(script.url).control("GET", "/v1/x", timeout_s=5)


@pytest.mark.parametrize(
    "url", ["gateway:8080", "ftp://gateway", "http://", "http://user:secret@gateway"]
)
def test_a_url_that_is_none_is_refused_without_showing_its_secrets(url: str):
    with pytest.raises(ValueError, match="has the form") as error:
        Gateway(url)

    assert "secret" not in str(error.value)


def test_header_names_have_no_case_and_repeated_fields_are_joined():
    headers = Headers([("Via", "a"), ("X", "1"), ("via", "b")])

    assert (headers["VIA"], headers.get("x"), headers.get("y")) == ("a, b", "1", None)
    assert list(headers) == ["Via", "X"]
