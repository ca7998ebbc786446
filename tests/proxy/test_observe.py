"""Mode observe: everything is forwarded; what would have been refused is noted and said."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.house import House
from tests.proxy.raw_caller import request
from tests.proxy.setting import (
    OpenHouse,
    destination,
    effects,
    held,
    principals,
    raw_got,
    verdict,
)
from tests.raw_destination import RawDestination, answer, rst


@pytest.fixture
async def house(open_house: OpenHouse, crm: RawDestination) -> House:
    routes = [
        '{match: "GET|HEAD /{rest*}", does: read}',
        '{match: "DELETE /{rest*}", does: refuse, because: "not yet"}',
        '{match: "POST /keyed", does: write, guard: none, key: "{body.id}"}',
        '{match: "POST|PUT /{rest*}", does: write, guard: none}',
    ]
    return await open_house(destination(crm, *routes, mode="observe"))


async def observed(house: House) -> list[tuple[str | None, str | None, str | None]]:
    """Why each effect would have been refused, its outcome and its key; oldest first."""
    return [(e["observed"], e["outcome"], e["key"]) for e in reversed(await effects(house))]


UNFENCED: list[tuple[str, list[bytes], str]] = [
    ("POST", [], "fence-missing"),
    ("POST", [b"Fence-Term: 7", b"Fence-Holder: a"], "fence-missing"),
    ("POST", [b"Fence-Term: seven"], "malformed"),
    ("POST", [b"Fence-Term: 7", b"Fence-Term: 7"], "malformed"),
    ("POST", [b"Fence-Function: other"], "function-unknown"),
    ("POST", [b"X-HTTP-Method-Override: PUT"], "malformed"),
    ("DELETE", [], "route-refused"),
    ("PATCH", [], "route-refused"),
]


@pytest.mark.parametrize(("method", "fence", "reason"), UNFENCED)
async def test_what_the_fence_cannot_judge_is_forwarded_and_noted(
    house: House, crm: RawDestination, method: str, fence: list[bytes], reason: str
) -> None:
    crm.default = answer(201, b"made")

    got = await raw_got(house, request(method, "/d/crm/notes?a=1", fence=fence, body=b"{}"))

    assert (got.status, got.body) == (201, b"made")
    assert verdict(got) == f"would-refuse; reason={reason}"
    assert [(r.method, r.target, r.body) for r in crm.received] == [(method, "/notes?a=1", b"{}")]
    assert await observed(house) == [(reason, "confirmed", None)]
    assert not any(name.startswith("fence-") for name, _ in crm.received[0].headers)


async def test_a_read_is_only_a_read(house: House, crm: RawDestination) -> None:
    got = await house.get("/d/crm/notes")

    assert (got.status, verdict(got)) == (200, "forwarded")
    assert await effects(house) == []


async def test_a_write_that_would_pass_is_an_effect_like_any(
    house: House, crm: RawDestination
) -> None:
    got = await house.worker().post("/notes", "k-1")

    assert (verdict(got), got.headers["Fence-Outcome"]) == ("forwarded", "confirmed")
    assert await observed(house) == [(None, "confirmed", "k-1")]


async def test_a_stale_term_is_forwarded_and_noted(house: House, crm: RawDestination) -> None:
    await house.worker("bo#1", term=8).post("/notes", "k-1")

    stale = await house.worker("ana#1", term=7).post("/notes", "k-2")

    assert (stale.status, verdict(stale)) == (200, "would-refuse; reason=stale-term")
    assert await observed(house) == [(None, "confirmed", "k-1"), ("stale-term", "confirmed", None)]
    assert len(crm.received) == 2


async def test_duplicates_and_reused_keys_are_forwarded_and_noted(
    house: House, crm: RawDestination
) -> None:
    worker = house.worker()
    crm.default = answer(201, b"made")
    first = await worker.post("/notes", "k-1", {"n": 1})
    again = await worker.post("/notes", "k-1", {"n": 1})
    other = await worker.post("/notes", "k-1", {"n": 2})

    verdicts = [verdict(got) for got in (first, again, other)]
    assert verdicts == [
        "forwarded", "would-refuse; reason=duplicate", "would-refuse; reason=key-reused",
    ]  # fmt: skip
    assert "Idempotent-Replayed" not in again.headers
    assert len(crm.received) == 3
    assert len({got.headers["Fence-Effect"] for got in (first, again, other)}) == 3


async def test_an_observation_spends_no_key(house: House, crm: RawDestination) -> None:
    stale = house.worker("ana#1", term=7)
    await house.worker("bo#1", term=8).post("/notes", "k-1")
    await stale.post("/notes", "k-2")

    fresh = await house.worker("bo#1", term=8).post("/notes", "k-2")

    assert verdict(fresh) == "forwarded"


async def test_a_predecessor_s_write_holds_nobody_back(house: House, crm: RawDestination) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(200)), answer(201))
    old = asyncio.ensure_future(house.worker("ana#1", term=7).post("/notes", "k-7"))
    await crm.until_received(1)

    new = await house.worker("bo#1", term=8).post("/notes", "k-8")
    same = await house.worker("ana#1", term=7).post("/notes", "k-7")
    gate.set()

    assert verdict(new) == "would-refuse; reason=predecessor-in-flight"
    assert verdict(same) == "would-refuse; reason=stale-term"
    assert (await old).status == 200
    assert len(crm.received) == 3


async def test_an_unknown_outcome_is_relayed_as_it_came_where_only_watched(
    house: House, crm: RawDestination
) -> None:
    crm.on("/notes", answer(500, b"broken", [("X-Own", "1")]))
    bare = request("POST", "/d/crm/notes", fence=[], body=b"{}")

    got = await raw_got(house, bare)

    assert (got.status, got.body, got.headers["X-Own"]) == (500, b"broken", "1")
    assert got.headers["Fence-Outcome"] == "unknown"
    assert await observed(house) == [("fence-missing", "unknown", None)]


async def test_without_an_answer_there_is_nothing_to_relay(
    house: House, crm: RawDestination
) -> None:
    crm.on("/notes", rst)

    got = await raw_got(house, request("POST", "/d/crm/notes", fence=[], body=b"{}"))

    assert (got.status, got.problem) == (423, "outcome-unknown")
    assert verdict(got) == "would-refuse; reason=fence-missing"


@pytest.mark.parametrize("body", [b"{}", b'{"id":"1","id":"2"}', b"no json", b'{"id":{}}'])
async def test_a_key_that_cannot_be_worked_out_is_forwarded_and_noted(
    house: House, crm: RawDestination, body: bytes
) -> None:
    got = await raw_got(house, request("POST", "/d/crm/keyed", body=body))

    assert (got.status, verdict(got)) == (200, "would-refuse; reason=malformed")
    assert [r.body for r in crm.received] == [body]


@pytest.mark.parametrize(
    ("rights", "headers", "status"),
    [("", {}, 401), ("", {"Authorization": "Bearer other"}, 401),
     ("destinations: [erp]", {"Authorization": "Bearer fg_ana"}, 403),
     ("functions: [outra]", {"Authorization": "Bearer fg_ana"}, 200)],
)  # fmt: skip
async def test_who_may_not_call_at_all_is_refused_all_the_same(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, rights: str,
    headers: dict[str, Any], status: int,
) -> None:  # fmt: skip
    file = principals(tmp_path, ana=rights)
    policy = destination(crm, mode="observe")
    house = await open_house(policy, dev=False, principals=file)

    got = await house.worker().post("/notes", "k-1", **headers)

    assert got.status == status
    assert len(crm.received) == (1 if status == 200 else 0)
