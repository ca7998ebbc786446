"""Scenarios of who gets to lead: several at once, several versions, nobody at all."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from gateway.drill.play import Play


async def two_acquire(play: Play) -> None:
    """Three replicas ask at the same moment."""
    replicas = await play.enlist("ana", "bo", "cy", stops={"ready": 1})
    for replica in replicas:
        await play.company.heard("ready", replica)
    for replica in replicas:
        replica.go()
    await play.published()
    record = await play.record()
    play.expect("terms granted", [one["term"] for one in record.acquired], [1])
    play.expect("replicas that led", len(play.company.said("leads")), 1)
    (unit,) = record.units
    play.expect("the unit's creator", unit["created_by"], record.acquired[0]["holder"])


async def old_and_new_version(play: Play) -> None:
    """A version that the policy has retired, the present one and the next one compete."""
    company = play.company
    stops = {"ready": 1, "checkpointed": 2}
    (retired,) = await play.enlist("retired", version="2026.9")
    candidate = await _candidate(play, "retired")
    play.expect("the retired version may lead", candidate["eligible"], False)
    present, coming = [
        (await play.enlist(name, version=version, stops=stops))[0]
        for name, version in (("present", "2026.10"), ("coming", "2026.11"))
    ]
    present.go()
    coming.go()
    leader = await company.leader()
    play.expect("the first leader is eligible", leader in (present, coming), True)
    await company.heard("checkpointed", leader, stops=True)
    leader.child.process.send_signal(signal.SIGTERM)  # the deploy goes on
    successor = await company.leader(above=1)
    await company.heard("checkpointed", successor, stops=True)
    successor.go()
    await play.published()
    play.expect("the other version goes on", {leader, successor}, {present, coming})
    play.expect("the retired version led", company.said("leads", retired), [])
    record = await play.record()
    lost = record.lost(1)
    play.expect("how the first term ended", lost and lost["reason"], "released")


async def release_fails(play: Play) -> None:
    """A deploy stops the leader, and its word of it does not get through."""
    relay = await play.relay()
    ana = await play.leads("ana", via=relay.url, stops={"checkpointed": 2})
    await play.enlist("bo")
    await play.company.heard("checkpointed", ana, stops=True)
    relay.cut.add("/release")
    play.nobody_commands()
    ana.child.process.send_signal(signal.SIGTERM)
    bo = await play.company.leader(above=1)
    await play.published()
    code = await asyncio.to_thread(ana.child.process.wait, 5)
    record = await play.record()
    lost = record.lost(1)
    play.expect("the old leader's exit code", code, 0)
    play.expect("its release was cut off", relay.stopped > 0, True)
    play.expect("how its term ended", lost and lost["reason"], "expired")
    play.expect("who leads", record.lease["holder"], bo.holder)


async def no_candidate(play: Play) -> None:
    """The leader dies, and the only one left is of a version that may not lead."""
    ana = await play.leads("ana", stops={"checkpointed": 2})
    (retired,) = await play.enlist("retired", version="2026.9")
    await play.company.heard("checkpointed", ana, stops=True)
    before = await play.notes_in_crm()
    play.nobody_commands()
    ana.kill()
    alarm = await play.transition("no-eligible-candidate")
    lease = await play.get(f"/v1/leases/{play.office.function}")
    play.expect("who leads without a candidate", lease["holder"], None)
    play.expect("who is told", alarm["responsible"], "ops-comercial")
    play.expect("notes while nobody led", await play.notes_in_crm(), before)
    bo = await play.leads("bo")
    await play.published()
    record = await play.record()
    play.expect("who leads", record.lease["holder"], bo.holder)
    play.expect("the retired version led", play.company.said("leads", retired), [])


async def _candidate(play: Play, name: str) -> dict[str, Any]:
    path = f"/v1/candidates/{play.office.function}"

    async def look() -> list[dict[str, Any]]:
        listed = (await play.get(path))["items"]
        return [one for one in listed if one["holder"].startswith(f"{name}#")]

    return (await play.until(look, f"candidate {name}"))[0]
