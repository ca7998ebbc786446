"""Leaders that were stopped with a command in hand, and go on when another leads.

The lease alone could not stop them: they have checked it, and it was theirs when they did.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.scenarios.account import take_account
from tests.scenarios.elections import FUNCTION, Election, Hand, Member, Times
from tests.scenarios.proof import count, dice
from tests.scenarios.stage import Stage
from tests.scenarios.tenures import read_tenures, spread

WORKERS = ("ana", "bo", "cy")
NOTE = "/notes/note-1"
TIMES = Times(ttl_ms=2000, renew_ms=400, margin_ms=300)


@dataclass
class Rounds:
    """What became of the rounds so far."""

    election: Election
    throws: random.Random
    zombies: Counter[str] = field(default_factory=Counter)  # what their raw commands got
    by_sdk: Counter[str] = field(default_factory=Counter)  # what their SDK said
    expected: Counter[str] = field(default_factory=Counter)  # effects by key: each once
    without_s: list[float] = field(default_factory=list)

    async def send(self, leader: Member, item: str) -> bool:
        """Have the leader change the note; False if it had lost its lease by then."""
        told = await self.election.send(leader, item, "PATCH", NOTE, {"text": item})
        if told.get("outcome") != "confirmed":
            return False
        self.expected[told["key"]] = 1
        return True

    async def command_in_hand(self, n: int) -> tuple[Member, Hand]:
        """Have somebody lead, work, and take the round's command into its hand."""
        item = f"round-{n}"
        while True:
            leader = await self.election.leader()
            if not await self.send(leader, f"{item}-before"):
                continue
            # A random moment of the lease: nothing is being waited for.
            await asyncio.sleep(self.throws.uniform(0, TIMES.renew_ms / 1000))
            hand = await self.election.in_hand(
                leader, item, "PATCH", NOTE, {"text": item}, sdk_first=self.throws.random() < 0.5
            )
            if hand is not None:
                return leader, hand

    async def play(self, n: int) -> None:
        zombie, hand = await self.command_in_hand(n)
        await asyncio.sleep(self.throws.uniform(0, 0.05))
        with self.election.standstill(zombie):
            stopped_s = time.monotonic()
            successor = await self.election.leader(above=hand.term, besides=[zombie])
            self.without_s.append(time.monotonic() - stopped_s)
            # Half of the successors do again what was in the zombie's hand, under the same key.
            await self._succeed(successor, n, again=self.throws.random() < 0.5)
            await asyncio.sleep(self.throws.uniform(0, 0.3))
            if self.throws.random() < 0.5:
                hand.let_go()  # the go is there when it wakes up
        told = await hand.go()
        self.zombies["{status} {slug}, effect {effect}".format(**told["raw"])] += 1
        self.by_sdk[told["sdk"].get("error") or "sent"] += 1

    async def _succeed(self, successor: Member, n: int, *, again: bool) -> None:
        items = [f"round-{n}-after", *([f"round-{n}"] if again else [])]
        while not all([await self.send(successor, item) for item in items]):
            successor = await self.election.leader(above=successor.term)


async def test_a_leader_stopped_with_a_command_in_hand_is_refused_when_another_leads(stage: Stage):
    throws, rounds = dice("zombie leader"), count(small=5, full=50)
    async with Election(stage, TIMES) as election:
        await election.open()
        await election.enlist(*WORKERS)
        played = Rounds(election, throws)
        leader = await election.leader()
        note = await election.send(leader, "note", "POST", "/notes", {"text": "-"})
        played.expected[note["key"]] = 1

        for n in range(rounds):
            await played.play(n)
        received = await stage.received()
        account = take_account(received, await stage.effects())
        tenures = read_tenures(stage, FUNCTION)
        await election.dismiss()

    tenures.must_hold_together()
    tenures.must_agree_with(election.heard("told"), [])
    tenures.must_agree_with_the_crm(received)
    ended = Counter(grant.reason or "live" for grant in tenures.grants)
    print(f"zombie leader: {rounds} rounds, {account}; terms {tenures.last_term} {dict(ended)}")
    print(f"zombie leader: raw {dict(played.zombies)}; by the SDK {dict(played.by_sdk)}")
    print(
        f"zombie leader: ttl {TIMES.ttl_ms / 1000:g} s; without leader from the standstill: "
        f"{spread(played.without_s)}; lease free: "
        f"{spread([ms / 1000 for ms in tenures.without_leader_ms()])}"
    )
    assert played.zombies == {"412 stale-term, effect none": rounds}
    assert played.by_sdk == {"LeadershipLost": rounds}
    assert Counter(entry["intent"] for entry in received if entry["method"] != "GET") == (
        played.expected
    )
    assert account.broken == {}
    assert account.unknown == 0
    assert dict(tenures.broken) == {}
    assert refused(stage) == {"stale-term": rounds}


async def test_a_leader_that_wakes_up_before_anybody_else_leads_is_refused_all_the_same(stage):
    async with Election(stage, TIMES) as election:
        await election.open()
        await election.enlist("ana")
        leader = await election.leader()
        hand = await election.in_hand(
            leader, "late", "POST", "/contacts", {"name": "late"}, sdk_first=False
        )
        assert hand is not None

        with election.standstill(leader):
            await lease_lost(stage)
        told = await hand.go()
        again = await election.leader(above=hand.term)
        after = await election.send(again, "late", "POST", "/contacts", {"name": "late"})

    assert (told["raw"]["status"], told["raw"]["slug"]) == (412, "lease-expired")
    assert told["sdk"]["error"] == "LeadershipLost"
    assert (again, after["outcome"], after["key"]) == (leader, "confirmed", hand.key)
    assert await stage.received_keys() == [hand.key]


async def test_a_leader_that_is_stopped_for_less_than_its_lease_goes_on(stage):
    async with Election(stage, Times(ttl_ms=20_000, renew_ms=400, margin_ms=300)) as election:
        await election.open()
        await election.enlist(*WORKERS)
        leader = await election.leader()
        hand = await election.in_hand(
            leader, "short", "POST", "/contacts", {"name": "short"}, sdk_first=False
        )
        assert hand is not None

        with election.standstill(leader):
            await asyncio.sleep(TIMES.ttl_ms / 1000)  # the pause is the scenario
        told = await hand.go()

        assert told["raw"]["status"] == 201
        assert told["sdk"]["outcome"] == "confirmed"
        assert leader.term == hand.term
        assert await stage.received_keys() == [hand.key, told["sdk"]["key"]]


async def lease_lost(stage: Stage) -> None:
    """Wait until the ledger says that the lease has come to its end."""
    version = 0
    while True:
        got = await stage.get(f"/v1/leases/{FUNCTION}?wait_s=5&after_version={version}")
        assert got.status == 200, got
        version = got.json["version"]
        if got.json["state"] == "leader-lost":
            return


def refused(stage: Stage) -> dict[str, int]:
    return dict(stage.ask_ledger("SELECT reason, sum(count) FROM refusal GROUP BY reason"))
