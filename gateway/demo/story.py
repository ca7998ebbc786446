"""The script: the daily sales report, three replicas and two workers, seven in the morning.

The leader loses the coordinator half-way. The next one keeps what is confirmed and hands out the
rest; the old one returns and is refused; one report is published. All of them run report.py, and
what is told comes from the gateway's API and the CRM's own journal, never from this script.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import orjson

from gateway.demo.company import Company, Member, Note
from gateway.demo.narrate import Account, Narrator
from gateway.demo.promises import broken_promises, intended
from gateway.demo.record import NOTES, Record
from gateway.demo.relay import Relay, running_relay
from gateway.demo.watch import Watch

ITEMS: Final = 31
CONFIRMED: Final = 18
REPLICAS: Final = ("relatorio-a", "relatorio-b", "relatorio-c")
WORKERS: Final = ("worker-1", "worker-2")
LOST_ANSWER: Final = "opportunity-25"
CLOSING: Final = {"ready": 1, "closing": 1}
PER_WORKER: Final = CONFIRMED // len(WORKERS)
STALE: Final = "412 stale-term"


@dataclass(eq=False)
class Story:
    """The running play. `faults` is what went otherwise than the script has it."""

    watch: Watch
    company: Company
    narrator: Narrator
    stack: AsyncExitStack

    def __post_init__(self) -> None:
        self.faults: list[str] = []
        self.lines: dict[str, Relay] = {}
        self.insisted: Note = {}

    async def play(self) -> None:
        """Play all acts, in order."""
        await self.watch.seed(ITEMS)
        old = await self.the_election()
        workers = await self.the_morning(old)
        await self.the_cut(old)
        new = await self.the_takeover(old, workers)
        await self.the_return(old)
        await self.the_report(new)
        await self.the_back_door()

    def expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.faults.append(f"{what}: {found!r}, expected {wanted!r}")

    # ------------------------------------------------------------------- acts

    async def the_election(self) -> Member:
        """Three replicas, each with a line of its own to the gateway, ask at once."""
        self.narrator.heading("07:00 three replicas are ready; one may lead")
        url = self.watch.office.gateway_url
        for name in REPLICAS:
            line = await self.stack.enter_async_context(running_relay(url))
            self.lines[name] = line
            await self.company.enlist(name, via=line.url, stops=CLOSING, works=False)
        for member in [*self.company.members.values()]:
            member.go()
        leader = await self.company.leader()
        followers = [name for name in REPLICAS if name != leader.name]
        self.narrator.tell(leader.name, f"leads {self.watch.office.function}, term {leader.term}")
        self.narrator.tell(" and ".join(followers), "follow, ready to take over")
        return leader

    async def the_morning(self, leader: Member) -> list[Member]:
        """The leader opens the unit; workers confirm part of it, and have more in hand."""
        await self.company.heard("manifest", leader, created=True)
        (unit,) = await self.watch.units()
        self.narrator.tell(
            leader.name,
            f"opens {unit['unit']}: {unit['items']['total']} items, "
            f"manifest {unit['manifest_digest'][:12]}",
        )
        # each is let go until it has one more in hand: its checkpoint written, nothing sent
        in_hand = {"checkpointed": PER_WORKER + 1}
        workers = await self.company.enlist(*WORKERS, kind="work", stops=in_hand)
        for worker in workers:
            await self.company.heard("checkpointed", worker, stops=True)
        items = (await self.watch.units())[0]["items"]
        self.expect("items confirmed before the cut", items["done"], CONFIRMED)
        self.narrator.tell(
            "workers",
            f"{items['done']} of {items['total']} items are confirmed, {items['claimed']} in hand",
        )
        return workers

    async def the_cut(self, leader: Member) -> None:
        """The leader's line to the coordinator is cut; its way to the CRM is not."""
        self.narrator.heading(f"07:02 {leader.name} loses the coordinator, not the CRM")
        self.lines[leader.name].cut.add("/v1/")
        lost = await self.company.heard("lost", leader)
        self.expect("why the leader stopped", lost["reason"], "margin")
        lease = await self.watch.get(f"/v1/leases/{self.watch.office.function}")
        left = f"{lease['remaining_ms']} ms before its lease ends" if lease["holder"] else "in time"
        self.narrator.tell(leader.name, f"cannot renew, and stops commanding by itself, {left}")

    async def the_takeover(self, old: Member, workers: list[Member]) -> Member:
        """Another replica leads, and hands out again what is not confirmed."""
        new = await self.company.leader(above=old.term or 1)
        self.narrator.heading(f"07:03 {new.name} leads under term {new.term}")
        found = await self.company.heard("manifest", new)
        self.expect("the successor creates a unit", found["created"], False)
        told = await self.watch.handover()
        self.narrator.sentence("en", told["sentence"]["en"])
        self.narrator.sentence("pt-BR", told["sentence"]["pt_br"])
        took = told["took_effect"]
        self.expect("items that the successor keeps", took["items_done"], CONFIRMED)
        self.expect("items that it has to reconcile", told["to_reconcile"], ITEMS - CONFIRMED)
        resumable = ", ".join(f"{one['item']}" for one in told["resumable"])
        self.narrator.tell(new.name, f"keeps {took['items_done']}, goes on at {resumable}")
        await self.watch.misbehave("close-after", LOST_ANSWER)
        for worker in workers:
            worker.go()
            gone = await self.company.heard("claim-lost", worker)
            self.expect(f"what {worker.name} is told", gone["why"], "stale-term")
            self.narrator.tell(worker.name, "is refused under the old term, and claims again")
        await self.company.heard("closing", new, stops=True)
        record = await self.watch.record()
        again = sum(one["term"] == new.term for one in record.items)
        self.expect("items handed out again", again, ITEMS - CONFIRMED)
        (unit,) = record.units
        self.narrator.tell(
            "workers",
            f"{unit['items']['done']} of {unit['items']['total']} items are confirmed, "
            f"{again} of them under term {new.term}",
        )
        lost = [one for one in record.effects if one["item"] == LOST_ANSWER]
        self.expect("how the lost answer was settled", lost[0]["resolved_by"], "probe")
        self.narrator.tell(
            "gateway", f"the answer about {LOST_ANSWER} was lost; a look found the note"
        )
        return new

    async def the_return(self, old: Member) -> None:
        """The old leader comes back, and tries to publish and to close."""
        self.narrator.heading(f"07:05 {old.name} returns, and believes that it leads")
        self.lines[old.name].cut.clear()
        self.insisted = await self.company.ask(old, "insist")
        for what, verb in (("publish", "publish the report"), ("complete", "close the unit")):
            self.expect(f"{old.name} tries to {verb}", self.insisted[what], STALE)
            self.narrator.tell(
                old.name, f"tries to {verb} under term {self.insisted['term']}: "
                f"{self.insisted[what]}"
            )  # fmt: skip

    async def the_report(self, new: Member) -> None:
        self.narrator.heading(f"07:06 {new.name} publishes the report")
        new.go()
        await self.company.heard("published", new)
        (unit,) = await self.watch.units()
        said = ", ".join(f"{count} {finding}" for finding, count in sorted(unit["result"].items()))
        self.narrator.tell(new.name, f"closes {unit['unit']} ({unit['state']})")
        self.narrator.tell("report", said)

    async def the_back_door(self) -> None:
        """Whoever has only a gateway token does not get past the gateway."""
        body = orjson.dumps({"external_id": "direct", "text": "let me in"})
        token = self.watch.office.worker.token
        reply = await self.watch.write_directly(token, NOTES, body)
        self.expect("a worker writes to the CRM past the gateway", reply.status, 401)
        self.narrator.tell("worker-1", f"tries the CRM without the gateway: {reply.status}")

    # ---------------------------------------------------------------- account

    async def account(self) -> tuple[Account, list[str]]:
        """Return the closing numbers, and what is off."""
        record = await self.watch.record()
        faults = [*self.faults, *broken_promises(record)]
        (unit,) = record.units
        last = record.lease["term"]
        account = Account(
            items=len(record.items),
            done=unit["items"]["done"],
            kept=sum(one["term"] < last for one in record.items),
            intended=len(intended(record)),
            effects=len(record.applied),
            duplicates=record.duplicates,
            reports=_reports(record),
            from_old_leader=sum("late " in one.intent for one in record.applied),
            refused=[*map(str, (self.insisted["publish"], self.insisted["complete"]))],
            leaders=[
                f"{one['holder'].partition('#')[0]} (term {one['term']})" for one in record.acquired
            ],
            settled=dict(record.resolved_by),
            unknown_left=len(record.open_effects),
            exceptions=len(record.exceptions),
        )
        if account.reports != 1:
            faults.append(f"{account.reports} reports are in the CRM, not one")
        return account, faults


def _reports(record: Record) -> int:
    names = {f"POST {NOTES} {unit['unit']}" for unit in record.units}
    return sum(one.intent in names for one in record.applied)
