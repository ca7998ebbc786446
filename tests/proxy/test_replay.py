"""A repetition gets the recorded answer, and never reaches the destination."""

from __future__ import annotations

import asyncio

import pytest

from tests.house import Got, House
from tests.proxy.raw_caller import ask, request
from tests.proxy.setting import OpenHouse, destination, effects, held, raw_got, until_settled
from tests.raw_destination import Behaviour, RawDestination, answer, rst, sse, until_close

OF_THE_MOMENT = {
    "set-cookie", "date", "retry-after", "www-authenticate", "x-ratelimit-remaining", "server",
    "fence-verdict", "fence-request-id", "idempotent-replayed",
}  # fmt: skip


def lasting(got: Got) -> list[tuple[str, str]]:
    fields = [(name.lower(), value) for name, value in got.headers.items()]
    return sorted(field for field in fields if field[0] not in OF_THE_MOMENT)


async def test_a_repetition_gets_the_same_answer_byte_for_byte(
    house: House, crm: RawDestination
) -> None:
    fields = [
        ("Content-Type", "application/json"), ("Location", "/notes/1"), ("ETag", '"1"'),
        ("X-Dup", "a"), ("X-Dup", "b"), ("X-Utf", "café"),
        ("Set-Cookie", "sid=1"), ("Date", "Mon, 01 Jan 2024 00:00:00 GMT"), ("Server", "up"),
        ("X-RateLimit-Remaining", "7"), ("WWW-Authenticate", "Basic"),
    ]  # fmt: skip
    body = bytes(range(256)) * 4
    crm.on("/notes", answer(201, body, fields), answer(201, b"again"))

    first = await house.worker().post("/notes", "k-1")
    again = await house.worker().post("/notes", "k-1")

    assert (again.status, again.body) == (first.status, first.body) == (201, body)
    assert lasting(again) == lasting(first)
    assert (first.headers["Set-Cookie"], first.headers["X-RateLimit-Remaining"]) == ("sid=1", "7")
    assert not {"set-cookie", "x-ratelimit-remaining", "www-authenticate"} & {
        name.lower() for name in again.headers
    }
    assert again.headers["Fence-Verdict"] == "replayed"
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert len(crm.received) == 1


@pytest.mark.parametrize("status", [200, 204, 303])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_every_method_and_success_is_replayed(
    house: House, crm: RawDestination, method: str, status: int
) -> None:
    body = b"" if status == 204 else b"made"
    crm.on("/notes/1", answer(status, body, [("Location", "/elsewhere")]))

    data = request(method, "/d/crm/notes/1", body=b"{}", key="k-1")
    first, again = [await raw_got(house, data) for _ in range(2)]

    assert (again.status, again.body) == (first.status, first.body) == (status, body)
    assert again.headers["Fence-Verdict"] == "replayed"
    assert len(crm.received) == 1


async def test_a_head_that_is_a_write_is_replayed_without_a_body(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, '{match: "HEAD /x", does: write, guard: none}'))
    fence = ["Fence-Function: relatorio", "Fence-Term: 7", "Fence-Holder: a", "Idempotency-Key: k"]

    data = request("HEAD", "/d/crm/x", *fence)
    first, again = [await ask(house.gateway.port, data, "HEAD") for _ in range(2)]

    assert (first.value("Fence-Verdict"), again.value("Fence-Verdict")) == ("forwarded", "replayed")
    assert (again.status, again.body, again.complete) == (200, b"", True)
    assert len(crm.received) == 1


async def test_a_successor_and_another_holder_meet_the_record(
    house: House, crm: RawDestination
) -> None:
    first = await house.worker("ana#1", term=7).post("/notes", "k-1")

    again = await house.worker("bo#1", term=8).post("/notes", "k-1")

    assert again.headers["Fence-Verdict"] == "replayed"
    assert again.headers["Fence-Effect"] == first.headers["Fence-Effect"]
    assert again.headers["Fence-Term"] == "8"
    assert len(crm.received) == 1


