"""Big bodies, slow peers, and the form in which a request leaves."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from gateway.core.errors import InvariantError
from gateway.core.policy import Connections, Destination
from gateway.outbound import Incoming, Outbound
from gateway.outbound.exchange import BUFFER_MAX_BYTES
from gateway.outbound.line import Line
from gateway.outbound.request import request_head
from tests.outbound.sending import CLOCK, fresh, silence, to, whole, write
from tests.raw_destination import RawDestination, Received, Wire, answer, early, raw, rendered

BIG = 12_000_000


async def first_read(reader: asyncio.StreamReader) -> bytes:
    return await reader.read(1 << 20)


@pytest.mark.parametrize("spooled", [False, True])
@pytest.mark.parametrize("on", ["reuse", "fresh"])
async def test_head_and_body_leave_together(
    outbound: Outbound, tmp_path: Path, on: str, spooled: bool
) -> None:
    read: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await first_read(reader):
            read.append(data)
            writer.write(rendered(200))
        writer.close()

    body: bytes | Path = b'{"n":1}'
    if spooled:
        body = tmp_path / "body"
        body.write_bytes(b'{"n":1}')
    crm = RawDestination()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    crm.port = server.sockets[0].getsockname()[1]
    destination = to(crm) if on == "reuse" else fresh(crm)

    for _ in range(2):
        await whole(outbound, destination, write(body=body))

    assert len(read) == 2
    assert all(data.endswith(b'\r\n\r\n{"n":1}') for data in read)
    await outbound.close()
    server.close()


class Slow:
    """A destination that reads a body only as fast as it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, request: Received, wire: Wire) -> None:
        length = int(request.header("Content-Length") or 0)
        await self.go_on.wait()
        got = len(request.body)
        while got < length:
            chunk = await wire.take()
            if not chunk:
                raise EOFError
            got += len(chunk)
        await answer(201, b"%d" % got)(request, wire)


@pytest.mark.parametrize("spooled", [False, True])
async def test_a_slow_destination_gets_a_big_upload_whole(
    crm: RawDestination, outbound: Outbound, tmp_path: Path, spooled: bool
) -> None:
    slow = Slow()
    crm.default = early(slow)
    body: bytes | Path = bytes(BIG)
    if spooled:
        body = tmp_path / "body"
        body.write_bytes(bytes(BIG))
    sending = asyncio.create_task(outbound.send_once(to(crm), write(body=body)))
    await crm.until(lambda: bool(crm.received))

    slow.go_on.set()
    result = await sending

    assert isinstance(result, Incoming)
    assert (result.status, await result.read(100)) == (201, b"%d" % BIG)
    assert crm.wires[0].raw.endswith(bytes(1000))
    assert len(crm.received) == 1


async def test_a_spooled_body_waits_on_disk_while_the_destination_is_slow(
    crm: RawDestination, outbound: Outbound, tmp_path: Path
) -> None:
    slow = Slow()
    crm.default = early(slow)
    (tmp_path / "body").write_bytes(bytes(40_000_000))
    outgoing = write(body=tmp_path / "body")
    sending = asyncio.create_task(outbound.send_once(to(crm), outgoing))
    await crm.until(lambda: bool(crm.received))
    (connection,) = outbound._lines["crm"].connections
    for _ in range(200):
        await asyncio.sleep(0.001)
        transport = connection.transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 2_000_000
    assert not sending.done()

    slow.go_on.set()

    assert isinstance(await sending, Incoming)


async def test_a_spooled_body_that_shrank_leaves_the_request_unfinished(
    crm: RawDestination, outbound: Outbound, tmp_path: Path
) -> None:
    slow = Slow()
    crm.default = early(slow)
    path = tmp_path / "body"
    path.write_bytes(bytes(40_000_000))
    sending = asyncio.create_task(outbound.send_once(to(crm), write(body=path)))
    await crm.until(lambda: bool(crm.received))
    with path.open("rb+") as file:
        file.truncate(30_000_000)

    slow.go_on.set()
    result = await sending

    assert not isinstance(result, Incoming)
    assert (result.sent, result.reason) == (True, "write-failed")
    assert await crm.how_it_ended(0) is not None
    assert crm.bytes_received < 31_000_000


async def test_an_answer_nobody_reads_stays_with_the_destination(
    crm: RawDestination, outbound: Outbound
) -> None:
    crm.default = raw(rendered(200, bytes(40_000_000)))
    result = await outbound.send_once(to(crm), write())
    assert isinstance(result, Incoming)
    for _ in range(100):
        await asyncio.sleep(0.001)

    assert result._reply.size <= BUFFER_MAX_BYTES * 2 + 1

    assert sum([len(piece) async for piece in result.chunks()]) == 40_000_000
    assert result.complete
    crm.default = answer(200, b"next")
    assert await whole(outbound, to(crm), write()) == b"next"
    assert len(crm.wires) == 1


async def test_an_answer_that_came_whole_outlives_the_deadline(
    crm: RawDestination, outbound: Outbound
) -> None:
    crm.default = answer(200, b"kept")
    result = await outbound.send_once(to(crm), write(deadline_s=0.2))
    assert isinstance(result, Incoming)
    loop = asyncio.get_running_loop()
    past_it = loop.create_future()
    loop.call_at(result._exchange.due_s() + 0.05, past_it.set_result, None)
    await past_it

    assert await result.read(10) == b"kept"
    assert result.complete


