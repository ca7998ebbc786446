"""How a leadership is lost, and what happens then, in which order."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from gateway.client.elector import Elector
from gateway.client.errors import LeadershipLost, StaleTerm
from tests.client.hand_clock import HandClock, until
from tests.client.script import DROP, Asked, Reply, Script, problem
from tests.client.working import Notes, body, led


async def test_a_leadership_is_renewed_for_as_long_as_it_lasts(
    elector: Elector, script: Script, clock: HandClock
):
    leadership = await led(elector, clock)
    began_s = clock.boot_s()

    await clock.until(lambda: len(script.of("renew")) == 20, step_s=0.2)

    assert clock.boot_s() - began_s == pytest.approx(20 * 5, rel=0.1)
    assert leadership.state == "leader-renewing"
    leadership.check()


async def test_renewals_of_two_workers_do_not_stay_in_step(
    elector: Elector, script: Script, clock: HandClock
):
    await led(elector, clock)
    at_s: list[float] = []
    for n in range(1, 6):
        await clock.until(lambda n=n: len(script.of("renew")) >= n)
        at_s.append(clock.boot_s())

    apart = {round(later - earlier, 2) for earlier, later in itertools.pairwise(at_s)}
    assert len(apart) > 1
    assert all(4.4 <= gap <= 5.8 for gap in apart)


async def test_a_renewal_without_answer_makes_it_uncertain_and_is_asked_again(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    script.then("renew", DROP, DROP)

    await clock.until(lambda: leadership.state == "leader-uncertain")
    leadership.check()
    await clock.until(lambda: leadership.state == "leader-renewing")

    assert {renew.json["term"] for renew in script.of("renew")} == {1}
    assert notes.said == ["start 1", "uncertain"]


async def test_without_a_renewal_the_body_is_cancelled_before_the_lease_expires(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    script.then("renew", *[DROP] * 100)
    working = asyncio.ensure_future(body(leadership, notes))

    await clock.until(working.done, step_s=0.1)

    assert working.result() == "went on"
    assert clock.boot_s() < script.expires_s
    await until(lambda: notes.said[-1] == "lost margin")
    assert notes.said == ["start 1", "uncertain", "cancelled", "lost margin"]
    with pytest.raises(LeadershipLost, match="margin"):
        leadership.check()


async def test_after_a_loss_the_worker_follows_again_and_leads_under_a_new_term(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    terms: list[int] = []
    script.then("renew", problem("lease-gone", 410))

    async def run() -> None:
        async for leadership in elector:
            async with leadership:
                terms.append(leadership.term)
                if len(terms) == 2:
                    break
                await asyncio.Event().wait()

    running = asyncio.ensure_future(run())
    await clock.until(running.done, step_s=0.1)

    running.result()
    assert terms == [1, 2]
    assert "lost lease-gone" in notes.said


async def test_a_renewal_that_answers_after_its_own_deadline_is_a_loss(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)

    async def late(asked: Asked) -> Reply:
        reply = await script.usual(asked)
        reply.content["remaining_ms"] = 3001  # what is left of it is less than the margin
        return reply

    script.then("renew", late)
    await clock.until(lambda: leadership.lost is not None)

    assert leadership.lost is not None
    assert leadership.lost.reason == "late-answer"


async def test_an_answer_under_way_does_not_hold_up_the_deadline(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    answered = asyncio.Event()

    async def held(asked: Asked) -> Reply:
        await answered.wait()
        return await script.usual(asked)

    leadership = await led(elector, clock)
    script.then("renew", held)
    await clock.until(lambda: script.of("renew"))

    await clock.advance(17)
    answered.set()
    await until(lambda: leadership.lost is not None)

    assert leadership.lost is not None
    assert leadership.lost.reason == "margin"
    assert leadership.remaining_s == 0


async def test_a_process_that_stood_still_past_its_lease_does_not_command(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)

    clock.jump(60)

    with pytest.raises(LeadershipLost):
        await leadership.effect("POST", "crm", "/contacts", key="k")
    await until(lambda: notes.said[-1].startswith("lost"))
    assert script.of("effect") == []


async def test_the_watchdog_tells_a_pause_from_a_gateway_that_is_silent(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    working = asyncio.ensure_future(body(leadership, notes))
    await asyncio.sleep(0)

    clock.jump(60)
    await until(working.done)

    assert leadership.lost is not None
    assert leadership.lost.reason == "suspended"


async def test_after_a_short_pause_the_proof_is_renewed_at_once(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    assert script.of("renew") == []

    clock.jump(3)
    await clock.until(lambda: script.of("renew"))

    await until(lambda: leadership.state == "leader-renewing")
    assert clock.boot_s() - 1000 < 4
    # Whether the pause or the renewal that it brings on is noticed first is the machine's matter.
    assert notes.said in (["start 1"], ["start 1", "uncertain"])


async def test_what_is_being_handed_over_is_not_cut_in_two(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    arrived, answered = asyncio.Event(), asyncio.Event()

    async def held(asked: Asked) -> Reply:
        arrived.set()
        await answered.wait()
        return await script.usual(asked)

    script.then("effect", held)
    seen: list[LeadershipLost] = []

    async def work() -> None:
        async with leadership:
            with leadership.item("lead-1"):
                try:
                    await leadership.effect("POST", "crm", "/contacts", json={})
                except LeadershipLost as error:
                    seen.append(error)
                    raise

    working = asyncio.ensure_future(work())
    await arrived.wait()
    leadership.lose("margin", "for the test")
    await until(lambda: "lost margin" in notes.said)
    assert not working.done()

    answered.set()
    await working

    assert seen[0].answer.outcome == "confirmed"
    assert seen[0].effect == "confirmed"


async def test_the_gateways_word_ends_it_at_once(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    script.then("effect", problem("stale-term", 412, verdict="refused"))

    async with leadership:
        with leadership.item("lead-1"):
            with pytest.raises(StaleTerm):
                await leadership.effect("POST", "crm", "/contacts", json={})
            with pytest.raises(LeadershipLost, match="stale-term"):
                await leadership.effect("POST", "crm", "/contacts", json={})
            await leadership.effect("POST", "crm", "/contacts", json={})

    assert len(script.of("effect")) == 1


async def test_an_answer_that_says_superseded_is_the_last(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    late = Reply(201, {}, {
        "Fence-Verdict": "forwarded", "Fence-Outcome": "confirmed",
        "Fence-After-Dispatch": "superseded",
    })  # fmt: skip
    script.then("effect", late)

    with leadership.item("lead-1"), pytest.raises(LeadershipLost) as lost:
        await leadership.effect("POST", "crm", "/contacts", json={})

    assert lost.value.answer.superseded
    assert leadership.lost is not None


async def test_a_slow_renewal_does_not_lengthen_trust(
    elector: Elector, script: Script, clock: HandClock
):
    leadership = await led(elector, clock)

    async def slow(asked: Asked) -> Reply:
        reply = await script.usual(asked)
        await clock.advance(4)
        return reply

    script.then("renew", slow)
    await clock.until(lambda: leadership.state == "leader-renewing", step_s=0.01)

    assert 12.5 < leadership.remaining_s <= 20 - 3 - 4


async def test_a_renewal_that_tells_of_another_leader_proves_nothing(
    elector: Elector, script: Script, clock: HandClock
):
    leadership = await led(elector, clock)
    script.then("renew", lambda _: Reply(200, script.lease() | {"holder": "bo#1"}))

    await clock.until(lambda: script.of("renew"))
    await until(lambda: leadership.state == "leader-uncertain")

    assert leadership.remaining_s < 13


async def test_a_loss_that_is_noticed_in_a_thread_ends_the_body_in_its_loop(
    elector: Elector, script: Script, clock: HandClock, notes: Notes
):
    leadership = await led(elector, clock)
    working = asyncio.ensure_future(body(leadership, notes))
    await asyncio.sleep(0)

    await asyncio.to_thread(leadership.refuted, StaleTerm())

    assert await working == "went on"
    await until(lambda: notes.said[-1].startswith("lost"))
    assert notes.said == ["start 1", "cancelled", "lost superseded"]


async def test_what_was_given_back_is_not_logged_as_lost(
    elector: Elector, clock: HandClock, caplog: pytest.LogCaptureFixture
):
    leadership = await led(elector, clock)
    with caplog.at_level("INFO"):
        async with leadership:
            pass
        await until(lambda: "given back (released)" in caplog.text)

    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "is lost" not in caplog.text
