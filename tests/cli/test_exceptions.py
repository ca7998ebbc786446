"""`fencegate exceptions`: what waits for a person, shown and decided from a terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.exits import Exit
from gateway.wire.cases import ExceptionOut, ExceptionPage
from tests.cli.terminal import Ended, run_beside
from tests.house import FUNCTION, House, running_house
from tests.proxy.setting import destination, eventually, principals
from tests.raw_destination import RawDestination, answer

SEND = {"Fence_Authorization": "Bearer fg_ana"}
SECRET = "fg_olga"


class Running:
    """A gateway with two exceptions, and the ways to ask about them."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.ledger = f"sqlite:///{folder / 'ledger.db'}"
        self.ids: list[str] = []

    async def fill(self, crm: RawDestination) -> None:
        crm.on("/lost", answer(500, b"out of order"))
        for key in ("k-1", "k-2"):
            await self.house.worker().post("/lost", key, **SEND)
        await eventually(self._both)

    async def _both(self) -> bool:
        self.ids = [item["id"] for item in (await self.v1("/v1/exceptions"))["items"]]
        return len(self.ids) == 2

    async def v1(self, path: str) -> Any:
        return (await self.house.get(path, **{"Fence-Authorization": f"Bearer {SECRET}"})).json

    async def ask(self, *words: object, token: str = SECRET) -> Ended:
        given = {"FENCEGATE_TOKEN": token}
        return await run_beside("exceptions", *words, "--url", self.house.url, **given)

    async def on_file(self, *words: object) -> Ended:
        return await run_beside("exceptions", *words, "--ledger", self.ledger)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    people = principals(tmp_path, ana="", olga="role: operator", vera="role: viewer")
    async with (
        RawDestination() as crm,
        running_house(
            tmp_path, {"crm": destination(crm), "relatorio": FUNCTION}, dev=False, principals=people
        ) as house,
    ):
        running = Running(house, tmp_path)
        await running.fill(crm)
        yield running


async def test_they_are_listed_by_age_one_to_a_line(running: Running) -> None:
    ended = await running.ask("ls")

    head, *rows = ended.out.splitlines()
    assert (ended.code, ended.err) == (Exit.OK, "")
    assert head.split() == [
        "ID", "AGE", "REASON", "FUNCTION", "UNIT", "DESTINATION", "OWNER", "DEADLINE"
    ]  # fmt: skip
    assert [row.split()[0] for row in rows] == running.ids
    assert rows[0].split()[2:7] == ["no-guard", "relatorio", "-", "crm", "ops-comercial"]
    first = await running.ask("ls", "--limit", 1)
    *_, more = first.out.splitlines()
    rest = await running.ask("ls", "--cursor", more.removeprefix("more: --cursor "))
    assert [line.split()[0] for line in rest.out.splitlines()[1:]] == running.ids[1:]


async def test_json_is_what_v1_says_also_from_the_file(running: Running) -> None:
    listed = await running.ask("ls", "--json")
    on_file = await running.on_file("ls", "--json")
    shown = await running.ask("show", running.ids[0], "--json")
    one = await running.on_file("show", running.ids[0], "--json")

    for ended in (listed, on_file):
        page = ExceptionPage.model_validate(ended.json)
        assert [item.id for item in page.items] == running.ids
    seen = [ExceptionOut.model_validate(ended.json) for ended in (shown, one)]
    assert seen[0].model_copy(update={"age_s": 0}) == seen[1].model_copy(update={"age_s": 0})


async def test_one_is_told_with_its_evidence_and_what_may_be_done(running: Running) -> None:
    ended = await running.ask("show", running.ids[0])

    assert ended.code == Exit.OK
    for words in (
        f"{running.ids[0]} (version 1), open",
        "no-guard: Nobody knows whether POST /lost took effect at crm",
        "responsible  ops-comercial, by 20",
        "request      POST /lost, digest ",
        "answer 1     status 500: out of order",
        "seal         20",
        "key          k-1",
        " under term 7 by ana#1",
        "look         fencegate effects show ",
        "possible     confirm, not-applied, abandon, assign, extend",
    ):
        assert words in ended.out


async def test_a_decision_is_made_on_the_version_that_is_shown_now(running: Running) -> None:
    words = (running.ids[0], "--reason", "note 5 is there")
    stale = await running.ask("confirm", *words, "--version", 9)
    early = await running.ask("not-applied", *words)
    done = await running.ask("confirm", *words)
    again = await running.ask("confirm", *words, "--version", 1)

    assert [ended.code for ended in (stale, early, done, again)] == [5, 5, 0, 5]
    assert "409" in stale.said
    assert "the destination may still carry the request out" in early.said
    assert "by olga: confirm" in done.out
    assert "because      note 5 is there" in done.out
    assert "because      note 5 is there" in (await running.ask("show", running.ids[0])).out
    assert "olga has closed the exception" in again.said
    closed = (await running.ask("ls", "--closed", "--json")).json["items"]
    assert [item["id"] for item in closed] == [running.ids[0]]
    effect = await running.v1(f"/v1/effects/{closed[0]['effect_id']}")
    assert (effect["outcome"], effect["resolved_by"]) == ("confirmed", "operator")


async def test_it_is_assigned_and_extended_and_not_asked_about_in_vain(running: Running) -> None:
    case_id = running.ids[0]
    assigned = await running.ask("assign", case_id, "--owner", "bo", "--reason", "on duty")
    extended = await running.ask(
        "extend", case_id, "--deadline", "2d", "--reason", "waits for the vendor", "--json"
    )
    probed = await running.ask("probe-again", case_id, "--reason", "the vendor is back")

    assert "responsible  bo, by 20" in assigned.out
    assert (extended.json["version"], extended.json["acknowledged_by"]) == (3, "olga")
    assert probed.code == Exit.USAGE
    assert "It may be confirm or" in probed.said


@pytest.mark.parametrize(
    ("words", "token", "code", "said"),
    [
        (["ls", "--cursor", "nonsense"], SECRET, 2, "'nonsense'"),
        (["show", "nobody"], SECRET, 4, "'nobody'"),
        (["show", ".."], SECRET, 4, "'..'"),
        (["ls"], "fg_wrong-token", 1, "not one of this gateway's"),
        (["confirm", "ID", "--reason", "r"], "fg_vera", 1, "no operator"),
        (["abandon", "ID", "--reason", " "], SECRET, 2, "--reason has 0 characters"),
        (["abandon", "nobody", "--reason", "r"], SECRET, 4, "'nobody'"),
        (["extend", "ID", "--reason", "r", "--deadline", "soon"], SECRET, 2, "'soon'"),
    ],
)
async def test_what_is_refused_is_told_with_a_way_on(
    running: Running, words: list[str], token: str, code: int, said: str
) -> None:
    real = [running.ids[0] if word == "ID" else word for word in words]

    ended = await running.ask(*real, token=token)

    assert ended.code == code
    assert said in ended.said
    assert "fg_" not in ended.err


async def test_a_file_without_exceptions_and_an_id_that_is_not_there(running: Running) -> None:
    assert (await running.on_file("show", "nobody")).code == Exit.NOT_FOUND
    listed = await running.on_file("ls", "--function", "other")
    assert listed.out.split()[0] == "ID"
    assert len(listed.out.splitlines()) == 1
