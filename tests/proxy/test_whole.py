"""Answers written in one piece: to the byte what a caller must get, and left alone where the
library has to see to them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gateway.clock import ManualClock
from gateway.proxy.answer import Answer
from gateway.proxy.whole import SMALL_BYTES, Dates, written
from tests.house import House
from tests.proxy.raw_caller import RawCaller, request
from tests.raw_destination import RawDestination, answer


@dataclass
class Wire:
    """A transport that keeps what is written to it."""

    unsent: int = 0
    closing: bool = False
    data: bytes = b""

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: bytes) -> None:
        self.data += data


@dataclass
class Asked:
    """As much of a request as an answer asks about."""

    method: str = "POST"
    version: tuple[int, int] = (1, 1)
    keep_alive: bool = True
    transport: Wire | None = field(default_factory=Wire)


def dates() -> Dates:
    return Dates(ManualClock(wall_ms=1_790_000_000_000))


def ordinary(**changes) -> Answer:
    given = {"status": 201, "headers": [("Content-Type", "a/b")], "body": b"ok"} | changes
    return Answer(**given)


def test_an_ordinary_answer_is_written_with_length_and_date():
    asked = Asked()
    told = ordinary(headers=[("Set-Cookie", "a=1"), ("content-length", "9"), ("Set-Cookie", "b=2")])
    told.extra.append(("Fence-Verdict", "forwarded"))

    done = written(asked, told, dates(), closes=False)

    assert done is not None
    assert done.keep_alive
    assert asked.transport.data == (
        b"HTTP/1.1 201 Created\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nFence-Verdict: forwarded"
        b"\r\nContent-Length: 2\r\nDate: Mon, 21 Sep 2026 14:13:20 GMT\r\n\r\nok"
    )


def test_the_destinations_own_date_is_kept():
    asked = Asked()

    written(
        asked, ordinary(headers=[("date", "Tue, 01 Jan 2030 00:00:00 GMT")]), dates(), closes=False
    )

    assert asked.transport.data.lower().count(b"\r\ndate: ") == 1
    assert b"date: Tue, 01 Jan 2030 00:00:00 GMT" in asked.transport.data


@pytest.mark.parametrize(("keep_alive", "closes"), [(False, False), (True, True)])
def test_an_answer_that_ends_the_connection_says_so(keep_alive, closes):
    asked = Asked(keep_alive=keep_alive)

    done = written(asked, ordinary(), dates(), closes=closes)

    assert done is not None
    assert not done.keep_alive
    assert b"\r\nConnection: close\r\n" in asked.transport.data


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Asked(method="HEAD"), ordinary()),
        (Asked(version=(1, 0)), ordinary()),
        (Asked(transport=None), ordinary()),
        (Asked(transport=Wire(closing=True)), ordinary()),
        (Asked(transport=Wire(unsent=1)), ordinary()),
        (Asked(), ordinary(status=204, body=b"")),
        (Asked(), ordinary(status=304, body=b"")),
        (Asked(), ordinary(body=b"x" * (SMALL_BYTES + 1))),
        (Asked(), ordinary(headers=[("X-Split", "a\r\nSet-Cookie: b=1")])),
        (Asked(), ordinary(headers=[("X-Split", "a\nb")])),
        (Asked(), ordinary(headers=[("X-Nul", "a\0b")])),
        (Asked(), ordinary(headers=[("X-Half", "\ud800")])),
    ],
    ids=[
        "head", "http-1.0", "gone", "closing", "reads-slowly", "204", "304", "large", "crlf", "lf",
        "nul", "surrogate",
    ],
)  # fmt: skip
def test_what_is_out_of_the_ordinary_is_not_written_here(asked, told):
    assert written(asked, told, dates(), closes=False) is None
    assert asked.transport is None or asked.transport.data == b""


async def test_answers_of_both_ways_follow_each_other_on_one_connection(
    house: House, crm: RawDestination
) -> None:
    large = b"y" * (SMALL_BYTES + 1)
    crm.on("/small", answer(201, b"small"))
    crm.on("/large", answer(201, large))

    async with RawCaller(house.gateway.port) as caller:
        got = []
        for path in ("/small", "/large", "/small"):
            await caller.send(request("POST", f"/d/crm{path}", body=b"{}"))
            got.append((await caller.answer()).body)

    assert got == [b"small", large, b"small"]


async def test_pipelined_writes_are_answered_in_order(house: House, crm: RawDestination) -> None:
    crm.on("/a", answer(201, b"first"))
    crm.on("/b", answer(201, b"second"))

    async with RawCaller(house.gateway.port) as caller:
        await caller.send(
            request("POST", "/d/crm/a", body=b"{}") + request("POST", "/d/crm/b", body=b"{}")
        )
        got = [(await caller.answer()).body, (await caller.answer()).body]

    assert got == [b"first", b"second"]
