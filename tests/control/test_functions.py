"""`/v1/functions`: the policy as loaded, who leads, who could, and what is unfinished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.control import functions
from gateway.wire.leadership import FunctionDetailOut, FunctionOut, FunctionPage
from tests.control.leading import LEASED, Leader, policies_with_leases
from tests.control.office import Office, policies_of, said_by
from tests.proxy.setting import principals
from tests.raw_destination import RawDestination


async def shown(office: Office, name: str, by: str = "") -> FunctionDetailOut:
    got = await office.house.get(f"/v1/functions/{name}", **(said_by(by) if by else {}))
    assert got.status == 200, got.body
    return FunctionDetailOut.model_validate(got.json)


async def test_functions_are_listed_by_name_as_their_policies_say(leased: Office) -> None:
    page = FunctionPage.model_validate((await leased.house.get("/v1/functions")).json)

    assert [one.function for one in page.items] == [
        "carteira", "plantao", "relatorio", "ronda", "varredura",
    ]  # fmt: skip
    known = {one.function: one for one in page.items}
    plantao, relatorio = known["plantao"], known["relatorio"]
    assert (plantao.authority, plantao.leadership, plantao.callers) == (
        "lease", "function", "leader",
    )  # fmt: skip
    assert plantao.lease is not None
    assert plantao.lease.model_dump() == {
        "ttl_ms": 20_000, "renew_every_ms": 5_000, "margin_ms": 3_000,
        "prefer_for_ms": 5_000, "fresh_for_ms": 13_000,
    }  # fmt: skip
    assert plantao.eligible is not None
    assert plantao.eligible.versions == ">=2026.10"
    assert plantao.exceptions is not None
    assert (plantao.exceptions.owner, plantao.exceptions.deadline_ms) == (
        "ops-comercial",
        14_400_000,
    )
    assert plantao.digest == leased.panel.policies().functions["plantao"].digest
    assert (relatorio.authority, relatorio.lease, relatorio.eligible) == ("external", None, None)
    assert relatorio.max_term_jump == 1000
    assert known["carteira"].leadership == "unit"


async def test_all_of_eligibility_is_shown(open_office: Any) -> None:
    eligible = (
        "eligible: {regions: [south, north], preferred: ana, upgrades: newest-first, "
        "cool_off: {losses: 3, within: 10m, lasts: 5m}}"
    )
    text = LEASED.replace('eligible: {versions: ">=2026.10", upgrades: oldest-first}', eligible)

    def policies(crm: RawDestination) -> dict[str, str]:
        return policies_of(crm) | {"plantao": text}

    found = (await shown(await open_office(policies), "plantao")).eligible

    assert found is not None
    assert found.model_dump() == {
        "versions": None,
        "regions": ["north", "south"],
        "preferred": "ana",
        "upgrades": "newest-first",
        "cool_off": {"losses": 3, "within_ms": 600_000, "lasts_ms": 300_000},
    }


async def test_a_function_is_shown_with_its_leader_and_what_is_unfinished(
    leased: Office,
) -> None:
    await Leader(leased, "bo#1").report(version="2026.11")
    ana = Leader(leased)
    leased.clock.advance(seconds=6)
    await ana.acquire()
    leased.clock.advance(seconds=6)
    await ana.acquire()
    await leased.unknown("k-1", function="ronda", term=1)
    await leased.in_flight("k-2", function="ronda", term=1)

    found = await shown(leased, "ronda")
    await leased.land()

    (scope,) = found.scopes
    assert (scope.unit, scope.highest_term, scope.last_term) == (None, 1, 1)
    assert scope.unfinished_effects == 2
    assert scope.lease is not None
    assert (scope.lease.holder, scope.lease.in_flight) == ("ana#1", 1)
    assert {each.holder for each in found.candidates} == {"ana#1", "bo#1"}
    assert found.scopes_left_out == 0


async def test_a_function_that_nobody_has_led_has_its_scope_all_the_same(leased: Office) -> None:
    (scope,) = (await shown(leased, "ronda")).scopes

    assert scope.lease is not None
    assert (scope.last_term, scope.lease.state) == (0, "candidate")


async def test_of_many_scopes_those_that_are_led_come_first(
    leased: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "MAX_SCOPES", 3)
    for n in range(5):
        leased.clock.advance(ms=10)
        leader = Leader(leased, function="carteira", unit=f"u-{n}")
        await leader.acquire()
        if n != 1:
            await leader.named("release")

    found = await shown(leased, "carteira")

    assert [scope.unit for scope in found.scopes] == ["u-1", "u-4", "u-3"]
    assert found.scopes_left_out == 2


async def test_a_function_whose_terms_come_from_outside_has_no_leases(leased: Office) -> None:
    await leased.send("k-1")

    found = await shown(leased, "relatorio")

    assert (found.scopes, found.candidates) == ([], [])
    for path in ("/v1/leases/relatorio", "/v1/candidates/relatorio"):
        got = await leased.house.get(path)
        assert (got.status, got.problem) == (400, "malformed")
        assert "authority: external" in got.json["detail"]


async def test_functions_are_seen_by_right(open_office: Any, tmp_path: Path) -> None:
    people = principals(tmp_path, ana='functions: ["ronda"]', nothing="functions: []")
    office: Office = await open_office(policies_with_leases, principals=people)

    for by, names in (("ana", ["ronda"]), ("nothing", [])):
        listed = await office.house.get("/v1/functions", **said_by(by))
        assert [item["function"] for item in listed.json["items"]] == names
        for path in ("/v1/functions/plantao", "/v1/candidates/plantao", "/v1/leases/plantao"):
            got = await office.house.get(path, **said_by(by))
            assert (got.status, got.problem) == (404, "not-found")
    assert (await office.house.get("/v1/functions")).status == 401


async def test_the_description_knows_every_member(leased: Office) -> None:
    document = (await leased.house.get("/v1/openapi.json")).json

    assert set(document["components"]["schemas"]["FunctionOut"]["properties"]) == set(
        FunctionOut.model_fields
    )
