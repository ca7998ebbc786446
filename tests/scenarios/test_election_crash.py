"""kill -9 of the gateway in the midst of elections: no term twice, no two leaders under one."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict

from tests.scenarios.account import take_account
from tests.scenarios.bustle import NOTES
from tests.scenarios.elections import FUNCTION, Election, Note, Times
from tests.scenarios.proof import count, dice
from tests.scenarios.stage import Stage, until
from tests.scenarios.tenures import read_tenures, spread

WORKERS = ("ana", "bo", "cy", "dudu")
TIMES = Times(ttl_ms=1500, renew_ms=300, margin_ms=250)
SLOW = "delay:30ms"
CHAOS = {"ok": 60, SLOW: 20, "delay-after:30ms": 20, "close-after": 2, "500-before": 2}
NOTHING = frozenset({"none", "not sent"})


async def crash(election: Election, throws: random.Random) -> None:
    """Kill the gateway at a random moment of its work, or while it starts; start it again."""
    # A random moment is what is wanted here: nothing is being waited for.
    await asyncio.sleep(throws.uniform(0.05, 1.0))
    await election.stage.kill()
    if throws.random() < 0.1:
        election.stage.gateway = election.stage.launch(*election.listen_here)
        await asyncio.sleep(throws.uniform(0.3, 1.2))
        await election.stage.kill()
    await election.start_gateway()


async def make_notes(election: Election) -> None:
    """Make the notes that all leaders change, past the gateway, and let the CRM misbehave."""
    for n in range(NOTES):
        made = await election.stage.crm("POST", "/notes", b'{"text": "-"}')
        assert made["id"] == f"note-{n + 1}"


async def settled(stage: Stage) -> bool:
    """Whether every intent has its outcome, and the CRM has finished what it was slow with."""
    outcomes = (await stage.outcomes()).values()
    slow = [one for one in await stage.received() if one["fault"] == SLOW and not one["applied"]]
    return not slow and None not in outcomes


def lies(sent: list[Note], applied: set[str]) -> list[str]:
    """Return the keys whose workers were told what is not so."""
    told: dict[str, set[str]] = defaultdict(set)
    for note in sent:
        if note["key"] is not None:
            told[note["key"]].add(note["effect"])
    lost = [key for key, words in told.items() if "confirmed" in words and key not in applied]
    done = [key for key, words in told.items() if words <= NOTHING and key in applied]
    return [f"{key}: {[note for note in sent if note['key'] == key]}" for key in lost + done]


async def test_a_gateway_killed_amid_elections_gives_no_term_twice_and_leads_nobody_astray(stage):
    throws, kills = dice("election crash"), count(small=10, full=100)
    async with Election(stage, TIMES) as election:
        await election.open(timeout="1s")
        await make_notes(election)
        chaos = {"seed": throws.getrandbits(32), "weights": CHAOS}
        await stage.crm("POST", "/_sandbox/chaos", json.dumps(chaos).encode())
        await election.enlist(*WORKERS, dice=throws)
        await election.leader()

        for _ in range(kills):
            await crash(election, throws)
        await election.leader(above=max(note["term"] for note in election.heard("told")))
        await election.dismiss()
        await until(lambda: settled(stage), "end of what is in flight")
        received = [entry for entry in await stage.received() if entry["intent"] is not None]
        account = take_account(received, await stage.effects())
    told, sent = election.heard("told"), election.heard("sent")
    tenures = read_tenures(stage, FUNCTION)
    tenures.must_hold_together()
    tenures.must_agree_with(told, sent)
    tenures.must_agree_with_the_crm(received)

    ended = Counter(grant.reason or "live" for grant in tenures.grants)
    got = Counter(note["error"] or note["effect"] for note in sent)
    free_s = [ms / 1000 for ms in tenures.without_leader_ms()]
    print(f"election crash: {kills} kills, {len(sent)} commands, {account}")
    print(f"election crash: {tenures.last_term} terms {dict(ended)}, {len(told)} grants told")
    print(f"election crash: workers got {dict(got.most_common())}")
    print(f"election crash: ttl {TIMES.ttl_ms / 1000:g} s, lease free: {spread(free_s)}")
    assert dict(tenures.broken) == {}
    assert account.broken == {}
    assert lies(sent, {str(entry["intent"]) for entry in received if entry["applied"]}) == []
    assert [member.child.process.returncode for member in election.members.values()] == [0] * 4
    assert tenures.last_term > kills / 2
    assert account.effects > kills
    assert stage.ledger_is_sound()
