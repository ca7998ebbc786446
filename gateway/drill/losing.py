"""Scenarios of a leader that lives on without its authority."""

from __future__ import annotations

from gateway.demo.company import Member
from gateway.demo.relay import Relay
from gateway.drill.play import Play

MIDWAY = {"checkpointed": 2}
"""At the second item, whose checkpoint is written and whose effect is not sent."""


async def _midway(play: Play, *, relayed: bool = True, **part: object) -> tuple[Member, Relay]:
    """Return a leader that has come to its second item, with a follower beside it."""
    relay = await play.relay()
    via = relay.url if relayed else ""
    ana = await play.leads("ana", via=via, stops=dict(MIDWAY), **part)
    await play.enlist("bo")
    await play.company.heard("checkpointed", ana, stops=True)
    return ana, relay


async def coordinator_lost(play: Play) -> None:
    """The leader reaches the CRM, and cannot renew."""
    ana, relay = await _midway(play)
    relay.cut.add("/v1/")
    play.nobody_commands()
    ana.go()
    # its proof still holds, and the CRM answers: only the report on the item does not get through
    await play.company.heard("noted", ana, item="opportunity-2")
    lost = await play.company.heard("lost", ana)
    await play.published()
    await play.refused_as_stale(ana)
    record = await play.record()
    ended = record.lost(1)
    play.expect("why the leader stopped", lost["reason"], "margin")
    play.expect("how its term ended", ended and ended["reason"], "expired")
    claims = {one["item"]: one["attempt"] for one in record.items}
    play.expect("claims of the item whose report was cut off", claims["opportunity-2"], 2)


async def leader_paused(play: Play) -> None:
    """The leader's process stands still for longer than its lease, with work in hand."""
    ana, _ = await _midway(play, relayed=False)
    play.nobody_commands()
    with ana.standstill():
        await play.company.leader(above=1)
        await play.published()
    lost = await play.company.heard("lost", ana)
    play.expect("it noticed by itself", lost["reason"] in ("suspended", "margin"), True)
    await play.refused_as_stale(ana)


async def local_clock_wrong(play: Play) -> None:
    """The leader's clock is an hour off and half as fast: it believes that its lease lasts."""
    ana, relay = await _midway(play, clock_off_s=3600.0, clock_rate=0.5)
    relay.cut.add("/v1/")
    play.nobody_commands()
    await play.company.leader(above=1)
    play.expect("the old leader stopped by itself", play.company.said("lost", ana), [])
    ana.go()
    lost = await play.company.heard("lost", ana)
    play.expect("what stopped the old leader", lost["reason"], "stale-term")
    await play.published()
    await play.refused_as_stale(ana)


async def late_renewal(play: Play) -> None:
    """Renewals are granted, and their answers come after the leader's own deadline."""
    ana, relay = await _midway(play)
    relay.late.add("/renew")
    lost = await play.company.heard("lost", ana)
    play.nobody_commands()
    await play.company.leader(above=1)
    relay.on_time.set()
    await play.published()
    await play.refused_as_stale(ana)
    record = await play.record()
    ended = record.lost(1)
    play.expect("why the leader stopped", lost["reason"] in ("margin", "late-answer"), True)
    play.expect("renewals whose answers came late", relay.held > 0, True)
    play.expect("how its term ended", ended and ended["reason"], "released")
    play.expect(
        "what it sent after that", play.company.said("noted", ana, item="opportunity-2"), []
    )


async def old_leader_returns(play: Play) -> None:
    """The leader stands still with the report in hand, and wakes up to publish and close."""
    ana = await play.leads("ana", stops={"closing": 1})
    await play.enlist("bo")
    await play.company.heard("closing", ana)
    play.nobody_commands()
    with ana.standstill():
        bo = await play.company.leader(above=1)
        await play.published()
        ana.order("insist", order=-1)  # the first that it finds when it wakes up
    told = await play.company.heard("insisted", ana)
    play.judge_insistence(told)
    record = await play.record()
    reports = [one.term for one in record.applied if one.intent.endswith(record.units[0]["unit"])]
    play.expect("reports, by term", reports, [record.lease["term"]])
    play.expect("who leads", record.lease["holder"], bo.holder)
