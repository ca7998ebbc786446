"""A leader that steps down with effects in flight, one of which hangs to its deadline."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Final

from tests.house import Got, write_policies
from tests.scenarios.holding import Holder, leased
from tests.scenarios.stage import Stage, until

POLICY: Final = leased("relatorio", ttl="30s", renew_every="5s", margin="3s")
TIMEOUT_S: Final = 2.5
SETTLE_S: Final = 0.3
NOTES: Final = 3


async def begin(stage: Stage) -> Holder:
    """Start everything, and return a leader whose notes are made."""
    await stage.start_crm()
    stage.write_policies(timeout=f"{TIMEOUT_S:g}s")
    write_policies(stage.policies, {"relatorio": POLICY})
    await stage.start_gateway()
    ana = Holder(stage, "ana#1")
    assert (await ana.ask("acquire")).status == 201
    for n in range(1, NOTES + 1):
        assert (await ana.leader.send("POST", "/notes", f"make-{n}", {"text": "-"})).status == 201
    return ana


async def change(holder: Holder, n: int, key: str, **more: str) -> Got:
    """Change a note; each note is a thing of its own to the barrier."""
    return await holder.leader.send("PATCH", f"/notes/note-{n}", key, {"text": key}, **more)


async def in_flight(stage: Stage, ana: Holder, faults: dict[int, str]) -> list[asyncio.Future[Got]]:
    """Send one change for each note, and return once the CRM has received all of them."""
    sending = [
        asyncio.ensure_future(change(ana, n, f"ana-{n}", X_Sandbox_Fault=fault))
        for n, fault in faults.items()
    ]

    async def received() -> bool:
        return {f"ana-{n}" for n in faults} <= set(await stage.received_keys())

    await until(received, "changes in flight")
    return sending


def handed_over(stage: Stage, term: int) -> list[str]:
    """Return the keys of the effects that a term was handed over."""
    ((ids,),) = stage.ask_ledger("SELECT effects FROM handover WHERE term = ?", term)
    found = stage.ask_ledger("SELECT id, key FROM effect")
    keys = dict(found)
    return [keys[effect_id] for effect_id in json.loads(ids)]


async def timed(sending: asyncio.Future[Got]) -> tuple[Got, float]:
    began_s = time.monotonic()
    got = await sending
    return got, time.monotonic() - began_s


async def test_a_hand_off_leaves_one_hanging_effect_and_only_its_thing_waits(stage):
    ana, bo = await begin(stage), Holder(stage, "bo#1", term=2)
    sent_s = time.monotonic()
    one, two, hanging = await in_flight(stage, ana, {1: "hold:a", 2: "hold:b", 3: "hang"})

    down = await ana.ask("step-down", drain_s=20)
    refused = [await change(ana, n, f"new-{n}") for n in (1, 2, 3)]
    refused.append(await ana.leader.create("new-4"))
    await stage.release("a")
    await stage.release("b")
    settled = [await one, await two]
    left = (await ana.look())["in_flight"]
    await bo.report()
    handed = await ana.ask("hand-off", to="bo#1")
    handed_s = time.monotonic()
    early = await change(bo, 3, "bo-3", Prefer="wait=0")
    others = [await timed(asyncio.ensure_future(change(bo, n, f"bo-{n}"))) for n in (1, 2)]
    others.append(await timed(asyncio.ensure_future(bo.leader.create("bo-4"))))
    hung_still = not hanging.done()
    waited, waited_s = await timed(asyncio.ensure_future(change(bo, 3, "bo-3", Prefer="wait=20")))
    through_s = time.monotonic()

    print(
        f"\nstep-down with 3 in flight: {[got.problem for got in refused]}; two settled, "
        f"{left} left; handed off {handed_s - sent_s:.2f} s after the hanging one was sent, with "
        f"{handed_over(stage, 2)} to reconcile\n"
        f"next term: other things took {[round(s * 1000) for _, s in others]} ms; the same thing "
        f"waited {waited_s:.2f} s, to {through_s - sent_s:.2f} s after the hanging one was sent "
        f"(its seal: {TIMEOUT_S + SETTLE_S:.2f} s)"
    )
    assert (down.status, down.json["draining"], down.json["in_flight"]) == (200, True, 3)
    assert {(got.status, got.problem) for got in refused} == {(412, "leader-draining")}
    assert [got.headers["Fence-Outcome"] for got in settled] == ["confirmed", "confirmed"]
    assert left == 1
    assert (handed.status, handed.json["holder"], handed.json["term"]) == (200, "bo#1", 2)
    assert handed_over(stage, 2) == ["ana-3"]
    assert (early.status, early.problem) == (503, "predecessor-in-flight")
    assert [got.status for got, _ in others] == [200, 200, 201]
    assert hung_still, "the hanging one hung while the others passed"
    assert waited.status == 200
    assert through_s - sent_s >= TIMEOUT_S + SETTLE_S - 0.5
    assert (await hanging).problem == "outcome-unknown"
    assert (await change(ana, 1, "late")).problem == "stale-term"
    assert (await change(bo, 3, "ana-3")).problem == "outcome-unknown"
    made = [f"make-{n}" for n in range(1, NOTES + 1)]
    assert (await stage.received_keys())[NOTES + 3 :] == ["bo-1", "bo-2", "bo-4", "bo-3"]
    assert sorted(await stage.applied_keys()) == sorted(
        [*made, "ana-1", "ana-2", "ana-3", "bo-1", "bo-2", "bo-3", "bo-4"]
    )


async def test_a_step_down_ends_as_soon_as_nothing_is_in_flight(stage):
    ana, bo = await begin(stage), Holder(stage, "bo#1")
    (one,) = await in_flight(stage, ana, {1: "hold:a"})

    await ana.ask("step-down", drain_s=20)
    held = await bo.ask("acquire")
    await stage.release("a")
    await one
    began_s = time.monotonic()
    granted = await bo.acquire_once_free()
    lease = await ana.look()

    print(f"\ndrained: the next term {(time.monotonic() - began_s) * 1000:.0f} ms after the last")
    assert held.problem == "lease-held"
    assert (granted.status, bo.term, lease["holder"]) == (201, 2, "bo#1")
    assert handed_over(stage, 2) == []
    assert stage.ask_ledger(
        "SELECT term, reason FROM transition WHERE kind = 'leader-lost' ORDER BY id"
    ) == [(1, "drained")]


async def test_what_hangs_longer_than_the_drain_does_not_hold_up_the_next_leader(stage):
    ana, bo = await begin(stage), Holder(stage, "bo#1")
    (hanging,) = await in_flight(stage, ana, {3: "hang"})
    began_s = time.monotonic()

    await ana.report(ready=False)
    await ana.ask("step-down", drain_s=0.5)
    granted = await bo.acquire_once_free()
    granted_s = time.monotonic() - began_s
    hung_still = not hanging.done()

    print(f"\ndrained: the next term {granted_s:.2f} s after the step-down, with one in flight")
    assert (granted.status, bo.term) == (201, 2)
    assert granted_s >= 0.4
    assert hung_still
    assert handed_over(stage, 2) == ["ana-3"]
    assert (await change(bo, 1, "bo-1")).status == 200
    hanging.cancel()
