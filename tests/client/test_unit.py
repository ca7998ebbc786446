"""Units of work from the worker's side, against a whole gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.client import CandidateReport, Elector, Leadership, Result, UnitWorker, fence_headers
from gateway.client.errors import (
    ClaimLost,
    ItemUnknown,
    LeadershipLost,
    Malformed,
    NotClaimed,
    StaleTerm,
    UnitClosed,
    UnitTaken,
    UnitUnfinished,
    VersionConflict,
)
from tests.client.hand_clock import HandClock
from tests.house import DESTINATION, House, running_house
from tests.raw_destination import RawDestination, answer, rst

FUNCTION = """
function: relatorio
authority: lease
leadership: function
lease: {ttl: 5s, renew_every: 1s, margin: 500ms}
callers: leader-or-claimant
units: registered
"""
PER_UNIT = FUNCTION.replace("relatorio", "carteira").replace(
    "leadership: function", "leadership: unit"
)
OUTSIDE = "function: externa\nauthority: external\ncallers: leader-or-claimant\n"
UNIT = "relatorio:2026-10-02"
ITEMS = ["lead-1", {"id": "lead-2", "data": {"email": "b@example.com"}}, "lead-3"]


@pytest.fixture
async def crm() -> AsyncIterator[RawDestination]:
    async with RawDestination() as running:
        running.on("/contacts", answer(201, b'{"id": 1}'))
        yield running


@pytest.fixture
async def house(tmp_path: Path, crm: RawDestination) -> AsyncIterator[House]:
    policies = {
        "relatorio": FUNCTION,
        "carteira": PER_UNIT,
        "externa": OUTSIDE,
        "crm": DESTINATION % {"port": crm.port},
    }
    async with running_house(tmp_path, policies) as running:
        yield running


def elector(house: House, worker: str = "ana", **how: Any) -> Elector:
    given: dict[str, Any] = {"function": "relatorio", "candidate": CandidateReport()}
    return Elector(house.url, worker=worker, **(given | how))


def working(house: House, worker: str = "w1", **how: Any) -> UnitWorker:
    given: dict[str, Any] = {"function": "relatorio", "unit": UNIT}
    return UnitWorker(house.url, worker=worker, **(given | how))


@pytest.fixture
async def ana(house: House) -> AsyncIterator[Leadership]:
    """A leader of the function."""
    async with elector(house) as running:
        yield await anext(running)


def keys_at(crm: RawDestination) -> list[str]:
    return [received.target for received in crm.received]


async def effect_keys(house: House) -> list[str]:
    page = (await house.get("/v1/effects?limit=100")).json
    return sorted(effect["key"] for effect in page["items"])


async def test_a_leader_creates_a_unit_works_its_items_off_and_completes_it(
    ana: Leadership, house: House, crm: RawDestination
):
    unit = await ana.open_unit(UNIT, items=ITEMS, policy_version="4")
    assert unit.created
    while items := await unit.claim(limit=2):
        for item in items:
            with item:
                sent = await ana.effect("POST", "crm", "/contacts", json={"of": item.id})
                await item.checkpoint({"contact": sent.json()["id"]})
            await item.done({"contacts": 1})
    told = await unit.complete({"contacts": 3})

    assert (told.state, told.result, told.items["done"]) == (
        "unit-completed", {"contacts": 3}, 3,
    )  # fmt: skip
    assert await effect_keys(house) == [
        f"relatorio/{UNIT}/lead-{n}/POST:crm:/contacts#1" for n in (1, 2, 3)
    ]
    assert len(crm.received) == 3
    with pytest.raises(UnitClosed), unit:
        await ana.effect("POST", "crm", "/contacts", json={})


async def test_a_successor_finds_the_unit_keeps_what_is_done_and_goes_on(
    house: House, crm: RawDestination
):
    async with elector(house) as first, await anext(first) as leader:
        unit = await leader.open_unit(UNIT, items=ITEMS)
        one, two = await unit.claim(limit=2)
        await one.done()
        for page in (1, 2):
            await two.effect("POST", "crm", "/contacts", json={"page": page})
        await two.checkpoint({"page": 2})

    async with elector(house, "bo") as second, await anext(second) as leader:
        unit = await leader.open_unit(UNIT, items=["other"])
        assert (unit.created, unit.told.items["total"]) == (False, 3)
        left = await unit.claim(limit=10)
        assert [(item.id, item.attempt) for item in left] == [("lead-2", 2), ("lead-3", 1)]
        two = left[0]
        assert (two.saved, two.data) == ({"page": 2}, {"email": "b@example.com"})
        sent = await two.effect("POST", "crm", "/contacts", json={"page": 3})
        for item in left:
            await item.done()
        await unit.complete()

    assert not sent.replayed  # its steps went on where they were
    assert len(crm.received) == 3
    assert (await effect_keys(house))[-1].endswith("lead-2/POST:crm:/contacts#3")


async def test_a_worker_that_does_not_lead_works_by_its_claims(
    ana: Leadership, house: House, crm: RawDestination
):
    unit = await ana.open_unit(UNIT, items=ITEMS)
    async with working(house) as worker:
        while items := await worker.claim(limit=2):
            for item in items:
                with item:
                    said = fence_headers("POST", "crm", "/contacts")
                    await item.effect("POST", "crm", "/contacts", json={"of": item.id})
                await item.done()
    await unit.complete()

    assert said["Fence-Item"] == "lead-3"
    assert (said["Fence-Holder"], said["Fence-Term"]) == (worker.holder, str(ana.term))
    assert len(crm.received) == 3
    assert (await effect_keys(house))[0] == f"relatorio/{UNIT}/lead-1/POST:crm:/contacts#1"


async def test_two_workers_never_hold_one_item(ana: Leadership, house: House):
    unit = await ana.open_unit(UNIT, items=[f"lead-{n}" for n in range(40)])
    done: list[str] = []

    async def work(name: str) -> None:
        async with working(house, name) as worker:
            while items := await worker.claim(limit=3):
                done.extend(item.id for item in items)
                turned = await worker.report([Result(i.id, "done", i.attempt) for i in items])
                assert turned == {}

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for n in range(4):
            group.create_task(work(f"w{n}"))

    assert len(done) == len(set(done)) == 40
    assert (await unit.complete()).items["done"] == 40


async def test_after_a_change_of_leader_a_worker_claims_under_the_new_term(
    house: House, crm: RawDestination
):
    async with working(house) as worker:
        async with elector(house) as first, await anext(first) as leader:
            await leader.open_unit(UNIT, items=ITEMS)
            (item,) = await worker.claim(limit=1)
        worker._read_term = None
        with pytest.raises(LeadershipLost, match="nobody leads"):
            await worker.claim(limit=1)
        async with elector(house, "bo") as second, await anext(second) as leader:
            await leader.open_unit(UNIT)
            worker._read_term = item.fence.term
            with pytest.raises(StaleTerm):
                await item.effect("POST", "crm", "/contacts", json={})
            with pytest.raises(ClaimLost, match="stale-term"):
                await item.effect("POST", "crm", "/contacts", json={})
            (again,) = await worker.claim(limit=1)

    assert (again.id, again.attempt, again.fence.term) == ("lead-1", 2, 2)
    assert crm.received == []


async def test_a_claim_is_trusted_from_when_it_was_asked_for(ana: Leadership, house: House):
    clock = HandClock()
    await ana.open_unit(UNIT, items=ITEMS)
    async with working(house, clock=clock) as worker:
        (item,) = await worker.claim(limit=1, ttl_s=10)
        assert 8.0 < item.commander.remaining_s < 8.6
        clock.jump(8.6)
        with pytest.raises(ClaimLost, match="claim again"):
            await item.effect("POST", "crm", "/contacts", json={})

        await worker.keep(ttl_s=10)
        assert await worker.claim(limit=1, ttl_s=10) == [item]
        await item.effect("POST", "crm", "/contacts", json={})
        clock.jump(60)
        await item.done()  # what was done is heard, and needs no proof


async def test_what_is_not_claimed_is_refused_by_name(ana: Leadership, house: House):
    unit = await ana.open_unit(UNIT, items=ITEMS)
    (item,) = await unit.claim(limit=1, ttl_s=0.001)
    async with asyncio.timeout(5):
        while (await unit.claim_for("w9#1", limit=3))[:1] != ["lead-1"]:
            pass

    with pytest.raises(NotClaimed, match="lead-1"):
        await item.done()
    with pytest.raises(NotClaimed):
        await item.checkpoint({})
    item.version = 7
    with pytest.raises(NotClaimed):
        await item.checkpoint({})
    assert await unit.report([Result("nix", "done", 1)]) == {"nix": "item-unknown"}
    item.id = "nix"
    with pytest.raises(ItemUnknown):
        await item.done()


async def test_two_writers_of_one_checkpoint_are_told_apart(ana: Leadership):
    unit = await ana.open_unit(UNIT, items=ITEMS)
    (item,) = await unit.claim(limit=1)
    (twin,) = await unit.claim(limit=1)
    await item.checkpoint({"page": 1})
    await twin.checkpoint({"page": 1})  # as after a lost answer

    twin.version = 0
    with pytest.raises(VersionConflict):
        await twin.checkpoint({"page": 2})
    assert (item.version, (await unit.look()).checkpoint) == (1, "lead-1@1")


async def test_an_uncertain_item_is_settled_by_the_leader(
    ana: Leadership, house: House, crm: RawDestination
):
    unit = await ana.open_unit(UNIT, items=["lead-1"])
    async with working(house) as worker:
        (item,) = await worker.claim()
        crm.on("/contacts", rst)
        with pytest.raises(Exception, match="outcome-unknown"):
            await item.effect("POST", "crm", "/contacts", json={})
        await item.uncertain("the CRM hung up")
        assert await worker.claim() == []
        assert worker.waiting == ["lead-1"]

    with pytest.raises(UnitUnfinished) as refused:
        await unit.complete()
    assert len(refused.value.facts["reasons"]) == 2
    (told,) = [told async for told in unit.items("uncertain")]
    assert (told.reason, told.attempt) == ("the CRM hung up", 1)
    assert await unit.report([Result(told.item, "failed", told.attempt)]) == {}
    assert (await unit.abandon("nobody knows")).state == "unit-abandoned"


async def test_each_unit_may_have_a_leader_of_its_own(house: House):
    async with elector(house, function="carteira", unit="u-1") as running:
        leader = await anext(running)
        unit = await leader.open_unit("u-1", items=ITEMS)
        with pytest.raises(Malformed, match="leader of its own"):
            await leader.open_unit("u-2")
        async with working(house, function="carteira", unit="u-1") as worker:
            (item,) = await worker.claim()
            answered = await item.effect("POST", "crm", "/contacts", json={})
        assert answered.outcome == "confirmed"
        assert (await unit.look()).state == "unit-processing"


async def test_where_terms_come_from_outside_the_worker_is_told_its_term(house: House):
    leader = house.worker("ana#1", 7)
    leader.function, leader.base = "externa", f"{house.url}/v1/units"
    plan = {"function": "externa", "manifest": {"items": [{"id": "a"}]}}
    assert (await leader.send("PUT", "/u-1", body=plan)).status == 201

    async with working(house, function="externa", unit="u-1") as worker:
        with pytest.raises(Malformed, match="give UnitWorker the term"):
            await worker.claim()
    async with working(house, function="externa", unit="u-1", term=7) as worker:
        (item,) = await worker.claim()
        assert (await item.effect("POST", "crm", "/contacts", json={})).status == 201
    async with working(house, function="externa", unit="u-1", term=6) as worker:
        with pytest.raises(StaleTerm):
            await worker.claim()


async def test_a_unit_of_another_function_is_not_this_leaders(house: House, ana: Leadership):
    await ana.open_unit("shared")
    async with elector(house, function="carteira", unit="shared") as running:
        other = await anext(running)
        with pytest.raises(UnitTaken):
            await other.open_unit("shared")


async def test_steps_within_an_item_have_names_and_keys(ana: Leadership, house: House):
    unit = await ana.open_unit(UNIT, items=ITEMS)
    (item,) = await unit.claim()
    with item, item.step("welcome"):
        await item.effect("POST", "crm", "/contacts", json={})
    await item.effect("POST", "crm", "/contacts", json={}, key=ana.key("refund", 7))
    with unit:
        await ana.effect("POST", "crm", "/contacts", json={}, step="publish")

    assert await effect_keys(house) == [
        "relatorio///refund/7",
        f"relatorio/{UNIT}//publish#1",
        f"relatorio/{UNIT}/lead-1/welcome#1",
    ]
