"""The long poll: followers hear of a change at once, and do not all ask in the same moment."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gateway.control.following import attempt_after_ms
from gateway.core.candidates import Candidate, Eligibility
from gateway.core.ids import Scope
from gateway.core.lease import Ended, Lease, LeaseRules, heirs
from gateway.store.lease_records import CandidateRecord, FunctionTerms, LeaseRecord
from tests.control.leading import Leader, lease_of
from tests.control.office import Office
from tests.proxy.setting import eventually

NOW_MS = 1_000_000


async def listening(office: Office, count: int = 1) -> None:
    """Wait until that many followers wait for the bell."""
    bell = office.panel.ledger.bell

    async def all_there() -> bool:
        return sum(map(len, bell._of_scope.values())) == count

    await eventually(all_there)


async def test_a_known_version_is_waited_beyond(leased: Office) -> None:
    ana = Leader(leased)
    version = (await ana.acquire()).json["version"]
    waiting = asyncio.ensure_future(lease_of(leased, query=f"?wait_s=30&after_version={version}"))
    await listening(leased)
    await ana.named("renew")
    assert not waiting.done()

    await ana.named("release")

    told = await asyncio.wait_for(waiting, 5)
    assert (told["holder"], told["reason"]) == (None, "released")
    assert told["version"] > version


@pytest.mark.parametrize("query", ["", "?wait_s=30&after_version=0", "?after_version=9"])
async def test_another_version_is_told_at_once(leased: Office, query: str) -> None:
    await Leader(leased).acquire()
    began_s = time.monotonic()

    told = await lease_of(leased, query=query)

    assert told["holder"] == "ana#1"
    assert time.monotonic() - began_s < 5


async def test_without_a_version_the_next_change_is_waited_for(leased: Office) -> None:
    waiting = asyncio.ensure_future(lease_of(leased, query="?wait_s=30"))
    await listening(leased)

    await Leader(leased).acquire()

    assert (await asyncio.wait_for(waiting, 5))["holder"] == "ana#1"


async def test_a_wait_ends_with_its_time(leased: Office) -> None:
    told = await lease_of(leased, query="?wait_s=0.1&after_version=0")

    assert (told["state"], told["version"], told["term"]) == ("candidate", 0, 0)
    assert told["attempt_in_ms"] is not None


async def test_an_expiry_is_heard_though_nobody_asks(leased: Office) -> None:
    version = (await Leader(leased).acquire()).json["version"]
    waiting = asyncio.ensure_future(lease_of(leased, query=f"?wait_s=30&after_version={version}"))
    await listening(leased)

    leased.clock.advance(seconds=20)

    told = await asyncio.wait_for(waiting, 5)
    assert (told["holder"], told["state"], told["reason"]) == (None, "leader-lost", "expired")


async def test_other_scopes_wake_nobody(leased: Office) -> None:
    waiting = asyncio.ensure_future(
        lease_of(leased, "carteira", "?unit=u-1&wait_s=0.5&after_version=0")
    )
    await listening(leased)
    reads = 0
    reader = await leased.panel.ledger.reader()
    lease = reader.lease

    async def counted(*args: Any) -> Any:
        nonlocal reads
        reads += 1
        return await lease(*args)

    reader.lease = counted
    for n in range(5):
        await Leader(leased, function="carteira", unit=f"other-{n}").acquire()

    assert (await waiting)["unit"] == "u-1"
    assert reads <= 1


async def test_two_hundred_followers_hear_of_one_change(leased: Office) -> None:
    ana = Leader(leased)
    version = (await ana.acquire()).json["version"]
    query = f"?wait_s=30&after_version={version}&holder="
    waiting = [
        asyncio.ensure_future(lease_of(leased, query=f"{query}follower-{n}%231"))
        for n in range(200)
    ]
    await listening(leased, 200)
    began_s = time.monotonic()

    await ana.named("release")
    told = await asyncio.wait_for(asyncio.gather(*waiting), 20)

    print(f"200 followers heard within {time.monotonic() - began_s:.2f} s")
    assert {each["reason"] for each in told} == {"released"}
    assert len({each["attempt_in_ms"] for each in told}) > 20


async def test_a_caller_that_leaves_is_not_waited_for(leased: Office) -> None:
    waiting = asyncio.ensure_future(lease_of(leased, query="?wait_s=30"))
    await listening(leased)

    waiting.cancel()

    await listening(leased, 0)


async def test_a_gateway_that_stops_lets_nobody_wait(leased: Office) -> None:
    waiting = asyncio.ensure_future(leased.house.get("/v1/leases/ronda?wait_s=30"))
    await listening(leased)

    await leased.house.gateway.drain(asyncio.Event())

    got = await asyncio.wait_for(waiting, 5)
    assert (got.status, got.problem) == (503, "draining")
    assert got.headers["Retry-After"]
    assert (await lease_of(leased))["state"] == "candidate"


async def test_a_leader_may_renew_and_release_while_the_gateway_drains(leased: Office) -> None:
    ana = Leader(leased)
    await ana.acquire()
    await leased.house.gateway.drain(asyncio.Event())

    assert (await ana.named("renew")).status == 200
    assert (await ana.named("release")).status == 200


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?wait_s=-1", "'-1'"),
        ("?wait_s=soon", "'soon'"),
        ("?after_version=1.5", "'1.5'"),
        ("?after_version=99999999999999999999", "after_version"),
        ("?holder=a%20b", "'a b'"),
        ("?unit=u-1", "leadership: function"),
        ("?brew=1", "'brew'"),
        ("?wait_s=1&wait_s=2", "2 times"),
    ],
)
async def test_a_query_that_means_nothing_is_malformed(
    leased: Office, query: str, said: str
) -> None:
    got = await leased.house.get(f"/v1/leases/ronda{query}")

    assert (got.status, got.problem) == (400, "malformed")
    assert said in got.json["detail"]


# -- when to ask


RULES = LeaseRules()


def free_since(ms_ago: int | None) -> LeaseRecord:
    lease = None
    if ms_ago is not None:
        lease = Lease(
            term=1,
            holder="old#1",
            principal="p",
            acquired_at_ms=0,
            renewed_at_ms=0,
            expires_at_ms=NOW_MS,
            duration_ms=20_000,
            ended=Ended.RELEASED,
            ended_at_ms=NOW_MS - ms_ago,
        )
    return LeaseRecord(
        scope=Scope("f"), last_term=1, lease=lease, version=1, transitions=1, now_ms=NOW_MS
    )


def reporting(*holders: str) -> list[CandidateRecord]:
    return [
        CandidateRecord("f", Candidate(holder=h, principal="p", reported_at_ms=NOW_MS), 0)
        for h in holders
    ]


def attempt(holder: str | None, record: LeaseRecord, *holders: str) -> int:
    terms = FunctionTerms(rules=RULES, eligible=Eligibility())
    found = reporting(*holders)
    every = [one.candidate for one in found]
    ranked = heirs(record.lease, every, record.now_ms, RULES, terms.eligible)
    return attempt_after_ms(record, found, ranked, terms, holder)


def test_the_best_candidate_asks_at_once():
    assert attempt("a#1", free_since(0), "a#1", "b#1") == 0


def test_the_second_asks_when_the_first_has_had_its_turn():
    assert RULES.prefer_for_ms <= attempt("b#1", free_since(0), "a#1", "b#1")
    assert attempt("b#1", free_since(0), "a#1", "b#1") <= RULES.prefer_for_ms + 50
    assert attempt("b#1", free_since(RULES.prefer_for_ms), "a#1", "b#1") <= 50


def test_many_followers_ask_one_after_the_other():
    holders = [f"w{n:03}#1" for n in range(200)]
    record = free_since(RULES.prefer_for_ms)

    waits = [attempt(holder, record, *holders) for holder in holders]

    assert waits[0] == 0
    assert max(waits) <= RULES.prefer_for_ms + 50
    busiest = max(sum(at <= w < at + 100 for w in waits) for at in range(0, 5000, 100))
    assert busiest <= 12


@pytest.mark.parametrize("holder", ["z#1", None])
def test_who_does_not_report_comes_last(holder: str | None):
    assert attempt(holder, free_since(0), "a#1", "b#1") >= RULES.prefer_for_ms


def test_where_nobody_reports_nobody_is_waited_for():
    waits = {attempt("z#1", free_since(0)) for _ in range(50)}

    assert max(waits) <= 1000
    assert len(waits) > 10