async def test_a_stale_term_gets_no_replay_and_no_hint(house: House, crm: RawDestination) -> None:
    await house.worker("ana#1", term=7).post("/notes", "k-1")
    await house.worker("bo#1", term=8).post("/other", "k-2")

    known = await house.worker("ana#1", term=7).post("/notes", "k-1")
    fresh = await house.worker("ana#1", term=7).post("/notes", "k-3")

    assert (known.status, known.problem) == (412, "stale-term")
    assert known.body == fresh.body
    assert not {"Fence-Effect", "Fence-Outcome"} & set(known.headers)
    assert len(crm.received) == 2


async def test_a_route_may_refuse_repetitions(open_house: OpenHouse, crm: RawDestination) -> None:
    route = '{match: "POST /{rest*}", does: write, guard: none, on_duplicate: reject}'
    house = await open_house(destination(crm, route))
    crm.on("/notes", answer(201, b"secret of the first caller"))

    await house.worker().post("/notes", "k-1")
    again = await house.worker().post("/notes", "k-1")

    assert (again.status, again.problem) == (409, "duplicate")
    assert b"secret" not in again.body
    assert len(crm.received) == 1


SAME: list[tuple[bytes, bytes]] = [
    (b'{"a":1,"b":[1,2]}', b'{ "b": [1, 2],\n "a": 1 }'),
    (b'{"a":"\\u00e9"}', '{"a":"é"}'.encode()),
    (b"", b""),
]


@pytest.mark.parametrize(("one", "other"), SAME)
async def test_json_written_anew_is_the_same_request(
    house: House, crm: RawDestination, one: bytes, other: bytes
) -> None:
    await house.worker().post("/notes", "k-1", one)

    again = await house.worker().post("/notes", "k-1", other)

    assert again.headers["Fence-Verdict"] == "replayed"
    assert len(crm.received) == 1


OTHER = [
    {"body": b'{"a":2}'}, {"body": b'{"a":1.0}'}, {"body": b'{"a":1,"b":null}'}, {"body": b""},
    {"path": "/notes?x=1"}, {"path": "/notes/"}, {"method": "PUT"}, {"If_Match": '"2"'},
    {"Content_Type": "text/plain"}, {"Notion_Version": "2"},
]  # fmt: skip


@pytest.mark.parametrize("change", OTHER)
async def test_another_request_under_a_spent_key_is_refused(
    house: House, crm: RawDestination, change: dict[str, str | bytes]
) -> None:
    await house.worker().post("/notes", "k-1", b'{"a":1}')
    given = {"method": "POST", "path": "/notes", "key": "k-1", "body": b'{"a":1}'} | change

    got = await house.worker().send(**given)  # type: ignore[arg-type]

    assert (got.status, got.problem) == (422, "key-reused")
    assert len(crm.received) == 1


@pytest.mark.parametrize(
    ("first", "effect"),
    [(answer(200), "confirmed"), (rst, "unknown"), (answer(500), "unknown")],
    ids=["confirmed", "reset", "500"],
)
async def test_a_spent_key_is_no_other_request_s_whatever_became_of_it(
    house: House, crm: RawDestination, first: Behaviour, effect: str
) -> None:
    crm.on("/notes", first)
    await house.worker().post("/notes", "k-1", {"n": 1})

    got = await house.worker().post("/notes", "k-1", {"n": 2})

    assert (got.status, got.problem, got.json["effect"]) == (422, "key-reused", effect)
    assert len(crm.received) == 1


async def test_a_key_in_flight_is_no_other_request_s(house: House, crm: RawDestination) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(200)))
    first = asyncio.ensure_future(house.worker().post("/notes", "k-1", {"n": 1}))
    await crm.until_received(1)

    other = await house.worker().post("/notes", "k-1", {"n": 2}, Prefer="wait=5")
    same = await house.worker().post("/notes", "k-1", {"n": 1})
    gate.set()

    assert (other.status, other.problem) == (422, "key-reused")
    assert (same.status, same.problem) == (409, "in-flight")
    assert (await first).status == 200
    assert len(crm.received) == 1


