"""Failures before the first byte: each proves that nothing happened."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.core.classify import Silence
from gateway.core.errors import Malformed
from gateway.core.policy import Limits
from gateway.outbound import Outbound
from tests.outbound.sending import read, silence, to, whole, write
from tests.raw_destination import RawDestination


def speaking_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken, and on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def test_a_refused_connection_sent_nothing(
    crm: RawDestination, outbound: Outbound, closed_port: int
) -> None:
    result = await silence(outbound, to(crm, port=closed_port), write("DELETE", body=None))

    assert result == Silence(False, "connect-refused")


async def test_a_name_that_does_not_resolve_sent_nothing(
    crm: RawDestination, outbound: Outbound, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_such_name(*args: object, **more: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop().__class__, "getaddrinfo", no_such_name, False)

    result = await silence(outbound, to(crm, host="crm.invalid"), write())

    assert result == Silence(False, "dns")


async def test_a_peer_that_does_not_speak_tls_was_sent_nothing(
    crm: RawDestination, outbound: Outbound
) -> None:
    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speak_plainly, "127.0.0.1", 0) as plain:
        port = plain.sockets[0].getsockname()[1]

        result = await silence(outbound, to(crm, scheme="https", port=port), write())

    assert result == Silence(False, "tls")


async def test_an_untrusted_certificate_was_sent_nothing(
    outbound: Outbound, certificate: tuple[Path, Path]
) -> None:
    async with RawDestination(tls=speaking_tls(certificate)) as crm:
        result = await silence(outbound, to(crm), write())

        assert (result.sent, result.reason) == (False, "tls")
        assert crm.bytes_received == 0


async def test_a_trusted_certificate_carries_requests_on_one_connection(
    certificate: tuple[Path, Path],
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    outbound = Outbound(SystemClock(), tls=trusting)
    async with RawDestination(tls=speaking_tls(certificate)) as crm:
        for method in ("POST", "GET", "DELETE", "PUT"):
            await whole(outbound, to(crm), write(method, body=b"{}" if "P" in method else None))

        assert [(r.method, r.connection) for r in crm.received] == [
            ("POST", 0), ("GET", 0), ("DELETE", 0), ("PUT", 0),
        ]  # fmt: skip
        await outbound.close()


async def test_a_dial_that_takes_too_long_sent_nothing(
    crm: RawDestination, outbound: Outbound
) -> None:
    with contextlib.ExitStack() as stack:
        deaf = stack.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(4):  # nobody accepts, so these fill the queue and a dial hangs
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
        port = deaf.getsockname()[1]

        by_policy = await silence(
            outbound, to(crm, port=port, limits=Limits(connect_ms=100)), write()
        )
        by_deadline = await silence(outbound, to(crm, port=port), read(deadline_s=0.1))

    assert by_policy == by_deadline == Silence(False, "connect-timeout")


async def test_a_header_that_cannot_be_written_sent_nothing(
    crm: RawDestination, outbound: Outbound
) -> None:
    outgoing = write(headers=[("X-Note", "a\r\nX-Evil: 1")])

    result = await silence(outbound, to(crm), outgoing)

    assert not result.sent
    assert crm.bytes_received == 0


async def test_a_spooled_body_that_is_gone_sent_nothing(
    crm: RawDestination, outbound: Outbound, tmp_path: Path
) -> None:
    result = await silence(outbound, to(crm), write(body=tmp_path / "gone"))

    assert result == Silence(False, "not-sent")
    assert crm.wires == []


@pytest.mark.parametrize("target", ["/a#b", "/a b", "/a\r\nX: 1", "/caf\u00e9", "/a\x00"])
async def test_a_target_that_no_request_line_can_carry_is_malformed(
    crm: RawDestination, outbound: Outbound, target: str
) -> None:
    with pytest.raises(Malformed):
        await outbound.send_once(to(crm), write(target=target))

    assert crm.wires == []


async def test_after_closing_nothing_more_is_in_the_air(
    crm: RawDestination, outbound: Outbound
) -> None:
    await whole(outbound, to(crm), write())

    await outbound.close()

    assert await crm.how_it_ended(0) == "fin"
