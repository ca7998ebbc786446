"""kill -9 while effects are looked for and sent again: nothing is done twice, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress

from tests.scenarios.caller import NoAnswer
from tests.scenarios.proof import count, dice
from tests.scenarios.stage import Stage, until

POLICY = """
destination: crm
base_url: http://127.0.0.1:%(port)d
checked: 2026-11-30
limits: {timeout: %(timeout)s, connect: 500ms, settle: 200ms, barrier_wait: 1s}
connections: %(connections)s
routes:
  - {match: "GET|HEAD /{rest*}", does: read}
  - match: POST /notes
    does: write
    guard: unique_field
    covers: "notes/new/{effect}"
    stamp: {ref: "{effect}"}
    look:
      request: GET /notes?ref={effect}
      reads: record
      settle: 100ms
      each: items
      found: {status: 200, same: {ref: "{effect}"}}
      missing: {status: 200}
      if_still_missing: resend
  - {match: "POST|PUT|PATCH|DELETE /{rest*}", does: refuse, because: "not in this test"}
"""
LOST = ["close-after", "close-before", "500-after", "500-before"]
SETTLED_WITHIN_S = 60.0


async def write_some(stage: Stage, throws: random.Random, sent: list[str]) -> None:
    """Send a few writes whose first answers are lost, some with and some before the effect."""
    leader = stage.leader()
    for _ in range(3):
        key = f"k-{len(sent)}"
        sent.append(key)
        fault = {
            "fault": throws.choice(LOST), "times": 1,
            "match": {"method": "POST", "intent": key},
        }  # fmt: skip
        await stage.crm("POST", "/_sandbox/faults", json.dumps(fault).encode())
        with suppress(NoAnswer):  # the gateway was killed over it
            await leader.send("POST", "/notes", key, {"text": key})


async def test_a_gateway_killed_while_it_reconciles_sends_nothing_twice_and_loses_nothing(stage):
    throws, kills = dice("reconcile-crash"), count(small=10, full=100)
    await stage.start_crm()
    stage.write_policies(timeout="500ms", text=POLICY)
    await stage.start_gateway()
    sent: list[str] = []

    for _ in range(kills):
        writing = asyncio.ensure_future(write_some(stage, throws, sent))
        # A random moment of writing, looking and sending again is what is wanted here.
        await asyncio.sleep(throws.uniform(0.05, 1.5))
        await stage.kill()
        await writing
        await stage.start_gateway()

    async def settled() -> bool:
        effects = await stage.effects()
        return all(e.outcome is not None and e.outcome != "unknown" for e in effects.values())

    await until(settled, "end of every unknown", SETTLED_WITHIN_S)
    effects = await stage.effects()
    applied = await stage.applied_keys()
    probes = stage.ask_ledger("SELECT coalesce(verdict, 'open'), count(*) FROM probe GROUP BY 1")
    resends = sum(len(effect.attempts) - 1 for effect in effects.values())
    print(f"{kills} kills, {len(effects)} effects of {len(sent)} writes, {resends} resends")
    print(f"probes {dict(probes)}; {len(applied)} done, {len(applied) - len(set(applied))} twice")
    assert len(applied) == len(set(applied))
    assert "open" not in dict(probes)
    confirmed = {key for key, effect in effects.items() if effect.outcome == "confirmed"}
    assert confirmed == set(applied)
    assert set(applied) <= set(effects)
    assert stage.ledger_is_sound()