@pytest.mark.parametrize("status", [400, 404, 409, 422, 429, 403])
async def test_a_key_is_free_after_a_refusal_by_the_destination(
    house: House, crm: RawDestination, status: int
) -> None:
    crm.on("/notes", answer(status), answer(201))
    await house.worker().post("/notes", "k-1", {"n": 1})

    got = await house.worker().post("/notes", "k-1", {"n": 2})

    assert got.status == 201
    assert len(crm.received) == 2


@pytest.mark.parametrize(("size", "status"), [(1024, 201), (1025, 409), (300_000, 409)])
async def test_answers_are_kept_up_to_a_size(
    open_house: OpenHouse, crm: RawDestination, size: int, status: int
) -> None:
    house = await open_house(replay_body_max="1KiB")
    crm.on("/notes", answer(201, b"x" * size, [("Location", "/notes/1")]))

    first = await house.worker().post("/notes", "k-1")
    again = await house.worker().post("/notes", "k-1")

    assert (first.status, len(first.body)) == (201, size)
    assert again.status == status
    if status == 409:
        assert again.problem == "result-unavailable"
        assert (again.json["location"], again.json["destination_status"]) == ("/notes/1", 201)
    assert len(crm.received) == 1


async def test_a_stream_is_confirmed_at_its_head_and_not_replayed(
    house: House, crm: RawDestination
) -> None:
    gate = asyncio.Event()
    crm.on("/mcp", sse(b"data: 1\n\n", b"data: 2\n\n", gate=gate))
    url = f"{house.url}/d/crm/mcp"
    async with house.session.post(url, data=b"{}", headers=house.worker().headers("k-1")) as got:
        assert await got.content.readany() == b"data: 1\n\n"
        assert got.headers["Fence-Outcome"] == "confirmed"
        during = await house.worker().post("/mcp", "k-1", b"{}", Content_Type="")
        shown = (await effects(house))[0]["outcome"]
        gate.set()
        assert await got.content.readany() == b"data: 2\n\n"
        gate.set()
        assert await got.read() == b""

    assert (during.status, shown) == (422, "confirmed")  # another content type
    async with house.session.post(url, data=b"{}", headers=house.worker().headers("k-1")) as got:
        again = await got.json(content_type=None)
    assert (got.status, again["type"]) == (409, "/problems/result-unavailable")
    assert again["answer"] == "streamed"
    assert len(crm.received) == 1


async def test_what_an_operator_confirmed_has_no_answer_to_give(
    house: House, crm: RawDestination
) -> None:
    crm.on("/notes", rst)
    unknown = await house.worker().post("/notes", "k-1")
    effect_id = unknown.headers["Fence-Effect"]

    said = await house.post(
        f"/v1/effects/{effect_id}/resolve", {"as": "confirmed", "reason": "seen in the CRM"}
    )
    again = await house.worker().post("/notes", "k-1")

    assert (said.status, again.status, again.problem) == (200, 409, "result-unavailable")
    assert again.headers["Fence-Outcome"] == "confirmed"
    assert (await until_settled(house))[0]["resolved_by"] == "operator"
    assert len(crm.received) == 1


async def test_an_answer_that_ends_with_its_connection_is_relayed_but_never_replayed(
    house: House, crm: RawDestination
) -> None:
    # whether it was cut cannot be told, and half an answer must not become the answer
    crm.on("/notes", until_close(201, b"perhaps whole"))

    first = await house.worker().post("/notes", "k-1")
    again = await house.worker().post("/notes", "k-1")

    assert (first.status, first.body) == (201, b"perhaps whole")
    assert first.headers["Fence-Outcome"] == "confirmed"
    assert (again.status, again.problem) == (409, "result-unavailable")
    assert len(crm.received) == 1
