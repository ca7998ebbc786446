"""What a successor is told about a change of term, by a gateway that saw it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.control.leading import Leader, policies_with_leases
from tests.control.office import Office, said_by
from tests.control.working import Hand
from tests.proxy.setting import principals
from tests.raw_destination import answer, rst

UNIT = "relatorio:2026-10-02"
ITEMS = [f"item-{n}" for n in range(1, 32)]
DONE = 18
TTL_S = 20


async def told(office: Office, query: str = "", by: str = "") -> Any:
    headers = said_by(by) if by else {}
    got = await office.house.get(f"/v1/functions/ronda/handover{query}", **headers)
    assert got.status == 200, got.body
    return got.json


async def half_done(office: Office) -> Leader:
    """Ana does 18 of 31 items and sends one effect of which nobody knows what became."""
    ana = Leader(office)
    await ana.acquire()
    office.clock.advance(seconds=1)
    hand = Hand(office, unit=UNIT, function="ronda", term=ana.term)
    assert (await hand.create(ITEMS)).status == 201
    assert (await hand.claim(limit=20)).status == 200
    assert (await hand.report(*((item, "done", 1) for item in ITEMS[:DONE]))).status == 200
    office.crm.on("/notes", answer(201, b"{}"))
    assert (await hand.send("k-done", "item-1")).status == 201
    office.crm.on("/lost", rst)
    assert (await hand.send("k-lost", "item-19", "/lost")).problem == "outcome-unknown"
    return ana


async def handed_on(office: Office) -> Leader:
    ana = await half_done(office)
    office.clock.advance(seconds=1)
    assert (await ana.named("release")).status == 200
    bo = Leader(office, "bo#1")
    assert (await bo.acquire()).status == 201
    return bo


async def test_a_successor_is_told_in_five_answers_and_a_sentence(leased: Office) -> None:
    await handed_on(leased)

    got = await told(leased)

    assert (got["before"]["term"], got["before"]["holder"]) == (1, "ana#1")
    assert (got["now"]["term"], got["now"]["holder"], got["before"]["ended"]) == (
        2, "bo#1", "released"
    )  # fmt: skip
    assert got["doing"]["units"][0]["unit"] == UNIT
    assert got["doing"]["units"][0]["unknown_effects"] == 1
    assert [one["item"] for one in got["doing"]["items_out"]] == ["item-19", "item-20"]
    assert got["doing"]["commands"] == {"confirmed": 1, "unknown": 1}
    (left,) = got["doing"]["uncertain"]
    assert (left["key"], left["item"], left["outcome"]) == ("k-lost", "item-19", "unknown")
    assert got["took_effect"] == {"effects_confirmed": 1, "items": 31, "items_done": DONE}
    assert got["to_reconcile"] == 13
    assert got["sentence"]["en"] == (
        "the leader of ronda gave its lease back; a new leader commands; 18 of 31 items of "
        f"{UNIT} are confirmed; the new leader must reconcile 13"
    )
    case = await leased.exception(left["id"])
    assert [one["id"] for one in (await told(leased))["exceptions"]] == [case["id"]]


async def test_what_began_after_the_change_is_not_what_it_left(leased: Office) -> None:
    bo = await handed_on(leased)
    leased.clock.advance(seconds=1)
    later = Hand(leased, unit="relatorio:2026-10-03", function="ronda", term=2, holder="bo#1")
    assert (await later.create("ab")).status == 201
    leased.clock.advance(seconds=1)
    assert (await bo.named("release")).status == 200
    leased.clock.advance(seconds=TTL_S)
    assert (await Leader(leased, "eva#1").acquire()).status == 201

    first = await told(leased, "?term=1")
    second = await told(leased, "?term=2")
    third = await told(leased)

    units = [[one["unit"] for one in each["doing"]["units"]] for each in (first, second, third)]
    assert units == [[], [UNIT], [UNIT, "relatorio:2026-10-03"]]
    assert second["took_effect"]["items"] == 31


async def test_a_term_that_nobody_changed_to_is_not_found(leased: Office) -> None:
    await handed_on(leased)

    for path in ("ronda/handover?term=9", "plantao/handover", "nobody/handover"):
        got = await leased.house.get(f"/v1/functions/{path}")
        assert (got.status, got.problem) == (404, "not-found")


@pytest.fixture
async def guarded(open_office: Any, tmp_path: Path) -> Office:
    people = principals(
        tmp_path, everything="", erp='role: viewer; destinations: ["erp"]',
        other='role: viewer; functions: ["plantao"]',
    )  # fmt: skip
    opened: Office = await open_office(policies_with_leases, principals=people)
    return opened


async def test_effects_and_exceptions_are_told_to_who_may_reach_their_destination(
    guarded: Office,
) -> None:
    ana = Leader(guarded, by="everything")
    await ana.acquire()
    sender = {"Fence_Authorization": "Bearer fg_everything"}
    effect_id = await guarded.unknown("k-1", function="ronda", term=ana.term, **sender)
    await ana.named("release")
    await Leader(guarded, "bo#1", by="everything").acquire()

    all_of_it = await told(guarded, by="everything")
    none_of_it = await told(guarded, by="erp")
    hidden = await guarded.house.get("/v1/functions/ronda/handover", **said_by("other"))

    assert [one["id"] for one in all_of_it["doing"]["uncertain"]] == [effect_id]
    assert none_of_it["doing"]["uncertain"] == none_of_it["exceptions"] == []
    assert (hidden.status, hidden.problem) == (404, "not-found")
