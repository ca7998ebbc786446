"""Whatever the method and however the destination fails, it receives a request once."""

from __future__ import annotations

import pytest

from gateway.clock import SystemClock
from gateway.core.errors import InvariantError
from gateway.outbound import Incoming, Outbound
from tests.outbound.sending import fresh, read, silence, to, whole, write
from tests.raw_destination import (
    RawDestination,
    answer,
    continue_then_close,
    fin,
    garbage,
    in_turn,
    partial,
    raw,
    rst,
)

METHODS = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH", "QUERY"]
FAILURES = {
    "fin": (fin, "closed-without-answer"),
    "rst": (rst, "reset"),
    "partial": (partial, "closed-without-answer"),
    "continue-then-close": (continue_then_close, "closed-without-answer"),
    "garbage": (garbage, "unreadable-answer"),
}


@pytest.mark.parametrize("connection", ["first", "reused", "fresh"])
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("method", METHODS)
async def test_a_request_without_an_answer_is_received_once_and_counts_as_sent(
    crm: RawDestination, outbound: Outbound, method: str, failure: str, connection: str
) -> None:
    behaviour, reason = FAILURES[failure]
    crm.on("/notes", behaviour)
    destination = fresh(crm) if connection == "fresh" else to(crm)
    if connection == "reused":
        await whole(outbound, destination, write(target="/warm"))
        assert len(crm.wires) == 1
    body = None if method in ("GET", "HEAD", "OPTIONS") else b"{}"

    result = await silence(outbound, destination, write(method, body=body))

    assert (result.sent, result.reason) == (True, reason)
    assert [r.method for r in crm.received if r.path == "/notes"] == [method]
    assert crm.received[-1].index == (1 if connection == "reused" else 0)


async def test_a_very_long_head_is_read(crm: RawDestination, outbound: Outbound) -> None:
    fields = [("X-Long", "x" * 30_000), *((f"X-{n}", "1") for n in range(300))]
    crm.on("/notes", answer(200, b"", fields))

    result = await outbound.send_once(to(crm), write())

    assert isinstance(result, Incoming)
    assert len(result.headers) == 302


@pytest.mark.parametrize("status", [101, 199, 600, 999])
async def test_a_status_outside_the_known_ones_is_a_silence(
    crm: RawDestination, outbound: Outbound, status: int
) -> None:
    head = f"HTTP/1.1 {status} Odd\r\nContent-Length: 0\r\n\r\n".encode()
    crm.on("/notes", in_turn(raw(head), fin))

    result = await silence(outbound, to(crm), write())

    assert result.sent
    assert result.reason == ("bad-status" if status != 199 else "closed-without-answer")
    assert len(crm.received) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_is_not_followed(
    crm: RawDestination, outbound: Outbound, status: int
) -> None:
    crm.on("/notes", answer(status, b"", [("Location", "/elsewhere")]))

    result = await outbound.send_once(to(crm), write())

    assert isinstance(result, Incoming)
    assert (result.status, result.facts_headers["location"]) == (status, ["/elsewhere"])
    assert [r.path for r in crm.received] == ["/notes"]


async def test_the_same_outgoing_request_cannot_be_handed_over_twice(
    crm: RawDestination, outbound: Outbound
) -> None:
    outgoing = write()
    await whole(outbound, to(crm), outgoing)

    with pytest.raises(InvariantError):
        await outbound.send_once(to(crm), outgoing)

    assert len(crm.received) == 1


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
    ],
)
async def test_an_unreadable_answer_is_never_taken_for_a_400(
    crm: RawDestination, outbound: Outbound, head: bytes
) -> None:
    crm.on("/notes", in_turn(raw(head), fin))

    result = await silence(outbound, to(crm), write("PUT"))

    assert (result.sent, result.reason) == (True, "unreadable-answer")
    assert len(crm.received) == 1


async def test_interim_answers_are_swallowed(crm: RawDestination, outbound: Outbound) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    crm.on("/notes", in_turn(raw(interim), answer(201, b"made")))

    result = await outbound.send_once(to(crm), write())

    assert isinstance(result, Incoming)
    assert (result.status, await result.read(100)) == (201, b"made")


async def test_cookies_are_not_kept(crm: RawDestination, outbound: Outbound) -> None:
    crm.on("/login", answer(200, b"", [("Set-Cookie", "s=1; Path=/"), ("Set-Cookie", "=;;,=")]))
    result = await outbound.send_once(to(crm), write(target="/login"))
    assert isinstance(result, Incoming)

    await whole(outbound, to(crm), read())

    assert result.facts_headers["set-cookie"] == ["s=1; Path=/", "=;;,="]
    assert crm.received[1].header("Cookie") is None


async def test_proxies_named_in_the_environment_are_ignored(
    crm: RawDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RawDestination() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        outbound = Outbound(SystemClock())

        await whole(outbound, to(crm), write())

        await outbound.close()
        assert (len(crm.received), proxy.wires) == (1, [])
