"""Which fields of a request reach the destination.

| behaviour | test |
|---|---|
| hop-by-hop and nominated fields are removed; the others stay | hop |
| repeated fields survive in their order, whatever their case | repeated |
| Host is the destination's own, once | host |
| nothing is invented: Accept, Accept-Encoding, Content-Type, User-Agent | invented |
| UTF-8 is kept exactly; other bytes are refused, never altered | utf |
| 100-continue is answered by the gateway, and the body arrives | continue |
| long fields and many fields pass | large |
| nothing that is the gateway's, or a credential of the caller, goes on | caller |
"""

from __future__ import annotations

import pytest

from tests.house import House
from tests.proxy.raw_caller import RawCaller, ask, request
from tests.proxy.setting import OpenHouse, destination
from tests.raw_destination import RawDestination


def values(crm: RawDestination, name: str) -> list[str]:
    return [value for known, value in crm.received[-1].headers if known.lower() == name.lower()]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_hop_by_hop_and_nominated_fields_are_removed(
    house: House, crm: RawDestination, method: str
) -> None:
    fields = [
        "Connection: keep-alive, X-Nom-A", "Connection: X-Nom-B", "X-Nom-A: 1", "X-Nom-B: 1",
        "Keep-Alive: timeout=9", "Proxy-Connection: keep-alive", "TE: gzip;q=0.5", "X-End: stay",
        "Proxy-Authorization: Basic eDp5", "Trailer: X-T",
    ]  # fmt: skip

    got = await ask(house.gateway.port, request(method, "/d/crm/x", *fields))

    assert got.status == 200
    for name in ("X-Nom-A", "X-Nom-B", "Keep-Alive", "Proxy-Connection", "TE", "Trailer"):
        assert values(crm, name) == [], name
    assert values(crm, "Proxy-Authorization") == []
    assert not any("nom" in value.lower() for value in values(crm, "Connection"))
    assert values(crm, "X-End") == ["stay"]


@pytest.mark.parametrize(
    "name", ["Host", "Authorization", "Content-Length", "Fence-Term", "Idempotency-Key", "If-Match"]
)
async def test_a_field_that_matters_cannot_be_nominated_away(
    house: House, crm: RawDestination, name: str
) -> None:
    data = request("POST", "/d/crm/x", f"Connection: {name}", body=b"{}")

    got = await ask(house.gateway.port, data)

    assert got.status == 400
    assert crm.received == []


async def test_repeated_fields_survive_in_their_order(house: House, crm: RawDestination) -> None:
    fields = ["X-Dup: one", "x-dup: two", "X-DUP: three", "Accept: a/b", "accept: c/d"]

    await ask(house.gateway.port, request("GET", "/d/crm/x", *fields))

    assert values(crm, "X-Dup") == ["one", "two", "three"]
    assert values(crm, "Accept") == ["a/b", "c/d"]


async def test_the_host_is_the_destination_s_own_once(house: House, crm: RawDestination) -> None:
    await ask(house.gateway.port, request("POST", "/d/crm/x", body=b"{}"))

    assert values(crm, "Host") == [f"127.0.0.1:{crm.port}"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
async def test_no_field_is_invented(house: House, crm: RawDestination, method: str) -> None:
    body = None if method in ("GET", "HEAD", "DELETE") else b"x"

    await ask(house.gateway.port, request(method, "/d/crm/x", body=body), method)

    names = {name.lower() for name, _ in crm.received[-1].headers}
    assert names <= {"host", "content-length", "connection"}


async def test_utf_8_is_kept_exactly(house: House, crm: RawDestination) -> None:
    field = "X-Utf: café €".encode()

    await ask(house.gateway.port, request("GET", "/d/crm/x", field))

    assert b"\r\nX-Utf: caf\xc3\xa9 \xe2\x82\xac\r\n" in crm.received[-1].head


async def test_bytes_that_are_not_utf_8_are_refused(house: House, crm: RawDestination) -> None:
    got = await ask(house.gateway.port, request("GET", "/d/crm/x", b"X-L1: caf\xe9-end"))

    assert got.status == 400
    assert crm.received == []


async def test_a_body_is_asked_for_and_arrives_whole(house: House, crm: RawDestination) -> None:
    fields = ["Expect: 100-continue", "Content-Length: 4"]
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("POST", "/d/crm/x", *fields))
        assert await caller.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert crm.received == []
        await caller.send(b"body")

        got = await caller.answer()

    assert (got.status, crm.received[0].body) == (200, b"body")
    assert values(crm, "Expect") == []


async def test_a_long_field_and_many_fields_pass(house: House, crm: RawDestination) -> None:
    fields = [f"X-Big: {'t' * 6000}", *(f"X-F{at}: v{at}" for at in range(80))]

    got = await ask(house.gateway.port, request("GET", "/d/crm/x", *fields))

    assert got.status == 200
    assert values(crm, "X-Big") == ["t" * 6000]
    assert [values(crm, f"X-F{at}") for at in range(80)] == [[f"v{at}"] for at in range(80)]


async def test_nothing_that_is_the_gateway_s_or_the_caller_s_own_goes_on(
    house: House, crm: RawDestination
) -> None:
    fields = [
        "Fence-Unit: u", "Fence-Item: i", "Fence-Request-Id: r-1", "Fence-Authorization: Bearer t",
        "Authorization: Bearer t", "Cookie: own=1", "X-Forwarded-For: 9.9.9.9", "Via: 1.1 a",
        "Forwarded: for=9.9.9.9", "X-Real-IP: 9.9.9.9", "Fence_Term: 9", "X_Forwarded_Host: h",
        "Prefer: return=minimal, wait=1", "X-Own: kept",
    ]  # fmt: skip

    got = await ask(house.gateway.port, request("POST", "/d/crm/x", *fields, body=b"{}"))

    assert got.status == 200
    names = {name.lower() for name, _ in crm.received[-1].headers}
    assert names <= {"host", "content-length", "connection", "prefer", "x-own"}
    assert values(crm, "Prefer") == ["return=minimal"]
    assert values(crm, "X-Own") == ["kept"]


async def test_the_destination_s_own_credential_takes_the_place_of_the_caller_s(
    open_house: OpenHouse, crm: RawDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_KEY", "crm-secret")
    login = '{kind: header, name: X-Api-Key, value: "${env:CRM_KEY}"}'
    house = await open_house(destination(crm, login=login))
    fields = ["X-Api-Key: callers", "x_api_key: callers", "Authorization: Bearer callers"]

    await ask(house.gateway.port, request("GET", "/d/crm/x", *fields))

    assert values(crm, "X-Api-Key") == ["crm-secret"]
    assert b"callers" not in crm.received[-1].head


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "x-http-method", "X-METHOD-OVERRIDE"])
async def test_a_field_that_changes_the_method_is_refused(
    house: House, crm: RawDestination, name: str
) -> None:
    got = await ask(house.gateway.port, request("POST", "/d/crm/x", f"{name}: DELETE", body=b"{}"))

    assert got.status == 400
    assert crm.received == []
