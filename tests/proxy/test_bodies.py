"""Bodies reach the destination as they are, with one framing.

| behaviour | test |
|---|---|
| a binary body with a length arrives exact | exact |
| a chunked upload arrives exact, framed consistently | exact |
| a coded body is not decoded | coded |
| a body of some MiB passes, through the spool | large |
| GET and DELETE without a body carry no Transfer-Encoding | without |
| a multipart body and its boundary are not rewritten | multipart |
| DELETE and GET with a body keep it | method |
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from tests.house import House
from tests.proxy.raw_caller import ask, request
from tests.proxy.setting import OpenHouse
from tests.raw_destination import RawDestination

BINARY = bytes(range(256)) * 40


def framing(crm: RawDestination) -> dict[str, str | None]:
    received = crm.received[-1]
    return {name: received.header(name) for name in ("Content-Length", "Transfer-Encoding")}


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_arrives_exact_with_one_framing(
    house: House, crm: RawDestination, chunked: bool
) -> None:
    got = await ask(house.gateway.port, request("POST", "/d/crm/x", body=BINARY, chunked=chunked))

    assert got.status == 200
    assert crm.received[-1].body == BINARY
    assert framing(crm) == {"Content-Length": str(len(BINARY)), "Transfer-Encoding": None}


async def test_a_coded_body_is_not_decoded(house: House, crm: RawDestination) -> None:
    body = gzip.compress(b"hello world " * 500, mtime=0)
    fields = ["Content-Encoding: gzip", "Content-Type: application/json"]

    await ask(house.gateway.port, request("POST", "/d/crm/x", *fields, body=body))

    assert crm.received[-1].body == body
    assert crm.received[-1].header("Content-Encoding") == "gzip"


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_body_passes_through_the_spool(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, chunked: bool
) -> None:
    house = await open_house(body_spool_bytes=64 * 1024)
    body = os.urandom(3 * 1024 * 1024)

    got = await ask(house.gateway.port, request("POST", "/d/crm/x", body=body, chunked=chunked))

    assert got.status == 200
    assert crm.received[-1].body == body
    assert framing(crm) == {"Content-Length": str(len(body)), "Transfer-Encoding": None}
    assert list((tmp_path / "spool").glob("*")) == []  # its effect is final


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_without_a_body_there_is_no_transfer_encoding(
    house: House, crm: RawDestination, method: str
) -> None:
    got = await ask(house.gateway.port, request(method, "/d/crm/x"), method)

    assert got.status == 200
    assert framing(crm)["Transfer-Encoding"] is None
    assert framing(crm)["Content-Length"] in (None, "0")


async def test_a_multipart_body_is_not_rewritten(house: House, crm: RawDestination) -> None:
    boundary = "----=_Part 9'()+_,-./:?"
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="f"; filename="é \\"x\\".txt"\r\n'
        f"Content-Type: text/plain\r\n\r\nline1\r\nline2\n\r\n--{boundary}--\r\nepilogue"
    ).encode()
    kind = f'multipart/form-data; boundary="{boundary}"; charset=UTF-8'

    await ask(house.gateway.port, request("POST", "/d/crm/x", f"Content-Type: {kind}", body=body))

    assert crm.received[-1].body == body
    assert crm.received[-1].header("Content-Type") == kind


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_any_method_keeps_its_body(
    house: House, crm: RawDestination, method: str, chunked: bool
) -> None:
    data = request(method, "/d/crm/x", body=b'{"ids":[1,2]}', chunked=chunked)

    got = await ask(house.gateway.port, data)

    assert got.status == 200
    assert crm.received[-1].body == b'{"ids":[1,2]}'
    assert framing(crm) == {"Content-Length": "13", "Transfer-Encoding": None}


async def test_an_empty_body_of_known_length_stays_one(house: House, crm: RawDestination) -> None:
    await ask(house.gateway.port, request("POST", "/d/crm/x", body=b""))

    assert framing(crm) == {"Content-Length": "0", "Transfer-Encoding": None}
