"""However many ask at once under one key, the destination hears of it once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.house import Got, House
from tests.proxy.setting import OpenHouse, destination, held
from tests.raw_destination import RawDestination, answer

MANY = 200
BODY = b'{"made":"once"}'


async def at_once(house: House, **more: str) -> list[Got]:
    worker = house.worker()
    asked = (worker.post("/notes", "k-1", {"n": 1}, **more) for _ in range(MANY))
    return await asyncio.gather(*asked)


@pytest.mark.parametrize("limits", ["{barrier_wait: 10s}", "{barrier_wait: 10s, at_once: 3}"])
async def test_one_of_many_arrives_and_the_others_are_told_so(
    open_house: OpenHouse, crm: RawDestination, limits: str
) -> None:
    house = await open_house(destination(crm, limits=limits))
    crm.on("/notes", answer(201, BODY), answer(200, b"a second arrival"))

    got = await at_once(house)

    assert len(crm.received) == 1
    verdicts = Counter(each.headers["Fence-Verdict"] for each in got)
    assert verdicts["forwarded"] == 1
    assert set(verdicts) <= {"forwarded", "replayed", "refused; reason=in-flight"}
    answered = [each for each in got if each.status != 409]
    assert {(each.status, each.body) for each in answered} == {(201, BODY)}


async def test_all_who_wait_get_the_same_bytes(open_house: OpenHouse, crm: RawDestination) -> None:
    house = await open_house(destination(crm, limits="{timeout: 10s, barrier_wait: 10s}"))
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(201, BODY)), answer(200, b"a second arrival"))

    asked = asyncio.ensure_future(at_once(house, Prefer="wait=5"))
    await crm.until_received(1)
    gate.set()
    got = await asked

    assert len(crm.received) == 1
    assert {(each.status, each.body) for each in got} == {(201, BODY)}
    verdicts = Counter(each.headers["Fence-Verdict"] for each in got)
    assert verdicts == {"forwarded": 1, "replayed": MANY - 1}
    assert len({each.headers["Fence-Effect"] for each in got}) == 1


async def test_many_keys_at_once_arrive_once_each(house: House, crm: RawDestination) -> None:
    worker = house.worker()
    asked = [worker.post(f"/notes/{n % 50}", f"k-{n % 50}", {"n": n % 50}) for n in range(MANY)]

    got = await asyncio.gather(*asked)

    assert sorted(r.path for r in crm.received) == sorted(f"/notes/{n}" for n in range(50))
    assert Counter(g.headers["Fence-Verdict"] == "forwarded" for g in got)[True] == 50


async def test_of_two_terms_at_once_the_lower_never_comes_after_the_higher(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, limits="{timeout: 5s, barrier_wait: 5s}"))
    workers = {term: house.worker(f"leader-{term}#1", term) for term in (7, 8)}
    asked = [workers[7 + n % 2].post("/notes", f"k-{n}", {"term": 7 + n % 2}) for n in range(60)]

    got = await asyncio.gather(*asked)

    arrived = [b'"term": 8' in received.body for received in crm.received]
    assert arrived == sorted(arrived)
    assert arrived.count(True) == 30
    refused = {each.problem for each in got if each.status != 200}
    assert refused <= {"stale-term"}