async def test_patience_ends_before_the_body_does(crm: RawDestination, outbound: Outbound) -> None:
    gate = asyncio.Event()

    async def halves(request: Received, wire: Wire) -> None:
        del request
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
        await gate.wait()
        await wire.send(b"half")

    crm.default = halves
    result = await outbound.send_once(to(crm), write())
    assert isinstance(result, Incoming)

    assert await result.read(100, patience_s=0.05) == b"half"
    assert not result.ended
    gate.set()
    assert [chunk async for chunk in result.chunks()] == [b"half"]
    assert result.complete


@pytest.mark.parametrize(
    ("scheme", "host", "port", "header"),
    [
        ("http", "crm.test", 80, "crm.test"),
        ("https", "crm.test", 443, "crm.test"),
        ("https", "crm.test", 80, "crm.test:80"),
        ("http", "crm.test", 443, "crm.test:443"),
        ("http", "crm.test.", 8080, "crm.test.:8080"),
        ("https", "[::1]", 443, "[::1]"),
        ("https", "::1", 8443, "[::1]:8443"),
    ],
)
def test_the_host_is_named_with_its_port_unless_it_is_the_usual_one(
    scheme: str, host: str, port: int, header: str
) -> None:
    destination = Destination(name="crm", scheme=scheme, host=host, port=port, prefix="", digest="")

    assert Line(destination, CLOCK, None).host == header


@pytest.mark.parametrize("host", ["::1", "[::1]"])
async def test_an_ipv6_destination_is_reached(outbound: Outbound, host: str) -> None:
    crm = RawDestination()
    crm.host = "::1"
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return  # no IPv6 on this machine
    async with crm:
        await whole(outbound, to(crm, host=host), write())

        assert crm.received[0].header("Host") == f"[::1]:{crm.port}"
        await outbound.close()


async def test_a_name_with_several_addresses_is_reached_by_the_one_that_answers(
    crm: RawDestination, outbound: Outbound, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    kind = asyncio.get_running_loop().__class__
    known = kind.getaddrinfo

    async def addresses(loop: Any, host: Any, *args: Any, **more: Any) -> Any:
        if host != "crm.test":
            return await known(loop, host, *args, **more)
        asked.append(host)
        found = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [
            (socket.AF_INET6, *found, ("::1", crm.port, 0, 0)),  # nobody listens there
            (socket.AF_INET, *found, ("127.0.0.1", crm.port)),
        ]

    monkeypatch.setattr(kind, "getaddrinfo", addresses, False)
    destination = to(crm, host="crm.test", connections=Connections.FRESH)

    for _ in range(3):
        await whole(outbound, destination, write())

    assert [r.header("Host") for r in crm.received] == [f"crm.test:{crm.port}"] * 3
    assert len(asked) == 1


async def test_big_bodies_pass_through_tls(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    outbound = Outbound(CLOCK, tls=ssl.create_default_context(cafile=str(certificate[0])))
    body = bytes(range(256)) * 8000
    (tmp_path / "body").write_bytes(body)
    async with RawDestination(tls=serving) as crm:
        crm.default = answer(200, body)
        for sent in (body, tmp_path / "body"):
            assert await whole(outbound, to(crm), write(body=sent)) == body

        assert [r.body == body for r in crm.received] == [True, True]
        assert len(crm.wires) == 1
        await outbound.close()


@pytest.mark.parametrize(
    "field", ["Content-Length", "transfer-encoding", "Host", "Connection", "Upgrade", "TE"]
)
async def test_a_field_that_frames_the_request_can_only_be_set_here(
    crm: RawDestination, outbound: Outbound, field: str
) -> None:
    with pytest.raises(InvariantError, match=field):
        await outbound.send_once(to(crm), write(headers=[(field, "5")]))

    assert crm.bytes_received == 0


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("POST", "X-A", "1\r\nX-Evil: 1"),
        ("POST", "X-A", "1\nX-Evil: 1"),
        ("POST", "X-A", "1\r"),
        ("POST", "X-A", "1\0"),
        ("POST", "X-A\r\nX-Evil", "1"),
        ("POST", "X A", "1"),
        ("POST", "X-A:", "1"),
        ("POST", "", "1"),
        ("POST", "X-A", "\udcff"),
        ("PO ST", "X-A", "1"),
        ("GET / HTTP/1.1\r\nX: ", "X-A", "1"),
        ("", "X-A", "1"),
        ("CONNECT", "X-A", "1"),
    ],
)
async def test_nothing_can_add_a_line_to_the_head(
    crm: RawDestination, outbound: Outbound, method: str, name: str, value: str
) -> None:
    outgoing = write(method, headers=[(name, value)])

    result = await silence(outbound, to(crm), outgoing)

    assert (result.sent, result.reason) == (False, "not-sent")
    assert crm.bytes_received == 0


def test_the_head_is_all_that_was_said_and_no_more() -> None:
    head = request_head(
        method="PUT", target="?q", host="crm.test", headers=[("X-A", "é")], length_bytes=7,
        closes=True,
    )  # fmt: skip

    assert (
        head
        == (
            "PUT /?q HTTP/1.1\r\nHost: crm.test\r\nContent-Length: 7\r\nConnection: close\r\n"
            "X-A: é\r\n\r\n"
        ).encode()
    )


async def test_who_is_cancelled_over_a_body_may_go_on_reading_it(
    crm: RawDestination, outbound: Outbound
) -> None:
    gate = asyncio.Event()

    async def halves(request: Received, wire: Wire) -> None:
        del request
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
        await gate.wait()
        await wire.send(b"half")

    crm.default = halves
    result = await outbound.send_once(to(crm), write())
    assert isinstance(result, Incoming)
    chunks = result.chunks()
    assert await anext(chunks) == b"half"
    reading = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert not result.ended

    gate.set()

    assert [chunk async for chunk in result.chunks()] == [b"half"]
    assert result.complete
