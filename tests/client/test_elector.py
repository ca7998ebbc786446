"""Following: when a worker asks, what it believes, and how it takes its leave."""

from __future__ import annotations

import asyncio

import pytest

from gateway.client.control import CandidateReport
from gateway.client.elector import Elector
from gateway.client.errors import Forbidden, Malformed
from tests.client.conftest import MakeElector
from tests.client.hand_clock import HandClock, until
from tests.client.script import DROP, Asked, Reply, Script, problem
from tests.client.working import led


async def test_a_worker_leads_a_free_scope_under_the_term_it_is_granted(
    elect: MakeElector, script: Script, clock: HandClock
):
    async with elect(candidate=CandidateReport(version="2026.10", priority=3)) as elector:
        leadership = await led(elector, clock)

        assert (leadership.term, leadership.holder) == (1, "ana#1")
        assert script.of("acquire")[0].json == {
            "holder": "ana#1",
            "candidate": {"version": "2026.10", "region": "", "ready": True, "priority": 3},
        }
        assert script.of("acquire")[0].headers["fence-authorization"] == "Bearer t-1"


async def test_each_elector_is_an_incarnation_of_its_own(elect: MakeElector):
    one, other = elect(incarnation=None), elect(incarnation=None)

    assert one.holder != other.holder
    assert {len(holder.partition("#")[2]) for holder in (one.holder, other.holder)} == {12}


async def test_a_unit_and_a_takeover_from_itself_are_asked_for(
    elect: MakeElector, script: Script, clock: HandClock
):
    async with elect(unit="2026-11-30", supersede=True) as elector:
        await led(elector, clock)

    said = script.of("acquire")[0].json
    assert (said["unit"], said["supersede"]) == ("2026-11-30", True)
    assert script.of("release")[0].json["unit"] == "2026-11-30"


async def test_a_follower_hears_of_a_release_by_long_poll(
    elect: MakeElector, script: Script, clock: HandClock
):
    script.grant("bo#1")
    async with elect() as elector:
        following = asyncio.ensure_future(anext(elector))
        await until(lambda: any("wait_s" in look.query for look in script.of("look")))
        poll = script.of("look")[-1].query

        script.grant(None)
        await clock.until(following.done)

        assert poll["after_version"] == "1"
        assert poll["holder"] == "ana#1"
        assert 0 < float(poll["wait_s"]) <= 30
        assert following.result().term == 2


async def test_a_follower_takes_over_when_the_lease_expires(
    elect: MakeElector, script: Script, clock: HandClock
):
    script.grant("bo#1")
    began_s = clock.boot_s()
    async with elect() as elector:
        leadership = await led(elector, clock)

    assert leadership.term == 2
    assert clock.boot_s() - began_s >= 20


async def test_a_follower_polls_on_for_as_long_as_it_is_told_to_wait(
    elect: MakeElector, script: Script, clock: HandClock
):
    script.then("acquire", problem("not-preferred", 409, retry_after_ms=1000, preferred="bo"))
    script.attempt_in_ms = 3000
    began_s = clock.boot_s()
    async with elect() as elector:
        await led(elector, clock)

    polls = [float(look.query["wait_s"]) for look in script.of("look") if "wait_s" in look.query]
    assert polls[0] == pytest.approx(3.0, abs=0.2)
    assert clock.boot_s() - began_s >= 3.0


async def test_a_follower_that_waits_for_its_turn_wakes_up_when_somebody_else_takes_it(
    elect: MakeElector, script: Script, clock: HandClock
):
    script.then("acquire", problem("not-preferred", 409, retry_after_ms=9000, preferred="bo"))
    script.attempt_in_ms = 9000
    async with elect() as elector:
        following = asyncio.ensure_future(anext(elector))
        await until(lambda: any("wait_s" in look.query for look in script.of("look")))

        script.grant("bo#1")
        await until(lambda: script.of("look")[-1].query.get("after_version") == "1")

        assert len(script.of("acquire")) == 1
        assert not following.done()
        following.cancel()
        await asyncio.wait([following])


async def test_a_candidate_that_may_not_lead_does_not_ask_in_a_circle(
    elect: MakeElector, script: Script, clock: HandClock
):
    refusal = problem("not-eligible", 409, reasons=["version 1 is not >=2"])
    script.then("acquire", *[refusal] * 3)
    began_s = clock.boot_s()
    async with elect() as elector:
        leadership = await led(elector, clock)

        assert leadership.term == 1
        assert len(script.of("acquire")) == 4
        assert clock.boot_s() - began_s >= 15
        assert elector.refusal is None


async def test_a_hand_off_is_taken_up_without_having_been_asked_for(
    elect: MakeElector, script: Script, clock: HandClock
):
    script.grant("bo#1")
    async with elect() as elector:
        following = asyncio.ensure_future(anext(elector))
        await until(lambda: any("wait_s" in look.query for look in script.of("look")))

        script.grant("ana#1")
        await clock.until(following.done)

        assert following.result().term == 2


