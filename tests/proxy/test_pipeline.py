"""The order of the checks before the decision, and what each of them looks at."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.house import FUNCTION, Got, House
from tests.proxy.raw_caller import RawCaller, request
from tests.proxy.setting import (
    READ,
    WRITE,
    OpenHouse,
    destination,
    effects,
    eventually,
    held,
    principals,
    raw_got,
)
from tests.raw_destination import RawDestination, answer

ANA = "Authorization: Bearer fg_ana"


async def guarded(open_house: OpenHouse, folder: Path, policy: str, **rights: str) -> House:
    file = principals(folder, **(rights or {"ana": ""}))
    return await open_house(policy, dev=False, principals=file)


async def test_each_check_comes_before_the_next(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path
) -> None:
    house = await guarded(
        open_house, tmp_path, destination(crm, limits="{body_max: 1KiB}"),
        ana="functions: [relatorio]",
    )  # fmt: skip
    bad: dict[str, Any] = {
        "Fence-Function": "outra", "Fence-Term": "x", "Fence-Holder": "ana#1", "target": "nobody",
        "body": b"x" * 2000,
    }  # fmt: skip
    mended: list[tuple[int, dict[str, Any]]] = [
        (404, {}),
        (401, {"target": "crm"}),
        (400, {"Authorization": "Bearer fg_ana"}),
        (403, {"Fence-Term": "7"}),
        (428, {"Fence-Function": "relatorio"}),
        (413, {"Idempotency-Key": "k-1"}),
    ]

    for status, change in mended:
        bad |= change
        got = await send(house, bad)
        assert got.status == status, got.body
        assert crm.received == []
    assert (await send(house, bad | {"body": b"{}"})).status == 200


async def send(house: House, given: dict[str, Any]) -> Got:
    headers = {name: value for name, value in given.items() if name not in ("target", "body")}
    async with house.session.post(
        f"{house.url}/d/{given['target']}/notes", data=given["body"], headers=headers
    ) as got:
        return Got(got.status, got.headers.copy(), await got.read())


@pytest.mark.parametrize(
    ("lacking", "missing"),
    [({"Fence-Function"}, ["Fence-Function"]), ({"Idempotency-Key"}, ["Idempotency-Key"]),
     ({"Fence-Term", "Fence-Holder"}, ["Fence-Term", "Fence-Holder"])],
)  # fmt: skip
async def test_a_missing_fence_lists_what_is_missing(
    house: House, crm: RawDestination, lacking: set[str], missing: list[str]
) -> None:
    headers = {n: v for n, v in house.worker().headers("k-1").items() if n not in lacking}

    got = await house.post("/d/crm/notes", {}, **headers)

    assert (got.status, got.json["missing"]) == (428, missing)
    assert all(name in got.json["detail"] for name in missing)
    assert crm.received == []


async def test_a_read_needs_no_fence(house: House, crm: RawDestination) -> None:
    got = await house.get("/d/crm/notes")

    assert got.status == 200
    assert await effects(house) == []


@pytest.mark.parametrize("field", [
    "Fence-Term: 0", "Fence-Term: 007", "Fence-Term: +7", "Fence-Term: 7.0", "Fence-Term: ",
    "Fence-Term: 9007199254740992", "Fence-Term: \u0667", "Fence-Holder: a b", "Fence-Unit: a/b",
    "Fence-Function: ", f"Fence-Holder: {'x' * 201}", "Fence-Item: a,b",
])  # fmt: skip
async def test_a_field_of_another_form_is_refused(
    house: House, crm: RawDestination, field: str
) -> None:
    name = field.partition(":")[0].encode()
    others = [b"Fence-Function: relatorio", b"Fence-Term: 7", b"Fence-Holder: ana#1"]
    fence = [line for line in others if not line.startswith(name + b":")]

    got = await raw_got(house, request("POST", "/d/crm/x", field, fence=fence, body=b"{}"))

    assert (got.status, got.problem) == (400, "malformed")
    assert name.decode() in got.json["detail"]
    assert crm.received == []


@pytest.mark.parametrize("line", [
    "Fence-Term: 7", "Fence-Holder: ana#1", "Fence-Function: relatorio", "Idempotency-Key: other",
    "idempotency-key: other",
])  # fmt: skip
async def test_a_field_of_the_fence_that_is_given_twice_is_refused(
    house: House, crm: RawDestination, line: str
) -> None:
    got = await raw_got(house, request("POST", "/d/crm/x", line, body=b"{}"))

    assert got.status == 400
    assert crm.received == []


@pytest.mark.parametrize("name", ["Authorization", "Fence-Authorization"])
async def test_a_token_that_is_given_twice_is_refused(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, name: str
) -> None:
    house = await guarded(open_house, tmp_path, destination(crm))
    line = f"{name}: Bearer fg_ana"

    got = await raw_got(house, request("POST", "/d/crm/x", line, line, body=b"{}"))

    assert got.status == 400
    assert crm.received == []


@pytest.mark.parametrize("spelled", ['"k 1"', '"k"', "k", '"k";a=1', '"a\\"b"'])
async def test_a_key_is_a_string_or_a_bare_token(
    house: House, crm: RawDestination, spelled: str
) -> None:
    first = await raw_got(house, request("POST", "/d/crm/x", key=spelled, body=b"{}"))
    again = await raw_got(house, request("POST", "/d/crm/x", key=spelled, body=b"{}"))

    assert (first.status, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert len(crm.received) == 1


async def test_a_quoted_key_and_a_bare_one_are_one_key(house: House, crm: RawDestination) -> None:
    await raw_got(house, request("POST", "/d/crm/x", key='"abc"', body=b"{}"))

    again = await raw_got(house, request("POST", "/d/crm/x", key="abc", body=b"{}"))

    assert again.headers["Fence-Verdict"] == "replayed"
    assert len(crm.received) == 1


@pytest.mark.parametrize("key", ['""', " ", "a b", "a,b", '"a', "é", "x" * 256, '"   "'])
async def test_a_key_of_another_form_is_refused(
    house: House, crm: RawDestination, key: str
) -> None:
    fence = [b"Fence-Function: relatorio", b"Fence-Term: 7", b"Fence-Holder: ana#1"]
    data = request("POST", "/d/crm/x", fence=fence, key="@@", body=b"{}")

    got = await raw_got(house, data.replace(b"@@", key.encode()))

    assert got.status == 400
    assert crm.received == []


async def test_functions_keep_to_their_destinations(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, functions="[outra]"))

    got = await house.worker().post("/notes", "k-1")

    assert (got.status, got.problem) == (403, "forbidden")
    assert crm.received == []


@pytest.mark.parametrize(
    ("rights", "says"),
    [("destinations: [erp]", "may not reach"), ("role: viewer", "no worker"),
     ("functions: [outra]", "may not act")],
)  # fmt: skip
async def test_leadership_gives_no_permission(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, rights: str, says: str
) -> None:
    house = await guarded(open_house, tmp_path, destination(crm), ana=rights)

    got = await raw_got(house, request("POST", "/d/crm/x", ANA, body=b"{}"))

    assert (got.status, got.problem) == (403, "forbidden")
    assert says in got.json["detail"]
    assert crm.received == []


@pytest.mark.parametrize("line", [
    ANA, "Fence-Authorization: Bearer fg_ana", "Authorization: Basic ZmdfYW5hOg==",
    "Authorization: Basic dXNlcjpmZ19hbmE=", "authorization: bearer fg_ana",
])  # fmt: skip
async def test_a_token_is_found_where_sdks_put_it_and_goes_no_further(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, line: str
) -> None:
    house = await guarded(open_house, tmp_path, destination(crm))

    got = await raw_got(house, request("POST", "/d/crm/x", line, body=b"{}"))

    assert got.status == 200
    assert crm.received[0].header("Authorization") is None
    assert b"fg_ana" not in crm.received[0].head


async def test_what_no_route_matches_is_refused(open_house: OpenHouse, crm: RawDestination) -> None:
    house = await open_house(destination(crm, '{match: "GET /notes/{id}", does: read}'))

    for method, path in (("POST", "/notes/1"), ("GET", "/notes"), ("GET", "/notes/1/2")):
        got = await raw_got(house, request(method, f"/d/crm{path}"))
        assert (got.status, got.problem) == (403, "route-refused"), path
    assert crm.received == []


async def test_a_route_may_ask_about_the_body(open_house: OpenHouse, crm: RawDestination) -> None:
    house = await open_house(destination(
        crm,
        '{match: "POST /rpc", when: {json: {method: [list]}}, does: read}',
        '{match: "POST /rpc", when: {json: {method: [drop]}}, does: refuse, because: "never"}',
        '{match: "POST /rpc", does: write, guard: none}',
    ))  # fmt: skip

    reads = await house.post("/d/crm/rpc", {"method": "list"})
    drops = await house.worker().post("/rpc", "k-1", {"method": "drop"})
    writes = await house.post("/d/crm/rpc", {"method": "add"})
    twice = await house.worker().post("/rpc", "k-1", b'{"method":"list","method":"drop"}')

    assert [got.status for got in (reads, drops, writes, twice)] == [200, 403, 428, 400]
    assert [r.body for r in crm.received] == [b'{"method": "list"}']


async def test_a_key_may_come_from_the_request(open_house: OpenHouse, crm: RawDestination) -> None:
    route = '{match: "POST /contacts", does: write, guard: none, key: "{unit}/{body.email}"}'
    house = await open_house(destination(crm, route))
    body = {"email": "ana@x.br"}

    first = await house.worker().send("POST", "/contacts", body=body, Fence_Unit="u-1")
    again = await house.worker().send("POST", "/contacts", body=body, Fence_Unit="u-1")
    other = await house.worker().send("POST", "/contacts", body=body, Fence_Unit="u-2")
    without = await house.worker().send("POST", "/contacts", body={}, Fence_Unit="u-1")

    verdicts = [got.headers["Fence-Verdict"] for got in (first, again, other, without)]
    assert verdicts == ["forwarded", "replayed", "forwarded", "refused; reason=malformed"]
    assert [e["key"] for e in await effects(house)] == ["u-2/ana@x.br", "u-1/ana@x.br"]
    assert len(crm.received) == 2


async def test_a_unit_is_required_where_each_has_its_own_leader(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    per_unit = FUNCTION.replace("leadership: function", "leadership: unit")
    house = await open_house(function=per_unit)

    without = await house.worker().post("/notes", "k-1")
    first = await house.worker(term=9).post("/notes", "k-1", Fence_Unit="u-1")
    second = await house.worker(term=2).post("/notes", "k-1", Fence_Unit="u-2")

    assert (without.status, without.json["missing"]) == (428, ["Fence-Unit"])
    assert [got.headers.get("Fence-Term") for got in (first, second)] == ["9", "2"]
    assert len(crm.received) == 2


async def test_a_key_belongs_to_its_unit_and_function(house: House, crm: RawDestination) -> None:
    for unit in ("u-1", "u-2"):
        got = await house.worker().post("/notes", "k-1", {"unit": unit}, Fence_Unit=unit)
        assert got.headers["Fence-Verdict"] == "forwarded"
    assert len(crm.received) == 2


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_refused(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, chunked: bool
) -> None:
    house = await open_house(
        destination(crm, limits="{body_max: 100KiB}"), body_spool_bytes=16 * 1024
    )
    at_limit, over = b"x" * (100 * 1024), b"x" * (100 * 1024 + 1)

    taken = await raw_got(house, request("POST", "/d/crm/x", body=at_limit, chunked=chunked))
    got = await raw_got(house, request("POST", "/d/crm/x", body=over, chunked=chunked))

    assert (taken.status, got.status, got.problem) == (200, 413, "body-too-large")
    assert len(crm.received) == 1
    assert list((tmp_path / "spool").glob("*")) == []


@pytest.mark.parametrize("wrong", [
    ["Content-Length: 5"],  # no fence
    ["Content-Length: 5000", "Fence-Function: relatorio", "Fence-Term: 7", "Fence-Holder: a"],
    ["Content-Length: 5", "Fence-Function: other"],
])  # fmt: skip
async def test_a_body_is_not_asked_for_when_it_would_be_refused(
    open_house: OpenHouse, crm: RawDestination, wrong: list[str]
) -> None:
    house = await open_house(destination(crm, limits="{body_max: 1KiB}"))
    async with RawCaller(house.gateway.port) as caller:
        await caller.send(request("POST", "/d/crm/x", "Expect: 100-continue", *wrong, fence=[]))
        got = await caller.answer()

        assert (got.status, got.interim) in ((428, []), (413, []), (403, []))
        assert await caller.is_closed()
    assert crm.received == []


async def test_reads_pass_while_the_gateway_drains(house: House, crm: RawDestination) -> None:
    house.gateway.house.state.draining = True

    read = await house.get("/d/crm/notes")
    write = await house.worker().post("/notes", "k-1")

    assert (read.status, write.status, write.problem) == (200, 503, "draining")
    assert [r.method for r in crm.received] == ["GET"]


async def test_a_write_that_waits_for_its_turn_is_not_begun_while_the_gateway_drains(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, limits="{at_once: 1, barrier_wait: 4s}"))
    gate = asyncio.Event()
    crm.on("/slow", held(gate, answer(200)))
    slow = asyncio.ensure_future(house.worker().post("/slow", "k-0"))
    await crm.until_received(1)
    waiting = asyncio.ensure_future(house.worker().post("/notes", "k-1"))
    await eventually(lambda: two_tasks_run(house))
    house.gateway.house.state.draining = True
    gate.set()

    assert ((await slow).status, (await waiting).problem) == (200, "draining")
    assert [r.path for r in crm.received] == ["/slow"]


async def two_tasks_run(house: House) -> bool:
    return house.gateway.house.tasks.running == 2


async def test_a_read_in_early_data_passes(house: House, crm: RawDestination) -> None:
    got = await house.get("/d/crm/notes", **{"Early-Data": "1"})

    assert got.status == 200
    assert crm.received[0].header("Early-Data") == "1"


@pytest.mark.parametrize("given", ["Fence-Request-Id", "X-Request-Id"])
async def test_a_request_keeps_the_id_that_its_caller_gave(house: House, given: str) -> None:
    got = await house.get("/d/crm/notes", **{given: "req-7"})

    assert got.headers["Fence-Request-Id"] == "req-7"


async def test_a_read_gets_the_destination_s_failure_as_it_came(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, READ, WRITE))
    crm.on("/notes", answer(500, b"broken"))

    got = await house.get("/d/crm/notes")

    assert (got.status, got.body, got.headers["Fence-Verdict"]) == (500, b"broken", "forwarded")
