"""kill -9 while effects are looked for and sent again: nothing is done twice, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from contextlib import suppress

from gateway.core.effect import Outcome
from tests.scenarios.account import take_account
from tests.scenarios.caller import NoAnswer
from tests.scenarios.proof import count, dice
from tests.scenarios.stage import Stage, until

POLICY = """
destination: crm
base_url: http://127.0.0.1:%(port)d
checked: 2026-11-30
limits: {timeout: %(timeout)s, connect: 500ms, settle: 300ms, barrier_wait: 1s}
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
      settle: 200ms
      each: items
      found: {status: 200, same: {ref: "{effect}"}}
      missing: {status: 200}
      if_still_missing: resend
  - match: POST /contacts
    does: write
    guard: look_first
    covers: "contacts/new/{effect}"
    stamp: {ref: "{effect}"}
    look:
      request: GET /contacts?ref={effect}
      settle: 200ms
      each: items
      found: {status: 200, same: {ref: "{effect}"}}
      missing: {status: 200}
      if_still_missing: park
  - {match: "POST|PUT|PATCH|DELETE /{rest*}", does: refuse, because: "not in this test"}
"""
LOST = ["close-after", "close-before", "500-after", "500-before"]
LOOKS_TAKE = "delay:250ms"
RESENDS_TAKE = ["delay:200ms", "delay-after:200ms"]
"""Long enough for a kill to hit what is under way."""
SETTLED_WITHIN_S = 60.0


async def script(stage: Stage, fault: str, times: int, **match: str) -> None:
    said = {"fault": fault, "times": times, "match": match}
    await stage.crm("POST", "/_sandbox/faults", json.dumps(said).encode())


async def write(stage: Stage, throws: random.Random, path: str, fault: str) -> str:
    """Send a write whose first answer is lost to `fault`; return its key once it was answered."""
    key = f"k-{throws.getrandbits(64):016x}"
    await script(stage, fault, 1, method="POST", intent=key)
    await script(stage, throws.choice(RESENDS_TAKE), 1, method="POST", intent=key)
    await stage.leader().send("POST", path, key, {"text": key})
    return key


async def write_some(stage: Stage, throws: random.Random, answered: list[str]) -> None:
    """Send a few writes whose first answers are lost, some with and some before the effect."""
    for _ in range(3):
        path = throws.choice(["/notes", "/notes", "/contacts"])
        with suppress(NoAnswer):  # the gateway was killed over it
            answered.append(await write(stage, throws, path, throws.choice(LOST)))


def in_no_hands(stage: Stage) -> list[tuple[str, ...]]:
    """Return the effects that are neither settled nor in a person's hands."""
    return stage.ask_ledger(
        "SELECT key FROM effect WHERE (outcome IS NULL OR outcome = 'unknown') AND id NOT IN "
        "(SELECT effect_id FROM exception_case WHERE closed_at_ms IS NULL)"
    )


async def test_a_gateway_killed_while_it_reconciles_sends_nothing_twice_and_loses_nothing(stage):
    throws, kills = dice("reconcile-crash"), count(small=10, full=100)
    await stage.start_crm()
    stage.write_policies(timeout="600ms", text=POLICY)
    await script(stage, LOOKS_TAKE, 1_000_000, method="GET", path_prefix="/notes")
    await script(stage, LOOKS_TAKE, 1_000_000, method="GET", path_prefix="/contacts")
    await stage.start_gateway()
    answered = [await write(stage, throws, "/contacts", "close-before")]
    seen: set[str] = set()

    for _ in range(kills):
        writing = asyncio.ensure_future(write_some(stage, throws, answered))
        # A random moment of writing, looking and sending again is what is wanted here.
        await asyncio.sleep(throws.uniform(0.05, 1.5))
        await stage.kill()
        await writing
        seen |= (await stage.effects()).keys()
        await stage.start_gateway()

    await until(lambda: not in_no_hands(stage), "end of every unknown", SETTLED_WITHIN_S)
    effects = await stage.effects()
    account = take_account(await stage.received(), effects)
    probes = Counter(
        verdict for (verdict,) in stage.ask_ledger("SELECT coalesce(verdict, 'open') FROM probe")
    )
    still_missing = {
        key
        for (key,) in stage.ask_ledger(
            "SELECT key FROM effect JOIN exception_case ON effect_id = effect.id "
            "WHERE reason = 'still-missing'"
        )
    }
    resends = sum(len(effect.attempts) - 1 for effect in effects.values())
    outcomes = Counter(str(effect.outcome) for effect in effects.values())
    print(f"reconcile-crash: {kills} kills, {account}, {dict(outcomes)}, {resends} resends")
    print(f"reconcile-crash: {probes.total()} probes, {dict(probes)}, {len(still_missing)} parked")

    assert account.broken == {}
    assert seen | set(answered) <= effects.keys()
    assert probes["open"] == 0
    applied = set(await stage.applied_keys())
    assert not still_missing & applied
    said_not = {key for key, effect in effects.items() if effect.outcome is Outcome.NO_EFFECT}
    assert not said_not & applied
    assert stage.ledger_is_sound()
