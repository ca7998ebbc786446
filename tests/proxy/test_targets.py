"""Path and query reach the destination byte for byte, and nobody but it.

| behaviour | test |
|---|---|
| percent-encoding, case, parameters and sub-delimiters of the path are kept | verbatim |
| the query is kept, also a bare `?` | verbatim |
| dot segments, plain or encoded, are refused; what only looks like one stays | refused, verbatim |
| encoded CR, LF and NUL are refused in the path and stay as they are in the query | the same |
| text behind the name, an absolute target, a Host or CONNECT do not choose the destination | evil |
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson
import pytest

from tests.house import House
from tests.proxy.raw_caller import ask, request
from tests.proxy.setting import OpenHouse, destination
from tests.raw_destination import RawDestination

VERBATIM = [
    "/a%2Fb/%41%7e~/b%2Bc+d/caf%C3%A9/x%3Ay/%e2%82%ac",
    "/CaSe/A;v=1;w=2/B,c/(d)/e'f/$g!h/*i/@j:k=l&m",
    "/q?q=%2B+%20&x=a%2Fb/c&y=%27%22&z&w=&a=1;b=2&e==&u=caf%C3%A9&t=%7e&d=1&d=2&p=%2f",
    "/a//b", "/a/", "/a/%252e%252e/b", "/a/..b/.c/d..", "/bare?", "/two??", "/",
    "/x?y=%0d%0aX-Injected:%201", "/x?y=%00", "/x?p=/../../etc", "/x?%",
]  # fmt: skip

REFUSED = [
    "/a/../b", "/a/./b", "/a/..", "/a/%2e%2e/b", "/a/%2E./b", "/a/.%2e/b", "/a/..%2fb",
    "/a/%2e%2e%2fb", "/a/..%5cb", "/a/..;/b", "/a/.%2e;x=1/b", "/%0d%0aX-Injected:%201", "/%00x",
    "/a%5cb", "/a\\b", "/%zz", "/%4",
]  # fmt: skip


@pytest.fixture
async def evil() -> AsyncIterator[RawDestination]:
    """A listener that no request may ever reach."""
    async with RawDestination() as listener:
        yield listener
        assert listener.wires == []


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("suffix", VERBATIM)
async def test_a_target_reaches_the_destination_byte_for_byte(
    house: House, crm: RawDestination, suffix: str, method: str
) -> None:
    body = b"{}" if method == "POST" else None

    got = await ask(house.gateway.port, request(method, f"/d/crm{suffix}", body=body))

    assert got.status == 200
    assert [(r.method, r.target) for r in crm.received] == [(method, suffix)]


@pytest.mark.parametrize("suffix", REFUSED)
async def test_a_target_that_two_readers_may_read_differently_is_refused(
    house: House, crm: RawDestination, suffix: str
) -> None:
    got = await ask(house.gateway.port, request("GET", f"/d/crm{suffix}"))

    assert got.status == 400
    assert orjson.loads(got.body)["type"] == "/problems/bad-target"
    assert crm.received == []


async def test_the_path_of_the_base_url_comes_in_front(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, prefix="/api/v3"))

    await ask(house.gateway.port, request("GET", "/d/crm/notes?x=%20"))

    assert [r.target for r in crm.received] == ["/api/v3/notes?x=%20"]


async def test_the_name_alone_is_the_destination_s_root(house: House, crm: RawDestination) -> None:
    await ask(house.gateway.port, request("GET", "/d/crm"))
    await ask(house.gateway.port, request("GET", "/d/crm?a=1"))

    assert [r.target for r in crm.received] == ["/", "/?a=1"]


@pytest.mark.parametrize(
    "form",
    ["/d/crm@{evil}/x", "/d/crm%40{evil}/x", "/d/crm//{evil}/x", "/d/crm/\\{evil}/x",
     "/d/crm/http://{evil}/x", "/d/crm:x@{evil}/x", "/d/crm/..//{evil}/x", "//{evil}/d/crm/x",
     "http://{evil}/x", "http://{evil}/d/crm/x"],
)  # fmt: skip
async def test_no_target_chooses_another_host(
    house: House, crm: RawDestination, evil: RawDestination, form: str
) -> None:
    target = form.format(evil=f"{evil.host}:{evil.port}")

    got = await ask(house.gateway.port, request("GET", target))

    assert got.status in (200, 400, 404)
    hosts = {r.header("Host") for r in crm.received}
    assert hosts <= {f"127.0.0.1:{crm.port}"}
    assert (got.status == 200) == bool(crm.received)


async def test_a_foreign_host_field_is_not_followed(
    house: House, crm: RawDestination, evil: RawDestination
) -> None:
    host = f"{evil.host}:{evil.port}"

    await ask(house.gateway.port, request("GET", "/d/crm/x", host=host))

    assert [r.header("Host") for r in crm.received] == [f"127.0.0.1:{crm.port}"]


async def test_no_tunnel_is_opened(house: House, evil: RawDestination) -> None:
    target = f"{evil.host}:{evil.port}"

    got = await ask(house.gateway.port, request("CONNECT", target), "CONNECT")

    assert got.status >= 400


@pytest.mark.parametrize("field", ["_method", "_METHOD", "_HttpMethod", "%5Fmethod", "_me%74hod"])
@pytest.mark.parametrize("form", ["?{}=DELETE", "?a=1&{}=DELETE", "?a=1;{}=DELETE"])
async def test_a_query_field_that_changes_the_method_is_refused(
    house: House, crm: RawDestination, form: str, field: str
) -> None:
    target = f"/d/crm/notes{form.format(field)}"

    got = await ask(house.gateway.port, request("POST", target, body=b"{}"))

    assert got.status == 400
    assert crm.received == []


async def test_a_query_that_only_speaks_of_methods_passes(
    house: House, crm: RawDestination
) -> None:
    query = "?q=_method=x&payment_method=pix&v=%26_method=DELETE"

    await ask(house.gateway.port, request("GET", f"/d/crm/notes{query}"))

    assert [r.target for r in crm.received] == [f"/notes{query}"]
