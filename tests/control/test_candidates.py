"""`/v1/candidates`: what candidates report, how they are ranked, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.wire.leadership import CandidateOut, CandidatePage
from tests.control.leading import Leader, send
from tests.control.office import Office, said_by
from tests.house import Got


async def test_a_candidate_reports_and_is_ranked(leased: Office) -> None:
    newer = Leader(leased, "ana#1", "plantao")
    older = Leader(leased, "bo#1", "plantao")
    old = Leader(leased, "cy#1", "plantao")

    said = await newer.report(version="2026.11")
    await older.report(version="2026.10")
    await old.report(version="2026.9", ready=False)
    got = await leased.house.get("/v1/candidates/plantao")

    one = CandidateOut.model_validate(said.json)
    assert (one.holder, one.eligible, one.fresh_for_ms) == ("ana#1", True, 13_000)
    page = CandidatePage.model_validate(got.json)
    assert [item.holder for item in page.items] == ["bo#1", "ana#1", "cy#1"]
    assert [item.eligible for item in page.items] == [True, True, False]
    assert "ready: false" in page.items[2].reasons[0]


async def test_a_report_grows_stale_and_says_so(leased: Office) -> None:
    await Leader(leased).report()
    leased.clock.advance(seconds=14)

    (item,) = (await leased.house.get("/v1/candidates/ronda")).json["items"]

    assert (item["fresh_for_ms"], item["eligible"]) == (0, False)
    assert "14000 ms" in item["reasons"][0]


async def test_a_candidate_that_withdraws_is_forgotten(leased: Office) -> None:
    ana = Leader(leased)
    await ana.report()

    gone, again = await ana.withdraw(), await ana.withdraw()

    assert (gone.status, again.status, gone.body) == (204, 204, b"")
    assert (await leased.house.get("/v1/candidates/ronda")).json["items"] == []


async def test_nobody_speaks_for_another_principals_candidate(guarded: Office) -> None:
    await Leader(guarded, by="ana").report(priority=1)
    rui = Leader(guarded, by="rui")

    refused: list[Got] = [await rui.report(priority=9), await rui.withdraw()]

    assert [(got.status, got.problem) for got in refused] == [(403, "forbidden")] * 2
    assert "'ana#1'" in refused[0].json["detail"]
    (item,) = (await guarded.house.get("/v1/candidates/ronda", **said_by("ana"))).json["items"]
    assert (item["priority"], item["principal"]) == (1, "ana")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"priority": "9"}, "'9'"),
        ({"ready": "yes"}, "'yes'"),
        ({"version": "x" * 101}, "version"),
        ({"region": "br southeast"}, "'br southeast'"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_report_that_means_nothing_is_malformed(
    leased: Office, given: dict[str, Any], said: str
) -> None:
    got = await Leader(leased).report(**given)

    assert (got.status, got.problem) == (400, "malformed")
    assert said in got.json["detail"]


@pytest.mark.parametrize(("by", "status"), [("vera", 403), ("bo", 403), ("nobody", 401)])
async def test_a_candidate_needs_the_right_to_the_function(
    guarded: Office, by: str, status: int
) -> None:
    ana = Leader(guarded, by=by)

    assert (await ana.report()).status == status
    assert (await ana.withdraw()).status == status


async def test_a_holder_in_a_path_is_a_name(leased: Office) -> None:
    got = await send(leased, "PUT", "/v1/candidates/ronda/a%20b", {}, "")

    assert (got.status, got.problem) == (400, "malformed")
    assert "'a b'" in got.json["detail"]
