"""The destination's answer reaches the caller as it came, and never as more than it was.

| behaviour | test |
|---|---|
| status, body and repeated fields are relayed unchanged | unchanged |
| hop-by-hop and nominated fields are removed | hop |
| coded answers stay coded; others are not compressed | coded |
| HEAD keeps Content-Length without a body; the connection stays in step | head |
| 204 and 304 have no body and no Transfer-Encoding | bodyless |
| redirects are relayed, never followed | redirect |
| interim answers do not confuse; an unasked 101 is not relayed | interim, unasked |
| a cut answer is never presented as whole | cut |
| conflicting framing is not relayed, and is not the caller's fault | conflicting |
| control bytes do not split an answer; long fields pass | control, long |
| Date, Server and Content-Type are neither doubled nor invented | invented |
| cookies are not given to the next caller | cookies |
"""

from __future__ import annotations

import gzip
import re
import uuid

import pytest

from tests.house import House
from tests.proxy.raw_caller import RawCaller, ask, request
from tests.raw_destination import (
    RawDestination,
    answer,
    chunked,
    fin,
    in_turn,
    raw,
    rendered,
    truncate,
    until_close,
)

BOTH = pytest.mark.parametrize("method", ["GET", "POST"])


@BOTH
async def test_an_answer_is_relayed_unchanged(
    house: House, crm: RawDestination, method: str
) -> None:
    body = b"\x00\xff{}\n"
    fields = [
        ("Set-Cookie", "a=1; Path=/"), ("set-cookie", "b=2; Expires=Wed, 09 Jun 2027 10:18:14 GMT"),
        ("Set-Cookie", "a=3"), ("X-Request-Id", "up-1"), ("Content-Type", "application/x-own"),
    ]  # fmt: skip
    crm.on("/x", answer(418, body, fields))
    if method == "POST":
        crm.on("/x", answer(201, body, fields))

    got = await ask(house.gateway.port, request(method, "/d/crm/x"))

    assert (got.status, got.body, got.complete) == (418 if method == "GET" else 201, body, True)
    cookies = [b"a=1; Path=/", b"b=2; Expires=Wed, 09 Jun 2027 10:18:14 GMT", b"a=3"]
    assert got.values("Set-Cookie") == cookies
    assert (got.value("X-Request-Id"), got.value("Content-Type")) == ("up-1", "application/x-own")
    assert got.value("Fence-Verdict") == "forwarded"


@BOTH
async def test_hop_by_hop_and_the_gateway_s_own_fields_are_removed(
    house: House, crm: RawDestination, method: str
) -> None:
    fields = [
        ("Connection", "X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=77"), ("X-End", "stay"),
        ("Proxy-Authenticate", "Basic realm=u"), ("Fence-Verdict", "replayed"),
        ("Fence-Outcome", "forged"), ("fence-term", "99"),
    ]  # fmt: skip
    crm.on("/x", answer(200, b"ok", fields))

    got = await ask(house.gateway.port, request(method, "/d/crm/x"))

    assert got.body == b"ok"
    for name in ("X-Hop", "Proxy-Authenticate", "Keep-Alive"):
        assert got.values(name) == [], name
    assert got.value("X-End") == "stay"
    assert got.values("Fence-Verdict") == [b"forwarded"]
    assert b"forged" not in got.head
    assert b"99" not in got.values("Fence-Term")


@BOTH
async def test_a_coded_answer_stays_coded_and_others_stay_plain(
    house: House, crm: RawDestination, method: str
) -> None:
    coded = gzip.compress(b"payload " * 4000, mtime=0)
    crm.on("/gz", answer(200, coded, [("Content-Encoding", "gzip"), ("ETag", '"g"')]))
    crm.on("/plain", answer(200, b"z" * 8000, [("Content-Type", "text/plain")]))
    accept = "Accept-Encoding: gzip, deflate, br"

    first = await ask(house.gateway.port, request(method, "/d/crm/gz", accept))
    second = await ask(house.gateway.port, request(method, "/d/crm/plain", accept))

    assert (first.body, first.value("Content-Encoding")) == (coded, "gzip")
    assert (second.body, second.values("Content-Encoding")) == (b"z" * 8000, [])


async def test_a_head_request_keeps_the_length_and_the_connection_in_step(
    house: House, crm: RawDestination
) -> None:
    crm.on("/h", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"))
    crm.on("/g", answer(200, b"ok"))
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("HEAD", "/d/crm/h"))
        first = await caller.answer("HEAD")
        await caller.send(request("GET", "/d/crm/g"))
        second = await caller.answer()

    assert (first.status, first.values("Content-Length")) == (200, [b"1234"])
    assert (second.status, second.body) == (200, b"ok")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_no_framing(
    house: House, crm: RawDestination, status: int, method: str
) -> None:
    crm.on("/x", raw(b'HTTP/1.1 %d Said\r\nETag: "x"\r\n\r\n' % status))
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request(method, "/d/crm/x"))
        first = await caller.answer(method)
        await caller.send(request("GET", "/d/crm/y"))
        second = await caller.answer()

    if (method, status) == ("DELETE", 304):
        assert first.value("Fence-Outcome") == "unknown"
    assert (first.status, first.values("Transfer-Encoding"), first.body) == (status, [], b"")
    assert second.status == 200


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_relayed_and_never_followed(
    house: House, crm: RawDestination, status: int
) -> None:
    async with RawDestination() as evil:
        location = f"{evil.url}/steal?x=%2F"
        crm.on("/x", answer(status, headers=[("Location", location)]))

        got = await ask(house.gateway.port, request("POST", "/d/crm/x", body=b"pay"))

        assert (got.status, got.value("Location")) == (status, location)
        assert evil.wires == []
    assert len(crm.received) == 1


