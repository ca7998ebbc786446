"""Scenarios of leaders that die at bad moments, and of effects whose answer is lost."""

from __future__ import annotations

from gateway.drill.play import ITEMS, Play

HELD = "slow"


async def dies_before_manifest(play: Play) -> None:
    """The leader dies before it has created the unit."""
    ana = await play.leads("ana", stops={"leads": 1})
    await play.enlist("bo")
    play.expect("units before the leader's death", len(await play.units()), 0)
    play.nobody_commands()
    ana.kill()
    bo = await play.company.leader(above=1)
    await play.published()
    record = await play.record()
    play.expect("who created the unit", [one["created_by"] for one in record.units], [bo.holder])


async def dies_before_handing_out(play: Play) -> None:
    """The leader has created the unit, and dies before it hands anything out."""
    ana = await play.leads("ana", stops={"manifest": 1})
    await play.enlist("bo")
    await play.company.heard("manifest", ana)
    (unit,) = await play.units()
    play.expect("items handed out before the leader's death", unit["items"]["pending"], ITEMS)
    play.nobody_commands()
    ana.kill()
    bo = await play.company.leader(above=1)
    found = await play.company.heard("manifest", bo)
    await play.published()
    record = await play.record()
    play.expect("the successor created a unit", found["created"], False)
    play.expect("who created the unit", [one["created_by"] for one in record.units], [ana.holder])
    play.expect(
        "the manifest's digest", record.units[0]["manifest_digest"], unit["manifest_digest"]
    )


async def answer_lost(play: Play) -> None:
    """Two commands get no answer: one was carried out, the other was not."""
    await play.misbehave("close-after", "opportunity-2")
    await play.misbehave("close-before", "opportunity-3")
    await play.leads("ana")
    await play.published()
    record = await play.record()
    by_item = {one["item"]: one for one in record.effects if one["item"]}
    done, missed = by_item["opportunity-2"], by_item["opportunity-3"]
    play.expect("the one that was carried out", done["resolved_by"], "probe")
    play.expect("how often it was sent", len(done["attempts"]), 1)
    play.expect("the one that was not", missed["outcome"], "confirmed")
    play.expect("how often it was sent in the end", len(missed["attempts"]), 2)


async def takeover_mid_items(play: Play) -> None:
    """The leader dies while one worker has a command in hand, and another one on the wire."""
    ana = await play.leads("ana", works=False)
    await play.enlist("bo", works=False)
    await play.company.heard("manifest", ana)
    (one,) = await play.enlist("worker-1", kind="work", stops={"checkpointed": 1})
    await play.company.heard("checkpointed", one)
    await play.misbehave(f"hold:{HELD}", "opportunity-2")
    await play.enlist("worker-2", kind="work")
    await play.crm.until_held(HELD)
    play.nobody_commands()
    ana.kill()
    await play.company.leader(above=1)
    handover = await play.handover()
    one.go()  # with the claim of the old term
    why = await play.company.heard("claim-lost", one)
    await play.crm.release(HELD)
    await play.published()
    record = await play.record()
    play.expect("effects handed over", handover["doing"]["uncertain_count"], 1)
    play.expect("why the first worker stopped", why["why"], "stale-term")
    attempts = {one["item"]: one["attempt"] for one in record.items}
    play.expect("claims of the first worker's item", attempts["opportunity-1"], 2)
    on_the_wire = [each for each in record.effects if each["item"] == "opportunity-2"]
    sent = [len(each["attempts"]) for each in on_the_wire]
    play.expect("how often the one on the wire was sent", sent, [1])
