"""`fencegate units`: on a file at rest, and through a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.cli.exits import Exit
from gateway.clock import ManualClock
from gateway.core.ids import Scope
from gateway.core.work import ItemState
from gateway.store.work import Claiming, Creating, Reporting
from gateway.store.work_records import Report, Speech
from gateway.wire.units import ItemPage, UnitOut, UnitPage
from tests.cli.shelf import Shelf, at_rest
from tests.cli.terminal import Ended, call, run_beside
from tests.conformance.working import OPEN_TO_CLAIMANTS, TTL_MS, plan
from tests.control.office import Office
from tests.control.working import Hand, policies_with_units
from tests.house import running_house
from tests.proxy.setting import destination, principals
from tests.raw_destination import RawDestination

WORKED, SMALL = "report:2026-10", "report:2026-11"


def speech(unit: str, holder: str = "leader#7", **more: Any) -> Speech:
    return Speech(
        scope=Scope("report"), unit=unit, term=7, holder=holder, principal="worker",
        rules=OPEN_TO_CLAIMANTS, **more,
    )  # fmt: skip


async def fill(shelf: Shelf) -> None:
    """Two units: one half done with an item in doubt, one untouched."""
    work = shelf.ledger.work
    await work(Creating(speech(WORKED), plan(f"lead-{n}" for n in range(5))))
    await work(Creating(speech(SMALL), plan(["only"])))
    by = speech(WORKED, "w#1", leader_only=False)
    await work(Claiming(by, "w#1", 3, TTL_MS))
    reports = [
        Report(item="lead-0", state=ItemState.DONE, attempt=1),
        Report(item="lead-1", state=ItemState.UNCERTAIN, attempt=1, reason="the CRM\nhung up"),
    ]
    await work(Reporting(by, reports))


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    at_rest(tmp_path / "ledger.db", fill)
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def units(ledger: str, *words: object) -> Ended:
    return call("units", *words, "--ledger", ledger)


def test_units_are_listed_with_how_far_they_are(ledger: str):
    head, *lines = units(ledger, "ls").out.splitlines()

    assert head.split() == [
        "UNIT", "FUNCTION", "STATE", "DONE", "OF", "OPEN", "UNKNOWN", "TERM", "CREATED",
    ]  # fmt: skip
    found = {line.split()[0]: line.split()[1:8] for line in lines}
    assert found[WORKED] == ["report", "unit-uncertain", "1", "5", "4", "0", "7"]
    assert found[SMALL] == ["report", "unit-open", "0", "1", "1", "0", "7"]


def test_lists_go_on_page_by_page_and_by_state(ledger: str):
    first = units(ledger, "ls", "--limit", 1, "--json").json
    second = units(ledger, "ls", "--limit", 1, "--cursor", first["next"], "--json").json

    assert {first["items"][0]["unit"], second["items"][0]["unit"]} == {WORKED, SMALL}
    assert second["next"] is None
    UnitPage.model_validate(second)
    named = units(ledger, "ls", "--state", "unit-uncertain", "--function", "report", "--json")
    assert [unit["unit"] for unit in named.json["items"]] == [WORKED]
    assert units(ledger, "ls", "--function", "sweep", "--json").json["items"] == []
    assert "more: --cursor" in units(ledger, "ls", "--limit", 1).out
    wrong = units(ledger, "ls", "--cursor", "nix")
    assert (wrong.code, "'nix'" in wrong.said) == (Exit.USAGE, True)


def test_one_unit_is_shown_in_words(ledger: str):
    ended = units(ledger, "show", WORKED)

    assert ended.code == Exit.OK
    assert "items        5: 2 pending, 1 claimed, 1 done, 1 uncertain" in ended.out
    assert "created" in ended.out
    UnitOut.model_validate(units(ledger, "show", WORKED, "--json").json)
    assert units(ledger, "show", "nix").code == Exit.NOT_FOUND


def test_items_are_listed_in_the_manifests_order(ledger: str):
    lines = units(ledger, "items", WORKED, "--limit", 3).out.splitlines()

    assert [line.split()[:2] for line in lines[1:4]] == [
        ["lead-0", "done"], ["lead-1", "uncertain"], ["lead-2", "claimed"],
    ]  # fmt: skip
    assert "the CRM hung up" in lines[2]
    assert lines[4] == "more: --after 2"
    rest = units(ledger, "items", WORKED, "--after", 2, "--json").json
    assert [item["item"] for item in rest["items"]] == ["lead-3", "lead-4"]
    ItemPage.model_validate(rest)
    only = units(ledger, "items", WORKED, "--state", "uncertain", "--json").json["items"]
    assert [item["item"] for item in only] == ["lead-1"]
    assert units(ledger, "items", "nix").code == Exit.NOT_FOUND


def test_a_unit_is_given_up_at_rest_once(ledger: str):
    assert units(ledger, "abandon", WORKED, "--reason", " ").code == Exit.USAGE
    ended = units(ledger, "abandon", WORKED, "--reason", "the window closed")

    assert "state        unit-abandoned" in ended.out
    assert "the window closed" in ended.out
    again = units(ledger, "abandon", WORKED, "--reason", "another")
    assert (again.code, "abandoned already" in again.said) == (Exit.CONFLICT, True)
    assert units(ledger, "abandon", "nix", "--reason", "r").code == Exit.NOT_FOUND


async def test_through_a_gateway_an_operator_sees_and_gives_up_what_it_may(tmp_path: Path):
    people = principals(
        tmp_path, ana="", olga="role: operator", oto='role: operator; functions: ["relatorio"]'
    )
    async with RawDestination() as crm:
        policies = policies_with_units(crm) | {"crm": destination(crm)}
        async with running_house(tmp_path, policies, principals=people, dev=False) as house:
            hand = Hand(Office(house, crm, ManualClock()), by="ana")
            assert (await hand.create("abc")).status == 201

            async def ask(*words: object, by: str = "olga") -> Ended:
                return await run_beside(
                    "units", *words, "--url", house.url, FENCEGATE_TOKEN=f"fg_{by}"
                )

            assert (await ask("ls")).out.splitlines()[1].startswith(hand.unit)
            assert (await ask("show", hand.unit, "--json")).json["items"]["pending"] == 3
            assert len((await ask("items", hand.unit, "--json")).json["items"]) == 3
            words = ("abandon", hand.unit, "--reason", "closed")
            assert (await ask(*words, by="oto")).code == Exit.NOT_FOUND
            assert (await ask(*words, by="ana")).code == Exit.NO
            assert "unit-abandoned" in (await ask(*words)).out
            assert (await hand.claim()).problem == "unit-closed"
