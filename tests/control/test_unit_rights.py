"""Who may do what to a unit of work: leadership gives no permission."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.control.office import Office, said_by
from tests.control.working import Hand, policies_with_units
from tests.proxy.setting import principals

PEOPLE = {
    "ana": 'functions: ["carga"]',
    "bo": 'functions: ["relatorio"]',
    "vera": "role: viewer",
    "olga": "role: operator",
    "oto": 'role: operator; functions: ["relatorio"]',
}


@pytest.fixture
async def leader(open_office: Any, tmp_path: Path) -> Hand:
    office: Office = await open_office(
        policies_with_units, principals=principals(tmp_path, **PEOPLE)
    )
    leader = Hand(office, by="ana")
    assert (await leader.create()).status == 201
    return leader


@pytest.mark.parametrize(("name", "why"), [("bo", "carga"), ("vera", "worker"), ("olga", "worker")])
async def test_writing_needs_the_workers_role_and_the_function(leader: Hand, name: str, why: str):
    other = leader.but(by=name)

    for got in (
        await other.create(), await other.claim(), await other.report(("a", "done", 1)),
        await other.checkpoint("a", '"0"', {}), await other.post("complete"),
        await other.post("abandon", reason="r"),
    ):  # fmt: skip
        assert (got.status, got.problem) == (403, "forbidden")
        assert why in got.json["detail"]
    assert (await leader.shown())["items"]["pending"] == 3


@pytest.mark.parametrize("name", ["bo", "vera", "olga"])
async def test_the_plan_of_whoever_may_not_create_is_not_parsed(leader: Hand, name: str):
    got = await leader.but(by=name, unit="u-2").ask("PUT", "", b"{no JSON at all")

    assert (got.status, got.problem) == (403, "forbidden")


@pytest.mark.parametrize(
    ("name", "sees"), [("ana", True), ("vera", True), ("olga", True), ("bo", False), ("oto", False)]
)
async def test_a_unit_of_another_function_looks_as_if_it_were_not_there(
    leader: Hand, name: str, sees: bool
):
    other = leader.but(by=name)
    for path in ("", "/items"):
        got = await other.ask("GET", path, headers={})
        assert (got.status, got.problem) == ((200, None) if sees else (404, "not-found"))
    listed = await leader.office.house.get("/v1/units", **said_by(name))
    assert len(listed.json["items"]) == sees


async def test_an_operator_abandons_without_leading(leader: Hand):
    async def abandon(name: str) -> Any:
        hand = leader.but(by=name)
        return await hand.ask("POST", "/abandon", {"reason": "closed window"}, {})

    assert (await abandon("oto")).problem == "not-found"
    assert (await abandon("ana")).problem == "fence-missing"
    assert (await abandon("vera")).problem == "forbidden"
    got = await abandon("olga")

    assert (got.status, got.json["state"], got.json["closed_reason"]) == (
        200, "unit-abandoned", "closed window",
    )  # fmt: skip
    assert (await leader.claim()).problem == "unit-closed"
    nobody = leader.but(by="olga", unit="nix")
    assert (await nobody.ask("POST", "/abandon", {"reason": "r"}, {})).problem == "not-found"


async def test_no_token_opens_nothing(leader: Hand):
    for got in (await leader.but(by="").claim(), await leader.office.house.get("/v1/units")):
        assert (got.status, got.problem) == (401, "unauthenticated")
