"""Who may see what: a principal's functions and destinations bound everything it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.control.office import SEAL_S, Office, said_by
from tests.proxy.setting import principals

PEOPLE = {
    "everything": "",
    "vera": "role: viewer",
    "ana": 'functions: ["relatorio"]; destinations: ["crm"]',
    "erp": 'role: viewer; destinations: ["erp"]',
    "olga": 'role: operator; functions: ["varredura"]',
    "nothing": "role: viewer; functions: []; destinations: []",
}
SENDER = {"Fence_Authorization": "Bearer fg_everything"}


@pytest.fixture
async def guarded(open_office: Any, tmp_path: Path) -> Office:
    office: Office = await open_office(principals=principals(tmp_path, **PEOPLE))
    await office.unknown("k-report", **SENDER)
    await office.unknown("k-sweep", function="varredura", **SENDER)
    await office.unknown("k-erp", destination="erp", **SENDER)
    return office


async def ids(office: Office) -> dict[str, str]:
    items = (await office.house.get("/v1/effects", **said_by("everything"))).json["items"]
    return {item["key"]: item["id"] for item in items}


@pytest.mark.parametrize(
    ("name", "query", "keys"),
    [
        ("everything", "", ["k-erp", "k-sweep", "k-report"]),
        ("vera", "", ["k-erp", "k-sweep", "k-report"]),
        ("ana", "", ["k-report"]),
        ("ana", "?function=varredura", []),
        ("ana", "?destination=erp", []),
        ("ana", "?function=relatorio&outcome=unknown&term=7", ["k-report"]),
        ("erp", "", ["k-erp"]),
        ("olga", "", ["k-sweep"]),
        ("nothing", "", []),
    ],
)
async def test_a_list_holds_only_what_the_principal_may_see(
    guarded: Office, name: str, query: str, keys: list[str]
) -> None:
    assert await guarded.keys(query, by=name) == keys


async def test_an_effect_that_one_may_not_see_looks_as_if_it_were_not_there(
    guarded: Office,
) -> None:
    for key, effect_id in (await ids(guarded)).items():
        got = await guarded.house.get(f"/v1/effects/{effect_id}", **said_by("ana"))
        assert (got.status, got.problem) == (
            (200, None) if key == "k-report" else (404, "not-found")
        )


async def test_an_operator_decides_only_about_functions_of_its_own(guarded: Office) -> None:
    found = await ids(guarded)
    guarded.clock.advance(seconds=SEAL_S + 1)

    other = await guarded.resolve(found["k-report"], "no-effect", by="olga")
    own = await guarded.resolve(found["k-sweep"], "no-effect", by="olga")

    assert (other.status, other.problem) == (404, "not-found")
    assert own.status == 200


@pytest.mark.parametrize(
    ("name", "names"),
    [("everything", ["crm", "erp"]), ("ana", ["crm"]), ("erp", ["erp"]), ("nothing", [])],
)
async def test_destinations_are_those_that_may_be_reached(
    guarded: Office, name: str, names: list[str]
) -> None:
    listed = (await guarded.house.get("/v1/destinations", **said_by(name))).json["items"]

    assert [item["name"] for item in listed] == names
    for each in ("crm", "erp"):
        got = await guarded.house.get(f"/v1/destinations/{each}", **said_by(name))
        assert got.status == (200 if each in names else 404)


@pytest.mark.parametrize(
    "path",
    ["/v1/effects", "/v1/effects/x", "/v1/destinations", "/v1/destinations/crm",
     "/v1/openapi.json", "/v1", "/v1/none"],
)  # fmt: skip
@pytest.mark.parametrize("headers", [{}, said_by("nobody"), {"Authorization": "Bearer fg_"}])
async def test_all_of_v1_asks_for_a_token(
    guarded: Office, path: str, headers: dict[str, str]
) -> None:
    got = await guarded.house.get(path, **headers)

    assert (got.status, got.problem) == (401, "unauthenticated")
    assert got.headers["WWW-Authenticate"].startswith("Bearer")
    assert "nobody" not in got.body.decode()


@pytest.mark.parametrize("path", ["/", "/livez", "/readyz", "/metrics", "/problems/"])
async def test_health_metrics_and_problems_ask_for_none(guarded: Office, path: str) -> None:
    assert (await guarded.house.get(path)).status == 200
