"""The verbs of a lease over HTTP: what each answers, to whom, and what it leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.wire.leadership import LeaseOut, LeasePage
from tests.control.leading import Leader, lease_of
from tests.control.office import Office, said_by
from tests.proxy.setting import eventually

TTL_S = 20.0
POLITE_S = 5.0


async def test_a_grant_is_201_and_the_same_grant_again_200(leased: Office) -> None:
    ana = Leader(leased)

    first = await ana.acquire()
    leased.clock.advance(seconds=4)
    again = await ana.acquire()

    shown = LeaseOut.model_validate(first.json)
    assert (first.status, again.status) == (201, 200)
    assert first.headers["Location"] == "/v1/leases/ronda"
    assert first.headers["Cache-Control"] == "no-store"
    assert (shown.holder, shown.term, shown.state) == ("ana#1", 1, "leader-acquired")
    assert (shown.remaining_ms, shown.duration_ms, shown.transitions) == (20_000, 20_000, 1)
    assert (again.json["term"], again.json["remaining_ms"]) == (1, 16_000)
    assert again.json["version"] == first.json["version"]


async def test_another_is_told_who_leads_and_until_when(leased: Office) -> None:
    await Leader(leased).acquire()
    leased.clock.advance(seconds=5)

    got = await Leader(leased, "bo#1").acquire()

    assert (got.status, got.problem) == (409, "lease-held")
    assert got.headers["X-Should-Retry"] == "false"
    said = got.json
    assert (said["holder"], said["term"], said["remaining_ms"]) == ("ana#1", 1, 15_000)
    assert said["retry_after_ms"] == 15_000
    assert said["expires_at"] == (await lease_of(leased))["expires_at"]
    assert "ana#1 leads under term 1" in said["detail"]


async def test_a_renewal_extends_and_wakes_nobody(leased: Office) -> None:
    ana = Leader(leased)
    before = (await ana.acquire()).json
    leased.clock.advance(seconds=5)

    got = await ana.named("renew")

    assert (got.status, got.json["remaining_ms"]) == (200, 20_000)
    assert got.json["state"] == "leader-renewing"
    assert got.json["version"] == before["version"]


@pytest.mark.parametrize("how", ["late", "term", "holder"])
async def test_what_is_not_exactly_a_live_lease_is_not_renewed(leased: Office, how: str) -> None:
    ana = Leader(leased)
    await ana.acquire()
    more: dict[str, Any] = {"term": {"term": 2}, "holder": {"holder": "ana#2"}}.get(how, {})
    if how == "late":
        leased.clock.advance(seconds=TTL_S)

    got = await ana.named("renew", **more)

    assert (got.status, got.problem) == (410, "lease-gone")
    assert "Stop all exclusive work now" in got.json["detail"]


async def test_a_release_names_its_term_and_can_be_repeated(leased: Office) -> None:
    ana = Leader(leased)
    await ana.acquire()

    other = await ana.named("release", term=2)
    done = await ana.named("release")
    again = await ana.named("release")

    assert (other.status, other.problem) == (409, "not-holder")
    assert other.headers["X-Should-Retry"] == "false"
    assert "Nothing was changed" in other.json["detail"]
    assert (done.status, done.json["reason"], done.json["holder"]) == (200, "released", None)
    assert (again.status, again.json["version"]) == (200, done.json["version"])
    assert done.json["last_holder"] == "ana#1"


async def test_the_next_grant_has_the_next_term(leased: Office) -> None:
    for n in range(1, 4):
        leader = Leader(leased, f"ana#{n}")
        assert (await leader.acquire()).json["term"] == n
        await leader.named("release")
        await leader.withdraw()


async def test_a_restarted_worker_takes_over_from_itself_only_by_saying_so(leased: Office) -> None:
    await Leader(leased, "ana#1").acquire()
    restarted = Leader(leased, "ana#2")

    held = await restarted.acquire()
    taken = await restarted.acquire(supersede=True)

    assert held.problem == "lease-held"
    assert (taken.status, taken.json["term"], taken.json["holder"]) == (201, 2, "ana#2")


async def test_stepping_down_lets_what_is_in_flight_settle(leased: Office) -> None:
    ana = Leader(leased)
    await ana.acquire()
    await leased.in_flight("k-slow", function="ronda", term=1)

    refused = await leased.house.post("/v1/leases/ronda/step-down", {"holder": "ana#1", "term": 2})
    got = await ana.named("step-down")
    key = await leased.send("k-new", function="ronda", term=1)
    await leased.land()

    assert (refused.status, refused.problem) == (409, "not-holder")
    assert (got.status, got.json["draining"], got.json["in_flight"]) == (200, True, 1)
    assert key.problem == "leader-draining"

    async def drained() -> bool:
        leased.clock.advance(ms=50)
        return bool((await lease_of(leased))["reason"] == "drained")

    await eventually(drained)


@pytest.mark.parametrize(("drain_s", "status"), [(0, 200), (1.5, 200), (3600, 200), (3601, 400)])
async def test_draining_is_bounded(leased: Office, drain_s: float, status: int) -> None:
    ana = Leader(leased)
    await ana.acquire()

    assert (await ana.named("step-down", drain_s=drain_s)).status == status


async def test_a_hand_off_grants_the_next_term_to_a_candidate_that_may_lead(
    leased: Office,
) -> None:
    ana, bo = Leader(leased, function="plantao"), Leader(leased, "bo#1", function="plantao")
    candidate = {"version": "2026.10", "region": "", "ready": True, "priority": 0}
    await ana.acquire(candidate=candidate)

    nobody = await ana.named("hand-off", to="bo#1")
    await bo.report(version="2026.9")
    old = await ana.named("hand-off", to="bo#1")
    await bo.report()
    done = await ana.named("hand-off", to="bo")
    again = await ana.named("hand-off", to="bo")

    assert [(got.status, got.problem) for got in (nobody, old)] == [(409, "not-eligible")] * 2
    assert "the lease is as it was" in nobody.json["detail"]
    assert "'2026.9'" in old.json["reasons"][0]
    assert (done.status, done.json["holder"], done.json["term"]) == (200, "bo#1", 2)
    assert (again.status, again.json["term"]) == (200, 2)
    assert (await ana.named("renew")).problem == "lease-gone"


async def test_who_may_not_lead_is_told_why(leased: Office) -> None:
    ana = Leader(leased, function="plantao")

    got = await ana.acquire(candidate={"version": "2026.9", "ready": True})

    assert (got.status, got.problem) == (409, "not-eligible")
    assert got.headers["X-Should-Retry"] == "false"
    assert "'2026.9'" in got.json["reasons"][0]
    assert ">=2026.10" in got.json["detail"]


async def test_a_better_candidate_is_left_its_turn_for_a_while(leased: Office) -> None:
    bo = Leader(leased, "bo#1")
    await Leader(leased, "ana#1").report(priority=5)

    first = await bo.acquire()
    leased.clock.advance(seconds=POLITE_S)
    second = await bo.acquire()

    assert (first.status, first.problem) == (409, "not-preferred")
    assert first.json["preferred"] == "ana#1"
    assert first.json["retry_after_ms"] == POLITE_S * 1000
    assert first.headers["Retry-After"] == "5"
    assert "X-Should-Retry" not in first.headers
    assert (second.status, second.json["holder"]) == (201, "bo#1")


async def test_each_unit_has_a_leader_of_its_own(leased: Office) -> None:
    ana = Leader(leased, function="carteira", unit="u-1")
    bo = Leader(leased, "bo#1", function="carteira", unit="u-2")
    await ana.withdraw()

    first, second = await ana.acquire(), await bo.acquire()
    if second.problem == "not-preferred":
        leased.clock.advance(seconds=POLITE_S)
        second = await bo.acquire()

    assert (first.json["unit"], first.json["term"]) == ("u-1", 1)
    assert (second.json["unit"], second.json["term"]) == ("u-2", 1)
    assert first.headers["Location"] == "/v1/leases/carteira?unit=u-1"


@pytest.mark.parametrize(
    ("function", "body", "status", "slug", "said"),
    [
        ("carteira", {"holder": "a#1"}, 400, "malformed", "leadership: unit"),
        ("ronda", {"holder": "a#1", "unit": "u"}, 400, "malformed", "leadership: function"),
        ("relatorio", {"holder": "a#1"}, 400, "malformed", "authority: external"),
        ("nobody", {"holder": "a#1"}, 403, "function-unknown", "'nobody'"),
        ("ronda", {"holder": "a 1"}, 400, "malformed", "'a 1'"),
        ("carteira", {"holder": "a#1", "unit": "u/1"}, 400, "malformed", "'u/1'"),
        ("ronda", {}, 400, "malformed", "holder"),
        ("ronda", {"holder": "a#1", "ttl": 5}, 400, "malformed", "ttl"),
        ("ronda", {"holder": 1}, 400, "malformed", "holder is '1'"),
        ("ronda", {"holder": "a#1", "candidate": {"version": "a\nb"}}, 400, "malformed", "version"),
        ("ronda", [], 400, "malformed", "the body"),
    ],
)
async def test_what_cannot_be_meant_is_told_with_its_value(
    leased: Office, function: str, body: Any, status: int, slug: str, said: str
) -> None:
    got = await leased.house.post(f"/v1/leases/{function}/acquire", body)

    assert (got.status, got.problem) == (status, slug)
    assert said in got.json["detail"]


@pytest.mark.parametrize("term", [0, -1, 2**53, "1", 1.5, True, None])
async def test_a_term_is_a_number(leased: Office, term: object) -> None:
    got = await Leader(leased).ask("renew", term=term)

    assert (got.status, got.problem) == (400, "malformed")
    assert "term" in got.json["detail"]


@pytest.mark.parametrize("verb", ["acquire", "renew", "release", "step-down", "hand-off"])
@pytest.mark.parametrize(("by", "status"), [("vera", 403), ("bo", 403), ("nobody", 401)])
async def test_leadership_gives_no_permission(
    guarded: Office, verb: str, by: str, status: int
) -> None:
    got = await Leader(guarded, by=by).ask(verb, term=1, to="x#1")

    assert got.status == status


async def test_a_lease_is_its_principals_and_an_operator_may_end_it(guarded: Office) -> None:
    await Leader(guarded, by="ana").acquire()
    rui, olga = Leader(guarded, by="rui", term=1), Leader(guarded, by="olga", term=1)

    taken = [await rui.named(verb) for verb in ("renew", "release", "step-down")]
    grant = await Leader(guarded, by="rui").acquire()
    kept = await olga.named("renew")
    wrong = await olga.named("release", holder="ana#2")
    done = await olga.named("release")

    assert [got.status for got in taken] == [410, 409, 409]
    assert grant.problem == "lease-held"
    assert kept.problem == "lease-gone"
    assert wrong.problem == "not-holder"
    assert (done.status, done.json["reason"]) == (200, "released")


@pytest.mark.parametrize(
    ("by", "functions"),
    [("ana", ["ronda"]), ("bo", ["plantao"]), ("vera", ["carteira", "plantao", "ronda"])],
)
async def test_leases_are_seen_within_ones_functions(
    guarded: Office, by: str, functions: list[str]
) -> None:
    await Leader(guarded, by="ana").acquire()
    await Leader(guarded, "o#1", "carteira", "u-1", by="olga").acquire()

    got = await guarded.house.get("/v1/leases", **said_by(by))

    assert [item["function"] for item in got.json["items"]] == functions
    for name in ("plantao", "ronda"):
        alone = await guarded.house.get(f"/v1/leases/{name}", **said_by(by))
        assert alone.status == (200 if name in functions else 404)


async def test_a_list_of_leases_is_paged(leased: Office) -> None:
    for n in range(3):
        await Leader(leased, "ana#1", "carteira", f"u-{n}").acquire()

    seen: list[tuple[str, str | None]] = []
    cursor = ""
    while True:
        got = await leased.house.get(f"/v1/leases?limit=2{cursor}")
        page = LeasePage.model_validate(got.json)
        seen += [(item.function, item.unit) for item in page.items]
        if page.next is None:
            break
        cursor = f"&cursor={page.next}"

    units = [("carteira", f"u-{n}") for n in range(3)]
    assert seen == [*units, ("plantao", None), ("ronda", None)]
    only = (await leased.house.get("/v1/leases?function=ronda")).json["items"]
    assert [(item["function"], item["state"]) for item in only] == [("ronda", "candidate")]


async def test_a_caller_that_leaves_has_its_lease_all_the_same(leased: Office) -> None:
    """The grant stands, and asking again returns it."""
    ledger = leased.panel.ledger
    began, gate = asyncio.Event(), asyncio.Event()
    acquire = ledger.acquire

    async def slow(*args: Any, **more: Any) -> Any:
        began.set()
        await gate.wait()
        return await acquire(*args, **more)

    ledger.acquire = slow
    asked = asyncio.ensure_future(Leader(leased).acquire())
    await began.wait()
    asked.cancel()
    await asyncio.wait([asked])

    await until_left(leased)
    gate.set()

    async def granted() -> bool:
        return bool((await lease_of(leased))["holder"] == "ana#1")

    await eventually(granted)
    ledger.acquire = acquire
    again = await Leader(leased).acquire()
    assert (again.status, again.json["term"], again.json["transitions"]) == (200, 1, 1)


async def until_left(office: Office) -> None:
    """Wait until the gateway has noticed that nobody is connected any more."""
    server = office.house.gateway._runner.server

    async def nobody() -> bool:
        return not server.connections

    await eventually(nobody)
