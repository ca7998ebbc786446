"""`fencegate handover show`: a change of term, as a successor reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.exits import Exit
from tests.cli.terminal import Ended, run_beside
from tests.control.leading import OPEN
from tests.house import FUNCTION, House, running_house
from tests.proxy.setting import destination
from tests.raw_destination import RawDestination, answer

FENCE = {"Fence-Function": "ronda", "Fence-Term": "1", "Fence-Holder": "ana#1"}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with RawDestination() as crm:
        crm.on("/notes", answer(201, b"{}"))
        policies = {"crm": destination(crm), "relatorio": FUNCTION, "ronda": OPEN}
        async with running_house(tmp_path, policies) as house:
            yield house


async def leads(house: House, verb: str, **body: Any) -> None:
    got = await house.post(f"/v1/leases/ronda/{verb}", body)
    assert got.status in (200, 201), got.body


async def handed_on(house: House) -> None:
    await leads(house, "release", holder="ana#1", term=1)
    await leads(house, "acquire", holder="bo#1")


async def show(house: House, *words: object) -> Ended:
    return await run_beside("handover", "show", *words, "--url", house.url)


async def test_the_five_answers_are_told_in_words(house: House) -> None:
    await leads(house, "acquire", holder="ana#1")
    plan = {"function": "ronda", "manifest": {"items": [{"id": "a"}, {"id": "b"}]}}
    async with house.session.put(f"{house.url}/v1/units/u-1", json=plan, headers=FENCE) as got:
        assert got.status == 201
    await handed_on(house)

    ended = await show(house, "ronda")
    portuguese = await show(house, "ronda", "--lang", "pt-BR", "--term", 2)

    assert (ended.code, ended.err) == (Exit.OK, "")
    for words in (
        "the leader of ronda gave its lease back; a new leader commands; 0 of 2 items of u-1",
        "term     1 -> 2 at 20",
        "leader   ana#1 (released) -> bo#1",
        "are as of now",
        "u-1: unit-open; 2 pending",
        "0 of 2 items, 0 effects confirmed",
        "to reconcile: 2",
        "none is open",
    ):
        assert words in ended.out
    assert portuguese.out.startswith("o líder de ronda devolveu a liderança; ")


async def test_without_units_it_says_where_to_look_for_what_took_effect(house: House) -> None:
    await leads(house, "acquire", holder="ana#1")
    worker = house.worker(term=1)
    worker.function = "ronda"
    assert (await worker.post("/notes", "k-1")).status == 201
    await handed_on(house)

    ended = await show(house, "ronda")

    assert "see fencegate effects ls --function ronda --term 1" in ended.out
    assert "0 of 0" not in ended.out


async def test_what_cannot_be_shown_is_told_with_a_way_on(house: House) -> None:
    missing = await show(house, "ronda")
    language = await show(house, "ronda", "--lang", "fr")

    assert missing.code == Exit.NOT_FOUND
    assert "No change of term of 'ronda'" in missing.said
    assert language.code == Exit.USAGE
