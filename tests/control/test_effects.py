"""`GET /v1/effects` and `/v1/effects/{id}`: what is shown, found, and paged through."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.wire.control import EffectOut, EffectPage
from tests.control.office import Office
from tests.raw_destination import answer, rst

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")


async def fill(office: Office) -> None:
    """Five effects that differ in everything that can be asked for."""
    await office.send("k-report", Fence_Unit="u-1")
    await office.send("k-sweep", answer(422), function="varredura", term=3, Fence_Unit="u-1")
    await office.send("k-erp", rst, destination="erp")
    await office.send("k-limited", answer(429), term=8, Fence_Unit="u-2")
    await office.in_flight("k-slow", term=8)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("", ["k-slow", "k-limited", "k-erp", "k-sweep", "k-report"]),
        ("?function=relatorio", ["k-slow", "k-limited", "k-erp", "k-report"]),
        ("?function=varredura", ["k-sweep"]),
        ("?function=nobody", []),
        ("?unit=u-1", ["k-sweep", "k-report"]),
        ("?unit=u-1&function=relatorio", ["k-report"]),
        ("?destination=erp", ["k-erp"]),
        ("?outcome=confirmed", ["k-report"]),
        ("?outcome=rejected", ["k-sweep"]),
        ("?outcome=no-effect", ["k-limited"]),
        ("?outcome=unknown", ["k-erp"]),
        ("?outcome=in-flight", ["k-slow"]),
        ("?term=3", ["k-sweep"]),
        ("?term=8", ["k-slow", "k-limited"]),
        ("?term=9007199254740991", []),
        ("?limit=2", ["k-slow", "k-limited"]),
        ("?function=%00%FF%F0%9F%98%80", []),
        ("?cursor=00000000000000000000000000", []),
    ],
)
async def test_each_filter_finds_what_it_says(office: Office, query: str, keys: list[str]) -> None:
    await fill(office)

    found = await office.keys(query)
    await office.land()

    assert found == keys


@pytest.mark.parametrize("outcome", ["", "&outcome=confirmed", "&function=relatorio&term=7"])
async def test_the_cursor_walks_over_everything_once(office: Office, outcome: str) -> None:
    for n in range(7):
        await office.send(f"k-{n}")
    walked: list[str] = []
    sizes: list[int] = []
    cursor = ""
    while True:
        page = (await office.house.get(f"/v1/effects?limit=3{outcome}{cursor}")).json
        EffectPage.model_validate(page)
        walked += [item["key"] for item in page["items"]]
        sizes.append(len(page["items"]))
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
        await office.send(f"k-late-{len(sizes)}")  # what comes meanwhile is newer, not behind

    assert sizes == [3, 3, 1]
    assert walked == [f"k-{n}" for n in reversed(range(7))]


async def test_a_page_that_ends_with_the_last_effect_has_none_behind_it(office: Office) -> None:
    for n in range(3):
        await office.send(f"k-{n}")

    page = (await office.house.get("/v1/effects?limit=3")).json

    assert (len(page["items"]), page["next"]) == (3, None)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("?outcome=done", "'done'"),
        ("?outcome=", "''"),
        ("?term=0", "'0'"),
        ("?term=7.0", "'7.0'"),
        ("?term=%2B7", "'+7'"),
        ("?term=9007199254740992", "'9007199254740992'"),
        ("?term=%D9%A7", "term"),
        ("?limit=0", "'0'"),
        ("?limit=501", "'501'"),
        ("?limit=-1", "'-1'"),
        ("?limit=%D9%A7", "limit"),
        (f"?limit={'9' * 6000}", "'99999"),
        ("?page=2", "'page'"),
        ("?cursor=", "''"),
        ("?cursor=%FF%27%20OR%201=1", "' OR 1=1"),
        ("?outcome=confirmed&outcome=unknown", "2 times"),
        ("?function=a&function=b", "function"),
    ],
)
async def test_a_filter_that_means_nothing_is_malformed(
    office: Office, query: str, shown: str
) -> None:
    got = await office.house.get(f"/v1/effects{query}")

    assert (got.status, got.problem) == (400, "malformed")
    assert shown in got.json["detail"]
    assert len(got.body) < 2000


async def test_an_effect_is_shown_with_all_its_attempts(office: Office) -> None:
    await office.send("k-1", answer(422, b"no"), Fence_Unit="u-1", Fence_Item="item-3")
    got = await office.send("k-1", answer(201, b'{"id": 5}'), term=8, Fence_Unit="u-1")

    shown = await office.effect(got.headers["Fence-Effect"])

    EffectOut.model_validate(shown)
    attempts = shown.pop("attempts")
    instants = {name: shown.pop(name) for name in ("created_at", "settled_at")}
    assert all(INSTANT.match(at) for at in instants.values())
    assert shown == {
        "resolution": None,
        "id": got.headers["Fence-Effect"],
        "destination": "crm",
        "function": "relatorio",
        "unit": "u-1",
        "item": "item-3",
        "key": "k-1",
        "covers": shown["covers"],
        "state": "settled",
        "exception_id": None,
        "outcome": "confirmed",
        "resolved_by": "answer",
        "principal": "dev",
        "version": shown["version"],
        "observed": None,
        "resource": shown["resource"],
    }
    told = [(a["n"], a["term"], a["holder"], a["outcome"], a["status"]) for a in attempts]
    assert told == [(1, 7, "ana#7", "rejected", 422), (2, 8, "ana#8", "confirmed", 201)]
    for attempt in attempts:
        assert (attempt["method"], attempt["target"]) == ("POST", "/k-1")
        assert attempt["created_at"] < attempt["deadline_at"] < attempt["seal_at"]
        assert INSTANT.match(attempt["ended_at"])


async def test_an_effect_in_flight_has_no_outcome_yet(office: Office) -> None:
    await office.in_flight("k-slow")

    (shown,) = (await office.house.get("/v1/effects")).json["items"]
    await office.land()

    assert (shown["state"], shown["outcome"], shown["settled_at"]) == ("in-flight", None, None)
    assert shown["attempts"][0]["ended_at"] is None
    assert (await office.effect(shown["id"]))["outcome"] == "confirmed"


@pytest.mark.parametrize("effect_id", ["nobody", "%FF", "%27%20OR%201=1", "%00", "a" * 8000])
async def test_an_id_of_nothing_is_not_found(office: Office, effect_id: str) -> None:
    await office.send("k-1")

    got = await office.house.get(f"/v1/effects/{effect_id}")

    assert (got.status, got.problem) == (404, "not-found")


async def test_nothing_on_these_pages_may_be_kept_by_a_cache(office: Office) -> None:
    effect_id = await office.unknown()

    kept: list[Any] = [
        (await office.house.get(path)).headers["Cache-Control"]
        for path in ("/v1/effects", f"/v1/effects/{effect_id}", "/v1/effects/none", "/readyz")
    ]

    assert kept == ["no-store"] * 4