async def test_an_unreachable_gateway_is_asked_again_later_and_later(
    elect: MakeElector, script: Script, clock: HandClock
):
    script.then("acquire", *[DROP] * 6)
    began_s = clock.boot_s()
    async with elect() as elector:
        leadership = await led(elector, clock)

    assert leadership.term == 1
    assert len(script.of("acquire")) == 7
    assert clock.boot_s() - began_s >= 0.5 * (0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 5)


async def test_a_principal_that_may_not_lead_is_told_so(elect: MakeElector, script: Script):
    script.then("acquire", problem("forbidden", 403))
    async with elect() as elector:
        with pytest.raises(Forbidden):
            await anext(elector)


async def test_a_grant_that_comes_too_late_is_renewed_before_it_is_believed(
    elect: MakeElector, script: Script, clock: HandClock
):
    async def late(asked: Asked) -> Reply:
        reply = await script.usual(asked)
        clock.now_s += 17.5
        return reply

    script.then("acquire", late)
    async with elect() as elector:
        leadership = await led(elector, clock)

        assert [asked.verb for asked in script.asked if asked.verb in ("acquire", "renew")] == [
            "acquire",
            "renew",
        ]
        assert leadership.remaining_s == pytest.approx(17, abs=0.5)


async def test_a_term_below_one_that_was_seen_is_not_believed(
    elect: MakeElector, script: Script, clock: HandClock
):
    script.then("acquire", problem("lease-held", 409, holder="bo#1", term=9))

    def old(asked: Asked) -> Reply:
        lease = script.lease() | {"holder": "ana#1", "term": 4, "remaining_ms": 20_000}
        return Reply(200, lease)

    script.then("acquire", old)
    script.term = 9
    async with elect() as elector:
        leadership = await led(elector, clock)

    assert leadership.term == 10


async def test_a_worker_reports_itself_three_times_while_a_report_is_fresh(
    elect: MakeElector, script: Script, clock: HandClock
):
    async with elect():
        await until(lambda: script.of("report"))

        await clock.until(lambda: len(script.of("report")) == 10)

        assert clock.boot_s() - 1000 == pytest.approx(9 * 4, rel=0.12)
        assert script.of("report")[0].path == "/v1/candidates/f/ana#1"


async def test_a_worker_says_at_once_that_it_is_not_ready(elect: MakeElector, script: Script):
    async with elect() as elector:
        await until(lambda: script.of("report"))

        await elector.report(ready=False)

        assert script.of("report")[-1].json["ready"] is False


async def test_a_worker_that_ends_releases_and_withdraws(
    elect: MakeElector, script: Script, clock: HandClock
):
    async with elect() as elector:
        leadership = await led(elector, clock)

    assert script.of("release")[0].json == {"holder": "ana#1", "term": 1}
    assert script.of("withdraw")[0].path == "/v1/candidates/f/ana#1"
    assert script.holder is None
    assert leadership.lost is not None


async def test_a_grant_whose_answer_was_never_read_is_released_all_the_same(
    elect: MakeElector, script: Script, clock: HandClock
):
    granted = asyncio.Event()

    async def unanswered(asked: Asked) -> Reply:
        await script.usual(asked)
        granted.set()
        await asyncio.Event().wait()
        return DROP

    script.then("acquire", unanswered)
    async with elect() as elector:
        following = asyncio.ensure_future(anext(elector))
        await granted.wait()
        following.cancel()
        await asyncio.wait([following])

    assert script.of("release")[0].json == {"holder": "ana#1", "term": 1}


async def test_the_next_leadership_has_another_term_than_the_one_that_ended(
    elect: MakeElector, script: Script, clock: HandClock
):
    async with elect() as elector:
        first = await led(elector, clock)

        second = await led(elector, clock)

        assert (first.term, second.term) == (1, 2)
        assert first.lost is not None
        assert second.lost is None


async def test_two_workers_never_lead_at_once(elect: MakeElector, script: Script, clock: HandClock):
    async with elect("ana") as ana, elect("bo") as bo:
        first = await led(ana, clock)
        following = asyncio.ensure_future(anext(bo))
        await clock.until(lambda: any("wait_s" in look.query for look in script.of("look")))

        await first.release()
        await clock.until(following.done)

        assert (first.remaining_s, following.result().term) == (0.0, 2)


def test_a_name_with_a_hash_is_refused(elect: MakeElector):
    with pytest.raises(Malformed, match="'ana#2'"):
        elect("ana#2")


def test_without_a_url_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FENCEGATE_URL", raising=False)
    with pytest.raises(ValueError, match="FENCEGATE_URL"):
        Elector(function="f", worker="ana")

    monkeypatch.setenv("FENCEGATE_URL", "http://127.0.0.1:1")
    assert Elector(function="f", worker="ana").state == "follower"
