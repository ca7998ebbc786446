"""The worker's side against a whole gateway: real leases, a real fence, a real destination."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.client import CandidateReport, Elector, Leadership, LeadershipLost
from gateway.client.errors import FencegateError, NotEligible, StaleTerm
from tests.client.hand_clock import until
from tests.house import DESTINATION, House, running_house
from tests.raw_destination import RawDestination

FUNCTION = """
function: relatorio
authority: lease
leadership: function
lease: {ttl: 1200ms, renew_every: 300ms, margin: 200ms}
eligible: {versions: ">=2026.10"}
callers: leader
exceptions: {owner: ops-comercial, deadline: 4h}
"""
VERSION = CandidateReport(version="2026.10")


@pytest.fixture
async def destination() -> AsyncIterator[RawDestination]:
    async with RawDestination() as running:
        yield running


@pytest.fixture
async def house(tmp_path: Path, destination: RawDestination) -> AsyncIterator[House]:
    policies = {"relatorio": FUNCTION, "crm": DESTINATION % {"port": destination.port}}
    async with running_house(tmp_path, policies) as running:
        yield running


def elector(house: House, worker: str = "ana", **how: Any) -> Elector:
    given: dict[str, Any] = {"function": "relatorio", "candidate": VERSION, "margin_s": 0.2}
    return Elector(house.url, worker=worker, **(given | how))


async def test_a_worker_leads_commands_and_leaves(house: House, destination: RawDestination):
    async with elector(house) as ana:
        async for leadership in ana:
            async with leadership:
                with leadership.item("lead-1"):
                    answer = await leadership.effect("POST", "crm", "/notes", json={"a": 1})
                    again = await leadership.effect("POST", "crm", "/notes", json={"a": 1})
            break

    assert (answer.outcome, again.outcome) == ("confirmed", "confirmed")
    assert answer.effect_id != again.effect_id
    assert len(destination.received) == 2
    lease = (await house.get("/v1/leases/relatorio")).json
    assert (lease["holder"], lease["term"], lease["reason"]) == (None, 1, "released")
    assert (await house.get("/v1/candidates/relatorio")).json["items"] == []


async def test_a_successor_meets_what_its_predecessor_has_done(
    house: House, destination: RawDestination
):
    replayed: list[bool] = []
    for worker in ("ana", "bo"):
        async with elector(house, worker) as running, await anext(running) as leadership:
            with leadership.item("lead-1"):
                answer = await leadership.effect("POST", "crm", "/notes", json={"a": 1})
                replayed.append(answer.replayed)

    assert replayed == [False, True]
    assert len(destination.received) == 1


async def test_a_leader_outlives_many_leases(house: House):
    async with elector(house) as ana, await anext(ana) as leadership:
        await until_renewed(house, times=6)

        leadership.check()
        assert leadership.term == 1
        assert leadership.state == "leader-renewing"


async def until_renewed(house: House, times: int) -> None:
    seen: set[str] = set()
    async with asyncio.timeout(10):
        while len(seen) < times:
            seen.add((await house.get("/v1/leases/relatorio")).json["renewed_at"])


async def test_a_follower_takes_over_as_soon_as_the_leader_releases(house: House):
    async with elector(house, "ana") as ana, elector(house, "bo") as bo:
        first = await anext(ana)
        following = asyncio.ensure_future(anext(bo))
        loop = asyncio.get_running_loop()
        await until_following(house, 2)

        await first.release()
        released_s = loop.time()
        second = await following

        assert (first.term, second.term) == (1, 2)
        assert loop.time() - released_s < 0.9  # far less than a lease
        with pytest.raises(LeadershipLost):
            first.check()


async def until_following(house: House, candidates: int) -> None:
    async with asyncio.timeout(5):
        while len((await house.get("/v1/candidates/relatorio")).json["items"]) < candidates:
            pass


async def test_a_leader_whose_clock_stood_still_is_shut_out_at_the_fence(
    house: House, destination: RawDestination
):
    async with elector(house, "ana") as ana:
        paused = await anext(ana)
        assert paused.heartbeat is not None
        await freeze(paused)
        async with elector(house, "bo") as bo:
            successor = await anext(bo)
            paused._lost = None  # a worker that believes on, whatever its clock says
            paused._until_s += 3600

            with paused.item("lead-1"), pytest.raises(StaleTerm):
                await paused.effect("POST", "crm", "/notes", json={"late": True})

            assert successor.term == 2
            assert destination.received == []


async def freeze(leadership: Leadership) -> None:
    """Stop renewing, and say nothing to the gateway."""
    assert leadership.heartbeat is not None
    leadership.heartbeat.cancel()
    await asyncio.wait([leadership.heartbeat])


async def test_a_hand_off_is_taken_up_by_the_follower_that_is_named(house: House):
    async with elector(house, "ana") as ana, elector(house, "bo") as bo:
        first = await anext(ana)
        following = asyncio.ensure_future(anext(bo))
        await until_following(house, 2)

        with pytest.raises(NotEligible):
            await first.hand_off("nobody#1")
        first.check()
        await first.hand_off(bo.holder)

        second = await following
        assert (second.holder, second.term) == (bo.holder, 2)


async def test_after_stepping_down_another_leads(house: House):
    async with elector(house, "ana") as ana, elector(house, "bo") as bo:
        first = await anext(ana)
        following = asyncio.ensure_future(anext(bo))
        await until_following(house, 2)

        await first.step_down(drain_s=1)

        assert (await following).term == 2


async def test_a_restarted_worker_supersedes_its_own_old_lease(house: House):
    async with elector(house) as old:
        before = await anext(old)
        async with elector(house, supersede=True) as new:
            after = await anext(new)
            await until(lambda: before.lost is not None)

            assert (before.term, after.term) == (1, 2)
            assert before.lost is not None
            assert before.lost.reason == "lease-gone"


async def test_a_worker_of_another_version_never_leads(house: House):
    old = CandidateReport(version="2026.9")
    async with elector(house, candidate=old) as running:
        following = asyncio.ensure_future(anext(running))
        await until(lambda: running.refusal is not None)
        following.cancel()
        await asyncio.wait([following])

    assert running.refusal is not None
    assert running.refusal.slug == "not-eligible"
    assert "2026.9" in str(running.refusal)


async def test_five_workers_elect_one_at_a_time(house: House):
    leading: list[str] = []
    terms: list[int] = []

    async def work(worker: str) -> None:
        async with elector(house, worker) as running:
            leadership = await anext(running)
            async with leadership:
                leading.append(worker)
                terms.append(leadership.term)
                assert len(leading) == 1
                await until_renewed(house, times=2)
                leadership.check()
                leading.remove(worker)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for n in range(5):
            group.create_task(work(f"w{n}"))

    assert terms == [1, 2, 3, 4, 5]


async def test_a_gateway_that_stops_costs_its_leader_the_proof(
    tmp_path: Path, destination: RawDestination
):
    policies = {"relatorio": FUNCTION, "crm": DESTINATION % {"port": destination.port}}
    said: list[str] = []
    async with running_house(tmp_path, policies) as house:
        ana = elector(house, on_uncertain=lambda *_: said.append("uncertain"))
        await ana.__aenter__()
        leadership = await anext(ana)
        await until_following(house, 1)
    async with leadership:
        await asyncio.Event().wait()

    assert said == ["uncertain"]
    assert leadership.lost is not None
    assert leadership.lost.reason == "margin"
    with pytest.raises(FencegateError):
        await leadership.effect("POST", "crm", "/notes", key="k")
    await ana.__aexit__(None, None, None)
