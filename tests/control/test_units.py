"""`/v1/units`: created once, worked on by claims, ended once; and what it says to the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core.work import manifest_digest
from gateway.wire.units import MAX_ITEMS, PLAN_MAX_BYTES
from tests.control.office import Office
from tests.control.working import Hand, manifest, policies_with_units


@pytest.fixture
async def office(open_office: Any) -> Office:
    opened: Office = await open_office(policies_with_units)
    return opened


@pytest.fixture
async def leader(office: Office) -> Hand:
    """Who has created a unit of three items."""
    leader = Hand(office)
    assert (await leader.create()).status == 201
    return leader


@pytest.fixture
def worker(leader: Hand) -> Hand:
    return leader.but(holder="w#1")


async def test_a_unit_is_created_once_and_then_shown_as_it_stands(office: Office):
    leader = Hand(office)
    first = await leader.create(
        [{"id": "a", "data": {"n": 1}}], period_start="2026-10-01", policy_version="4"
    )
    again = await leader.create("xyz", policy_version="5")

    assert (first.status, again.status) == (201, 200)
    assert first.headers["Location"] == leader.path
    assert first.json == again.json
    said = first.json
    assert (said["unit"], said["function"], said["state"]) == (leader.unit, "carga", "unit-open")
    assert (said["policy_version"], said["period_start"]) == ("4", "2026-10-01")
    assert said["manifest_digest"] == manifest_digest(manifest([{"id": "a", "data": {"n": 1}}]))
    assert said["manifest"] == {
        "digest": said["manifest_digest"], "sources": ["crm"], "criteria_version": "3", "items": 1,
    }  # fmt: skip
    assert said["items"]["total"] == said["items"]["pending"] == 1
    metrics = (await office.house.get("/metrics")).body.decode()
    assert 'fencegate_duplicate_units_blocked_total{function="carga"} 1.0' in metrics


async def test_many_leaders_who_create_at_once_make_one_unit(office: Office):
    leader = Hand(office)

    answers = await asyncio.gather(*(leader.create() for _ in range(8)))

    assert sorted(got.status for got in answers) == [200] * 7 + [201]


async def test_a_worker_claims_checkpoints_sends_and_reports(leader: Hand, worker: Hand):
    claimed = (await worker.claim(limit=2)).json
    assert [(one["item"], one["attempt"]) for one in claimed["items"]] == [("a", 1), ("b", 1)]
    assert claimed["items"][0]["remaining_ms"] == 60_000

    sent = await worker.send("k-1", "a")
    assert (sent.status, sent.headers["Fence-Outcome"]) == (200, "confirmed")
    kept = await worker.checkpoint("a", '"0"', {"page": 1})
    assert (kept.status, kept.headers["ETag"]) == (200, '"1"')
    said = (await worker.report(("a", "done", 1), ("b", "failed", 1), ("c", "done", 1))).json

    assert said["results"] == [
        {"item": "a", "taken": True, "reason": None},
        {"item": "b", "taken": True, "reason": None},
        {"item": "c", "taken": False, "reason": "not-claimed"},
    ]
    assert (said["taken"], said["turned_away"]) == (2, 1)
    shown = await leader.shown()
    assert (shown["state"], shown["checkpoint"]) == ("unit-processing", "a@1")
    assert shown["items"] == {
        "total": 3, "pending": 1, "claimed": 0, "done": 1, "failed": 1, "uncertain": 0,
        "abandoned": 0,
    }  # fmt: skip


async def test_a_worker_sends_for_no_item_but_its_own(worker: Hand):
    await worker.claim(limit=1)

    assert (await worker.send("k-1", "b")).problem == "term-contested"
    assert (await worker.send("k-2")).problem == "term-contested"
    worker.office.clock.advance(seconds=61)
    assert (await worker.send("k-3", "a")).problem == "term-contested"


async def test_only_the_leader_claims_for_another(leader: Hand, worker: Hand):
    assert (await worker.claim(worker="w#2")).problem == "term-contested"

    got = await leader.claim(worker="w#2", limit=1)

    assert got.json["items"][0]["worker"] == "w#2"
    assert (await leader.but(holder="w#2").send("k-1", "a")).status == 200


async def test_a_checkpoint_names_the_version_that_it_was_made_on(worker: Hand):
    await worker.claim(limit=1)

    absent = await worker.checkpoint("a", None, {})
    assert (absent.status, absent.problem, absent.json["missing"]) == (
        428, "fence-missing", ["If-Match"],
    )  # fmt: skip
    for wrong in ('W/"0"', "*", '"x"', '"0", "1"', "-1", ""):
        assert (await worker.checkpoint("a", wrong, {})).problem == "malformed"
    assert (await worker.checkpoint("a", "0", {"page": 1})).status == 200
    again = await worker.checkpoint("a", '"0"', {"page": 1})
    assert (again.status, again.headers["ETag"]) == (200, '"1"')
    other = await worker.checkpoint("a", '"0"', {"page": 9})
    assert (other.status, other.problem, other.json["version"]) == (412, "version-conflict", 1)
    assert (await worker.checkpoint("z", '"0"', {})).problem == "item-unknown"
    assert (await worker.checkpoint("b", '"0"', {})).problem == "not-claimed"
    assert (await worker.checkpoint("a", '"1"', {}, **{"Fence-Item": "b"})).problem == "malformed"
    assert (await worker.items())["items"][0]["checkpoint"] == {"page": 1}


async def test_a_unit_with_open_ends_is_not_completed(leader: Hand, worker: Hand):
    await worker.claim(limit=1)
    refused = await leader.post("complete", manifest_digest="0" * 64)

    assert (refused.status, refused.problem) == (409, "unit-unfinished")
    assert refused.json["reasons"][1:] == ["2 of 3 items are pending", "1 of 3 items are claimed"]
    assert refused.json["items"]["claimed"] == 1
    assert refused.headers["X-Should-Retry"] == "false"

    await worker.claim(limit=3)
    await worker.report(*((item, "done", 1) for item in "abc"))
    digest = (await leader.shown())["manifest_digest"]
    done = await leader.post("complete", manifest_digest=digest, result={"sum": 3})
    again = await leader.post("complete", manifest_digest=digest, result={"sum": 3})
    assert (done.status, again.status) == (200, 200)
    assert (done.json["state"], done.json["result"]) == ("unit-completed", {"sum": 3})
    assert (await leader.send("k-9")).problem == "unit-closed"
    assert (await worker.claim()).problem == "unit-closed"


async def test_an_older_leader_is_refused_like_for_an_effect(leader: Hand, worker: Hand):
    await worker.claim()
    successor = leader.but(term=8, holder="bo#1")
    assert (await successor.create()).status == 200

    for got in (
        await leader.create(), await leader.claim(), await leader.post("complete"),
        await worker.report(("a", "done", 1)), await worker.checkpoint("a", '"0"', {}),
        await leader.post("abandon", reason="r"),
    ):  # fmt: skip
        assert (got.status, got.problem, got.json["highest_term"]) == (412, "stale-term", 8)

    taken = await successor.claim()
    assert [one["attempt"] for one in taken.json["items"]] == [2, 2, 2]
    metrics = (await leader.office.house.get("/metrics")).body.decode()
    assert 'fencegate_units_resumed_total{function="carga"} 1.0' in metrics
    assert 'fencegate_items_resumed_total{function="carga"} 3.0' in metrics
    assert 'fencegate_refusals_total{reason="stale-term"} 6.0' in metrics


async def test_each_unit_may_have_a_leader_of_its_own(office: Office):
    acquired = await office.house.post(
        "/v1/leases/carteira/acquire", {"holder": "ana#1", "unit": "u-1"}
    )
    leader = Hand(office, unit="u-1", function="carteira", term=acquired.json["term"])

    assert (await leader.create()).status == 201
    assert (await leader.but(unit="u-2").create()).problem == "term-never-issued"
    assert (await leader.but(holder="bo#1").create()).problem == "not-holder"
    office.clock.advance(seconds=20)
    assert (await leader.claim()).problem == "lease-expired"


async def test_what_is_missing_or_not_in_its_form_is_named(leader: Hand):
    none = await leader.ask("POST", "/claim", {"ttl_s": 1}, {})
    assert (none.status, none.json["missing"]) == (
        428, ["Fence-Function", "Fence-Term", "Fence-Holder"],
    )  # fmt: skip
    some = await leader.ask("POST", "/claim", {"ttl_s": 1}, {"Fence-Function": "carga"})
    assert some.json["missing"] == ["Fence-Term", "Fence-Holder"]
    other = await leader.ask("POST", "/claim", {"ttl_s": 1}, leader.fence | {"Fence-Unit": "u"})
    assert (other.status, other.problem) == (400, "malformed")
    assert (await leader.but(unit="a b".replace(" ", "%20")).create()).problem == "malformed"
    assert (await leader.but(function="nix").claim()).problem == "function-unknown"
    assert (await leader.create(function="relatorio")).problem == "malformed"
    assert (await leader.but(function="relatorio", term=7).create()).problem == "unit-taken"


@pytest.mark.parametrize(
    ("verb", "body", "named"),
    [
        ("claim", {}, "ttl_s"),
        ("claim", {"ttl_s": 0}, "ttl_s"),
        ("claim", {"ttl_s": 1, "limit": 1001}, "limit"),
        ("claim", {"ttl_s": 1, "limit": "2"}, "limit"),
        ("claim", {"ttl_s": 1, "worker": "a b"}, "worker"),
        ("report", {"results": []}, "results"),
        ("report", {"results": [{"item": "a", "state": "pending", "attempt": 1}]}, "state"),
        ("report", {"results": [{"item": "a", "state": "done"}]}, "attempt"),
        ("report", {"results": [{"item": "a", "state": "done", "attempt": 1}] * 2}, "twice"),
        ("complete", {"manifest_digest": "abc"}, "manifest_digest"),
        ("abandon", {"reason": " "}, "reason"),
        ("abandon", {}, "reason"),
    ],
)
async def test_a_body_that_does_not_fit_is_malformed(
    leader: Hand, verb: str, body: dict[str, Any], named: str
):
    got = await leader.post(verb, **body)

    assert (got.status, got.problem) == (400, "malformed")
    assert named in got.json["detail"]
    assert (await leader.shown())["items"]["pending"] == 3


@pytest.mark.parametrize(
    ("items", "named"),
    [
        (["a", "a"], "manifest.items.1.id is 'a'"),
        (["a b"], "manifest.items.0.id is 'a b'"),
        ([{"id": 7}], "manifest.items.0"),
        ([{"data": 1}], "manifest.items.0"),
        ([{"id": "a", "size": 1}], "'size'"),
        ([["a"]], "manifest.items.0"),
        ([None], "manifest.items.0"),
        (["a"] * (MAX_ITEMS + 1), str(MAX_ITEMS)),
    ],
)
async def test_an_item_that_does_not_fit_is_named(office: Office, items: Any, named: str):
    got = await Hand(office).create(items)

    assert (got.status, got.problem) == (400, "malformed")
    assert named in got.json["detail"]


async def test_what_is_nested_too_deeply_is_turned_away(leader: Hand, worker: Hand):
    deep: Any = 1
    for _ in range(600):
        deep = [deep]
    await worker.claim()

    for got in (
        await leader.but(unit="deep").create([{"id": "a", "data": deep}]),
        await leader.but(unit="deep").create(manifest=manifest(sources=deep)),
        await leader.post("complete", result=deep),
        await worker.checkpoint("a", '"0"', deep),
        await worker.report(("a", "done", 1), result=deep),
    ):
        assert (got.status, got.problem) == (400, "malformed")


async def test_ten_thousand_items_are_laid_down_and_one_byte_too_many_is_not(office: Office):
    leader = Hand(office)
    got = await leader.create([{"id": f"i-{n}", "data": {"n": n}} for n in range(10_000)])
    assert (got.status, got.json["items"]["total"]) == (201, 10_000)

    large = await leader.ask("PUT", "", b" " * (PLAN_MAX_BYTES + 1))
    assert (large.status, large.problem) == (413, "body-too-large")
    assert large.json["limit_bytes"] == PLAN_MAX_BYTES


@pytest.mark.parametrize(
    ("changes", "problem"),
    [({"term": 6}, "stale-term"), ({"holder": "bo#1"}, "term-contested")],
)
async def test_the_plan_of_a_leader_that_is_refused_is_not_parsed(
    leader: Hand, changes: Any, problem: str
):
    other = leader.but(unit="carga:2026-10-03")

    refused = await other.but(**changes).ask("PUT", "", b"{no JSON at all")
    heard = await other.ask("PUT", "", b"{no JSON at all")

    assert (refused.status, refused.problem) == (412, problem)
    assert (heard.status, heard.problem) == (400, "malformed")
    assert (await other.ask("GET", "", headers={})).problem == "not-found"


async def test_asking_whether_one_is_heard_counts_no_refusal(office: Office):
    assert (await Hand(office).create()).status == 201

    metrics = (await office.house.get("/metrics")).body.decode()
    refused = [line for line in metrics.splitlines() if "unit-unknown" in line]
    assert [line for line in refused if not line.endswith(" 0.0")] == []


async def test_items_are_listed_in_the_manifests_order_page_by_page(leader: Hand, worker: Hand):
    await worker.claim(limit=1)
    first = await leader.items("?limit=2")
    second = await leader.items(f"?limit=2&after={first['next']}")

    assert [one["item"] for one in first["items"]] == ["a", "b"]
    assert ([one["item"] for one in second["items"]], second["next"]) == (["c"], None)
    assert [one["item"] for one in (await leader.items("?state=claimed"))["items"]] == ["a"]
    for query in ("?state=x", "?after=x", "?limit=0", "?nix=1"):
        assert (await leader.ask("GET", f"/items{query}", headers={})).problem == "malformed"


async def test_units_are_listed_newest_first_by_how_they_stand(office: Office):
    for n in range(5):
        office.clock.advance(ms=1)
        await Hand(office, unit=f"u-{n}").create("")
    await Hand(office, unit="u-1").post("complete")

    async def listed(query: str) -> tuple[list[str], str | None]:
        page = (await office.house.get(f"/v1/units{query}")).json
        return [one["unit"] for one in page["items"]], page["next"]

    names, cursor = await listed("?limit=3")
    assert names == ["u-4", "u-3", "u-2"]
    assert await listed(f"?limit=3&cursor={cursor}") == (["u-1", "u-0"], None)
    assert await listed("?state=unit-completed") == (["u-1"], None)
    assert await listed("?function=relatorio") == ([], None)
    for query in ("?state=open", "?cursor=x", "?limit=501", "?unit=u"):
        assert (await office.house.get(f"/v1/units{query}")).problem == "malformed"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/v1/units", "GET, HEAD"),
        ("DELETE", "/v1/units/u", "GET, HEAD, PUT"),
        ("POST", "/v1/units/u/items", "GET, HEAD"),
        ("GET", "/v1/units/u/claim", "POST"),
        ("POST", "/v1/units/u/items/a/checkpoint", "PUT"),
    ],
)
async def test_another_method_is_told_which_ones_there_are(
    office: Office, method: str, path: str, allow: str
):
    async with office.house.session.request(method, f"{office.house.url}{path}") as got:
        assert (got.status, got.headers["Allow"]) == (405, allow)


async def test_the_state_of_units_and_items_is_counted(leader: Hand, worker: Hand):
    await worker.claim(limit=2)
    await Hand(leader.office, unit="u-2").create("")
    await Hand(leader.office, unit="u-2").post("complete")

    census = await (await leader.office.panel.ledger.reader()).census()
    leader.office.panel.work_metrics.counted(census.units, census.items)

    metrics = (await leader.office.house.get("/metrics")).body.decode()
    for line in (
        'fencegate_units{state="unit-processing"} 1.0',
        'fencegate_units{state="unit-completed"} 1.0',
        'fencegate_unit_items{state="claimed"} 2.0',
        'fencegate_unit_items{state="pending"} 1.0',
    ):
        assert line in metrics
