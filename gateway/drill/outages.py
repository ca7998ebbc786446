"""Scenarios in which more goes down than one replica."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.drill.play import Play

HELD = "slow"


async def gateway_down(play: Play) -> None:
    """The gateway dies in the middle of the work, and is away for longer than the lease."""
    ana = await play.leads("ana", stops={"checkpointed": 2})
    await play.enlist("bo")
    await play.company.heard("checkpointed", ana, stops=True)
    before = await play.notes_in_crm()
    play.nobody_commands()
    play.kill_gateway()
    ana.go()
    lost = await play.company.heard("lost", ana)
    play.expect("notes without a gateway", await play.notes_in_crm(), before)
    play.expect("why the leader stopped", lost["reason"], "margin")
    await play.start_gateway()
    await play.company.leader(above=1)
    await play.published()


async def all_restart(play: Play) -> None:
    """Everything is killed with a command on the wire. Nothing can look for it: a person does."""
    await play.misbehave(f"hold-after:{HELD}", "opportunity-2")
    ana = await play.leads("ana")
    (bo,) = await play.enlist("bo")
    await play.crm.until_held(HELD)
    play.nobody_commands()
    play.kill_gateway()
    ana.kill()
    bo.kill()
    await play.crm.release(HELD)
    await play.start_gateway()
    await play.enlist("ana-again", "bo-again")
    await play.company.leader(above=1)
    case = await Person(play).settles_the_only_case()
    await play.published()
    record = await play.record()
    (closed,) = record.exceptions
    play.expect("whose the exception was", case["owner"], "ops-comercial")
    play.expect("what the person said", closed["decision"], "confirm")
    play.expect("by whom it is settled", dict(record.resolved_by), {"operator": 1})


@dataclass(frozen=True)
class Person:
    """Who is given what nobody else can know."""

    play: Play

    async def settles_the_only_case(self) -> Any:
        """Look into the CRM, and confirm what is there."""
        play = self.play

        async def look() -> Any:
            return (await play.get("/v1/exceptions"))["items"]

        (case,) = await play.until(look, "exception")
        note = f"POST /notes {case['item']}"
        found = [one.effect for one in (await play.record()).applied if one.intent == note]
        play.expect("times that the CRM has the note in doubt", len(found), 1)
        case = await play.get(f"/v1/exceptions/{case['id']}")
        said = {"reason": f"{', '.join(found)} is in the CRM", "version": case["version"]}
        await play.post(f"/v1/exceptions/{case['id']}/confirm", said)
        return case
