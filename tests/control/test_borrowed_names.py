"""Who learns a leader's name and term, and has a token of its own, still cannot speak for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control.leading import LEADING_PEOPLE, Leader
from tests.control.office import Office, said_by
from tests.control.working import Hand


async def sent(office: Office, key: str, leader: Leader, by: str) -> Any:
    """Send an effect in the leader's name, with the token of `by`."""
    worker = office.worker("crm", leader.function, leader.term)
    worker.holder = leader.holder
    token = said_by(by)["Fence-Authorization"]
    return await worker.post(f"/{key}", key, Fence_Authorization=token)


async def test_an_effect_in_the_leaders_name_with_another_token_is_not_sent(guarded: Office):
    ana = Leader(guarded, by="ana")
    await ana.acquire()

    got = await sent(guarded, "k-1", ana, "rui")

    assert (got.status, got.problem) == (412, "not-holder")
    assert guarded.crm.received == []
    told = got.body.decode() + str(dict(got.headers))
    assert [name for name in LEADING_PEOPLE if f"fg_{name}" in told] == []
    assert "rui" not in told
    assert (await sent(guarded, "k-1", ana, "ana")).status == 200
    assert [one.path for one in guarded.crm.received] == ["/k-1"]


async def test_the_leaders_recorded_answer_is_not_given_to_another_token(guarded: Office):
    ana = Leader(guarded, by="ana")
    await ana.acquire()
    first = await sent(guarded, "k-1", ana, "ana")

    got = await sent(guarded, "k-1", ana, "rui")

    assert (first.status, got.problem) == (200, "not-holder")
    assert len(guarded.crm.received) == 1


async def test_after_a_handoff_to_another_token_only_that_one_is_heard(guarded: Office):
    ana, rui = Leader(guarded, by="ana"), Leader(guarded, "rui#1", by="rui")
    await ana.acquire()
    await rui.report()
    assert (await ana.named("hand-off", to="rui#1")).status == 200
    rui.term = 2

    refused = await sent(guarded, "k-1", rui, "ana")

    assert (refused.problem, guarded.crm.received) == ("not-holder", [])
    assert (await sent(guarded, "k-2", rui, "rui")).status == 200


@pytest.mark.parametrize("verb", ["create", "claim", "complete"])
async def test_a_unit_hears_its_leader_from_its_own_token_alone(guarded: Office, verb: str):
    ana = Leader(guarded, by="ana")
    await ana.acquire()
    hand = Hand(guarded, unit="ronda:1", function="ronda", term=1, by="ana")
    if verb != "create":
        assert (await hand.create()).status == 201
    eve = hand.but(by="rui")

    got = await (eve.post("complete") if verb == "complete" else getattr(eve, verb)())

    assert (got.status, got.problem) == (412, "not-holder")
