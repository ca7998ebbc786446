"""Ambiguous framing never turns one request into two, nor a body into a request.

| behaviour | test |
|---|---|
| Content-Length beside Transfer-Encoding is refused | framing |
| a repeated or malformed Content-Length is refused | framing |
| an odd Transfer-Encoding is refused | framing |
| bare CR or LF, folding and NUL in a head are refused | head |
| the body of a refused request is not carried out as a request | refused |
| bad chunks are refused; extensions and trailers add nothing | chunks, trailers |
| other versions of HTTP are refused | version |
"""

from __future__ import annotations

import pytest

from tests.house import House
from tests.proxy.raw_caller import RawCaller, ask, request
from tests.raw_destination import RawDestination

INNER = request("GET", "/d/crm/smuggled")
AMBIGUOUS: dict[str, tuple[list[bytes], bytes]] = {
    "CL.TE": ([b"Content-Length: 5", b"Transfer-Encoding: chunked"], b"0\r\n\r\n"),
    "TE.CL": ([b"Transfer-Encoding: chunked", b"Content-Length: 4"], b"1\r\nA\r\n0\r\n\r\n"),
    "CL twice": ([b"Content-Length: 0", b"Content-Length: 5"], b""),
    "CL same twice": ([b"Content-Length: 0", b"Content-Length: 0"], b""),
    "CL +5": ([b"Content-Length: +5"], b""),
    "CL 0x5": ([b"Content-Length: 0x5"], b""),
    "CL -1": ([b"Content-Length: -1"], b""),
    "CL list": ([b"Content-Length: 5, 5"], b""),
    "CL 5 5": ([b"Content-Length: 5 5"], b""),
    "CL huge": ([b"Content-Length: 99999999999999999999999"], b""),
    "CL empty": ([b"Content-Length: "], b""),
    "TE xchunked": ([b"Transfer-Encoding: xchunked"], b"0\r\n\r\n"),
    "TE chunked, identity": ([b"Transfer-Encoding: chunked, identity"], b"0\r\n\r\n"),
    "TE with a blank": ([b"Transfer-Encoding : chunked"], b"0\r\n\r\n"),
    "TE with VT": ([b"Transfer-Encoding: \x0bchunked"], b"0\r\n\r\n"),
    "TE twice": ([b"Transfer-Encoding: chunked"] * 2, b"0\r\n\r\n"),
    "TE gzip": ([b"Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n"),
    "TE identity": ([b"Transfer-Encoding: identity"], b"0\r\n\r\n"),
}
BAD_HEADS = [
    b"X-A: 1\nX-Smug: 1", b"X-A: 1\rX-Smug: 1", b"X-A: 1\r\n X-Smug: 1", b"X-A: 1\x00",
    b"X-A 1", b"X[A]: 1", b": 1", b" X-A: 1", b"Transfer_Encoding : x",
]  # fmt: skip
BAD_CHUNKS = [
    b"0x1\r\nA\r\n0\r\n\r\n", b"1 \r\nA\r\n0\r\n\r\n", b"FFFFFFFFFFFFFFFFF\r\nA\r\n0\r\n\r\n",
    b"1\r\nAB\r\n0\r\n\r\n", b"1\nA\r\n0\r\n\r\n", b"-1\r\nA\r\n0\r\n\r\n",
    b"1\r\nA\r\n0\r\nContent-Length: 9\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_ambiguous_framing_is_refused(house: House, crm: RawDestination, name: str) -> None:
    framing, payload = AMBIGUOUS[name]
    data = request("POST", "/d/crm/outer", *framing) + payload + INNER
    async with RawCaller(house.gateway.port) as caller:
        caller.writer.write(data)
        got = await caller.answer()

        assert got.status in (400, 501)
        assert await caller.is_closed()
    assert crm.received == []


@pytest.mark.parametrize("line", BAD_HEADS)
async def test_a_head_that_can_be_read_in_two_ways_is_refused(
    house: House, crm: RawDestination, line: bytes
) -> None:
    got = await ask(house.gateway.port, request("GET", "/d/crm/x", line))

    assert got.status == 400
    assert crm.received == []


@pytest.mark.parametrize("target", ["/d/nobody/x", "/d/crm/../x", "/nothing/here"])
async def test_the_body_of_a_refused_request_is_not_carried_out(
    house: House, crm: RawDestination, target: str
) -> None:
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("POST", target, f"Content-Length: {len(INNER)}") + INNER)
        got = await caller.answer()
        await caller.send(request("GET", "/livez", "Connection: close"))
        after = await caller.answer()

        assert got.status in (400, 404)
        assert after.status in (0, 200)  # closed, or in step
        assert await caller.is_closed()
    assert crm.received == []


@pytest.mark.parametrize("payload", BAD_CHUNKS)
async def test_bad_chunks_send_nothing(house: House, crm: RawDestination, payload: bytes) -> None:
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("POST", "/d/crm/x", b"Transfer-Encoding: chunked") + payload)
        got = await caller.answer()

        assert got.status in (0, 400)
        assert got.status == 0 or await caller.is_closed()
    assert crm.received == []


async def test_extensions_and_trailers_add_nothing(house: House, crm: RawDestination) -> None:
    payload = b"1;a=b\r\nA\r\n0\r\nFence-Term: 9\r\nX-Trail: 1\r\n\r\n"

    got = await ask(
        house.gateway.port, request("POST", "/d/crm/x", b"Transfer-Encoding: chunked") + payload
    )

    assert (got.status, got.value("Fence-Term")) == (200, "7")
    assert crm.received[0].body == b"A"
    names = {name.lower() for name, _ in crm.received[0].headers}
    assert names <= {"host", "content-length", "connection"}
    assert crm.received[0].header("Content-Length") == "1"


@pytest.mark.parametrize("version", ["HTTP/2.0", "HTTP/0.9", "HTTP/9.9", "HTTP/1.2"])
async def test_other_versions_of_http_are_refused(
    house: House, crm: RawDestination, version: str
) -> None:
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("GET", "/d/crm/x", version=version))
        head = await caller.until(b"\r\n\r\n")

    assert head.split(b" ")[1] in (b"400", b"505")
    assert crm.received == []


async def test_an_old_caller_is_served_without_chunks(house: House, crm: RawDestination) -> None:
    got = await ask(house.gateway.port, request("POST", "/d/crm/x", body=b"1", version="HTTP/1.0"))

    assert (got.status, got.values("Transfer-Encoding")) == (200, [])
    assert [r.method for r in crm.received] == ["POST"]


@pytest.mark.parametrize("host", [None, "a\r\nHost: b"])
async def test_no_host_and_two_hosts_are_refused(
    house: House, crm: RawDestination, host: str | None
) -> None:
    got = await ask(house.gateway.port, request("GET", "/d/crm/x", host=host))

    assert got.status == 400
    assert crm.received == []


async def test_requests_on_one_connection_are_carried_out_in_their_order(
    house: House, crm: RawDestination
) -> None:
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(b"".join(request("POST", f"/d/crm/{n}", body=b"x") for n in range(5)))
        got = [(await caller.answer()).status for _ in range(5)]

    assert got == [200] * 5
    assert [r.path for r in crm.received] == ["/0", "/1", "/2", "/3", "/4"]