async def test_interim_answers_do_not_confuse(house: House, crm: RawDestination) -> None:
    early = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </s.css>; rel=preload\r\n"
        b"Connection: X-H\r\nX-H: 1\r\n\r\n"
    )
    crm.on("/x", in_turn(raw(early), answer(200, b"ok")))

    got = await ask(house.gateway.port, request("POST", "/d/crm/x", body=b"x"))

    assert (got.status, got.body) == (200, b"ok")
    assert got.values("X-H") == []


@pytest.mark.parametrize(("method", "status"), [("GET", 502), ("POST", 423)])
async def test_an_unasked_switch_of_protocols_is_not_relayed(
    house: House, crm: RawDestination, method: str, status: int
) -> None:
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\nraw"
    crm.on("/x", raw(head))

    got = await ask(house.gateway.port, request(method, "/d/crm/x"))

    assert got.status == status


@BOTH
@pytest.mark.parametrize(
    "behaviour",
    [truncate(200, b"p" * 40, 100), truncate(200, b"p" * 40, 100_000, by_reset=True),
     truncate(200, b"p" * 40, 10_000_000), chunked(b"hello", end=b""),
     until_close(200, b"half", by_reset=True)],
    ids=["short", "reset", "long", "chunked", "until-close-reset"],
)  # fmt: skip
async def test_a_cut_answer_is_never_presented_as_whole(
    house: House, crm: RawDestination, behaviour: object, method: str
) -> None:
    crm.on("/x", behaviour)  # type: ignore[arg-type]

    got = await ask(house.gateway.port, request(method, "/d/crm/x"))

    assert not (200 <= got.status < 300 and got.complete)


async def test_a_body_that_ends_with_the_connection_is_relayed_whole(
    house: House, crm: RawDestination
) -> None:
    crm.on("/x", until_close(200, b"all of it"))

    got = await ask(house.gateway.port, request("GET", "/d/crm/x"))

    assert (got.status, got.body, got.complete) == (200, b"all of it", True)


@pytest.mark.parametrize(
    "fields",
    [b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"Content-Length: 2\r\nContent-Length: 5"],
    ids=["length-and-chunked", "two-lengths"],
)
async def test_conflicting_framing_is_not_relayed_and_not_the_caller_s_fault(
    house: House, crm: RawDestination, fields: bytes
) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    crm.on("/x", in_turn(raw(head), fin))

    got = await ask(house.gateway.port, request("POST", "/d/crm/x", body=b"x"))

    assert (got.status, got.complete) == (423, True)
    assert len(crm.received) == 1


async def test_control_bytes_cannot_split_an_answer(house: House, crm: RawDestination) -> None:
    crm.on("/cr", in_turn(raw(b"HTTP/1.1 200 OK\r\nX-A: b\rX-Evil: 1\r\n\r\n"), fin))
    crm.on("/ctl", raw(b"HTTP/1.1 200 OK\r\nX-A: b\x01c\r\nContent-Length: 2\r\n\r\nok"))

    first = await ask(house.gateway.port, request("GET", "/d/crm/cr"))
    second = await ask(house.gateway.port, request("GET", "/d/crm/ctl"))

    for got in (first, second):
        assert got.values("X-Evil") == []
        assert not any(re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", value) for _, value in got.fields)
    assert first.status == 502
    assert (second.status, second.value("X-A")) == (200, "b c")


async def test_a_long_field_of_an_answer_passes(house: House, crm: RawDestination) -> None:
    crm.on("/x", answer(200, b"ok", [("X-Big", "b" * 12288)]))

    got = await ask(house.gateway.port, request("POST", "/d/crm/x", body=b"x"))

    assert (got.status, got.value("X-Big")) == (200, "b" * 12288)
    assert len(crm.received) == 1


@BOTH
async def test_what_the_destination_says_of_itself_is_neither_doubled_nor_invented(
    house: House, crm: RawDestination, method: str
) -> None:
    date = "Mon, 01 Jan 2024 00:00:00 GMT"
    fields = [("Server", "up/1"), ("Date", date), ("Content-Type", "text/x-up")]
    crm.on("/yes", answer(200, b"ok", fields))
    crm.on("/no", answer(200, b"ok"))

    said = await ask(house.gateway.port, request(method, "/d/crm/yes"))
    unsaid = await ask(house.gateway.port, request(method, "/d/crm/no"))

    assert [said.values(name) for name, _ in fields] == [[v.encode()] for _, v in fields]
    assert unsaid.values("Content-Type") == []
    assert unsaid.values("Server") == []


async def test_one_caller_s_cookies_are_not_given_to_the_next(
    house: House, crm: RawDestination
) -> None:
    crm.default = answer(200, b"ok", [("Set-Cookie", "sid=callerA; Path=/")])

    await ask(house.gateway.port, request("GET", "/d/crm/a", "Cookie: own=1", "X-Caller: A"))
    await ask(house.gateway.port, request("GET", "/d/crm/b"))

    assert [r.header("Cookie") for r in crm.received] == [None, None]
    assert crm.received[-1].header("X-Caller") is None


@BOTH
async def test_an_answer_nobody_asked_for_is_given_to_nobody(
    house: House, crm: RawDestination, method: str
) -> None:
    stray = rendered(200, b"poison")
    crm.on("/first", raw(rendered(200, b"mine") + stray))

    first = await ask(house.gateway.port, request("GET", "/d/crm/first"))
    second = await ask(house.gateway.port, request(method, f"/d/crm/{uuid.uuid4()}", body=b"x"))

    assert first.body == b"mine"
    assert second.body != b"poison"
