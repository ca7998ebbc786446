"""The script: two replicas of the daily sales report, 2 October, seven in the morning.

`relatorio-a#1` leads under term 184 and loses its lease without noticing; `relatorio-b#1` takes
over under 185. Which intents must be in the CRM's record is counted from the script, never from
what the gateway answered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime

import aiohttp
import orjson

from gateway.clock import SystemClock
from gateway.demo.agents import Call, Crm, NotAnswered, Operator, Reply, Worker
from gateway.demo.narrate import Account, Expected, Narrator, Step
from gateway.demo.stage import DESTINATION, Stage

UNIT = "relatorio-comercial:2026-10-02"
HOLD = "slow-write"
SEAL_SLACK_S = 0.2
SHOWN_WAIT_S = 0.4
LONGEST_SEAL_WAIT_S = 15.0

DONE = Expected(201, "forwarded", "", "confirmed", got=1, did=1)
CHANGED = replace(DONE, status=200)
REPLAYED = Expected(201, "replayed", "", "confirmed")
STALE = Expected(412, "refused", "stale-term")


def note(name: str, text: str, about: str = "opportunity-1") -> bytes:
    return orjson.dumps({"text": text, "about": about, "external_id": name})


def reordered(body: bytes) -> bytes:
    """Write the same JSON as another serialiser would: members reversed, more space."""
    members = [
        f"  {orjson.dumps(name).decode()} : {orjson.dumps(value).decode()}"
        for name, value in reversed(orjson.loads(body).items())
    ]
    return ("{\n" + ",\n".join(members) + "\n}").encode()


@dataclass(slots=True)
class Story:
    """The running play: who acts, what was told, and what the CRM said so far."""

    stage: Stage
    session: aiohttp.ClientSession
    narrator: Narrator
    crm: Crm = field(init=False)
    operator: Operator = field(init=False)
    a: Worker = field(init=False)
    b: Worker = field(init=False)
    opportunities: dict[str, str] = field(default_factory=dict)
    lost: Call | None = None
    lost_effect: str = ""
    intended: Counter[str] = field(default_factory=Counter)
    told_got: Counter[str] = field(default_factory=Counter)
    told_did: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        stage = self.stage
        self.crm = Crm(self.session, stage.crm_url)
        self.operator = Operator(self.session, stage.gateway_url, stage.operator.token)
        self.a = Worker(
            session=self.session,
            destination_url=f"{stage.gateway_url}/d/{DESTINATION}",
            token=stage.worker.token,
            function=stage.function,
            unit=UNIT,
            holder="relatorio-a#1",
            term=184,
        )
        self.b = replace(self.a, holder="relatorio-b#1", term=185)

    async def play(self) -> None:
        """Play all acts, in order."""
        self.narrator.header()
        await self.the_morning()
        await self.the_lost_answer()
        await self.the_takeover()
        await self.the_reconciliation()
        await self.the_back_door()

    # ---------------------------------------------------------------- telling

    async def tell(
        self, who: str, what: str, call: Call, reply: Reply | None, expected: Expected
    ) -> None:
        """Ask the CRM what `call` came to since it was last told, and narrate it."""
        intent = call.counted_as
        journal = await self.crm.journal()
        got = journal.received[intent] - self.told_got[intent]
        did = journal.applied[intent] - self.told_did[intent]
        self.told_got[intent] += got
        self.told_did[intent] += did
        self.intended[intent] += expected.did
        n = len(self.narrator.steps) + 1
        self.narrator.step(Step(n, who, what, expected, reply, got, did))

    async def step(self, who: Worker, call: Call, expected: Expected, remark: str = "") -> Reply:
        """Send `call` and narrate what came of it."""
        reply = await who.send(call)
        await self.tell(who.label, _what(call, remark), call, reply, expected)
        return reply

    # ------------------------------------------------------------------- acts

    async def the_morning(self) -> None:
        self.narrator.heading("07:00 relatorio-a#1 leads under term 184")
        for name in ("acme", "brasa", "cobre"):
            body = orjson.dumps({"name": name, "stage": "proposal"})
            made = await self.step(
                self.a, Call("POST", "/opportunities", f"opp-{name}", body), DONE
            )
            self.opportunities[name] = f"/opportunities/{made.record_id}"
        acme = Call("POST", "/notes", "note-acme", note("acme", "no next step"))
        await self.step(self.a, acme, DONE)
        await self.step(self.a, acme, REPLAYED, "again")
        await self.step(self.a, replace(acme, body=reordered(acme.body)), REPLAYED, "re-serialised")
        other = replace(acme, body=note("acme", "call them"))
        await self.step(
            self.a, other, Expected(422, "refused", "key-reused"), "same key, other text"
        )
        wrong = Call("POST", "/notes", "note-brasa", orjson.dumps({"external_id": "brasa"}))
        rejected = Expected(422, "forwarded", "", "rejected", got=1)
        await self.step(self.a, wrong, rejected, "text missing")
        right = replace(wrong, body=note("brasa", "stage conflict"))
        await self.step(self.a, right, DONE, "corrected, same key")
        busy = Call("POST", "/notes", "note-cobre", note("cobre", "incomplete"), fault="429")
        no_effect = Expected(429, "forwarded", "", "no-effect", got=1)
        await self.step(self.a, busy, no_effect, "CRM is busy")
        await self.step(self.a, replace(busy, fault=""), DONE, "again")

    async def the_lost_answer(self) -> None:
        self.narrator.heading("07:02 the CRM writes a note, and its answer is lost")
        body = note("duna", "data missing")
        self.lost = Call("POST", "/notes", "note-duna", body, fault="close-after")
        first = await self.step(
            self.a,
            self.lost,
            Expected(423, "forwarded", "outcome-unknown", "unknown", got=1, did=1),
            "answer lost",
        )
        self.lost_effect = first.effect_id
        held_back = Expected(423, "refused", "outcome-unknown")
        await self.step(self.a, replace(self.lost, fault=""), held_back, "again: never blindly")

    async def the_takeover(self) -> None:
        self.narrator.heading("07:03 a stalls with a write on the wire; b takes over, term 185")
        brasa, cobre = self.opportunities["brasa"], self.opportunities["cobre"]
        slow = Call("PATCH", brasa, "brasa-a", _stage("stale"), fault=f"hold:{HOLD}")
        on_the_wire = asyncio.create_task(self.a.send(slow))
        tasks = [on_the_wire]
        try:
            await self.crm.until_held(HOLD)
            await self.tell(self.a.label, _what(slow), slow, None, Expected(None, got=1))
            newer = Call("PATCH", brasa, "brasa-b", _stage("negotiation"))
            held_back = Expected(503, "refused", "predecessor-in-flight")
            await self.step(self.b, newer, held_back, "same record")
            elsewhere = Call("PATCH", cobre, "cobre-b", _stage("won"))
            await self.step(self.b, elsewhere, CHANGED, "other record")
            late = Call("PATCH", cobre, "cobre-a", _stage("lost"))
            await self.step(self.a, late, STALE, "a wakes up")
            close = Call("POST", "/notes", "report-a", note("report", "31 open"))
            await self.step(self.a, close, STALE, "and again")
            waiting = asyncio.create_task(self.b.send(replace(newer, wait_s=4)))
            tasks.append(waiting)
            # b's write is held back by now, not merely late: only the release lets it through.
            await asyncio.wait({waiting}, timeout=SHOWN_WAIT_S)
            await self.crm.release(HOLD)
            superseded = replace(CHANGED, got=0, after_dispatch="superseded")
            reply = await on_the_wire
            await self.tell(self.a.label, _what(slow, "it lands"), slow, reply, superseded)
            what = _what(newer, "wait=4")
            await self.tell(self.b.label, what, newer, await waiting, CHANGED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def the_reconciliation(self) -> None:
        self.narrator.heading("07:05 b asks what became of the lost answer; a person looks")
        if self.lost is None:
            return
        again = replace(self.lost, fault="")
        await self.step(
            self.b, again, Expected(423, "refused", "outcome-unknown"), "b meets a's record"
        )
        look = Call("GET", "/notes?external_id=duna", "look-duna")
        found = await self.step(self.b, look, Expected(200, "forwarded", got=1), "read")
        records = found.content["items"] if isinstance(found.content, dict) else []
        if len(records) != 1:
            raise NotAnswered(
                f"the CRM's record shows the lost note {len(records)} times, not once"
            )
        await self._resolve(again, f"{records[0]['id']} is there, once")
        honest = Expected(409, None, "result-unavailable")
        await self.step(self.b, again, honest, "b asks again")
        report = Call("POST", "/notes", "report", note("report", "4 open, 1 stage conflict"))
        await self.step(self.b, report, DONE, "the one report")
        await self.step(self.b, report, REPLAYED, "again")

    async def _resolve(self, call: Call, evidence: str) -> None:
        """Let the operator confirm the lost effect once no copy of it can still be under way."""
        effect = await self.operator.effect(self.lost_effect)
        await asyncio.sleep(_seconds_until(str(effect["attempts"][-1]["seal_at"])))
        reply = await self.operator.resolve(
            self.lost_effect, version=int(effect["version"]), reason=evidence
        )
        shown = replace(reply, verdict="resolved as confirmed", outcome="")
        what = f"after the seal: {evidence}"
        await self.tell("ana", what, call, shown, Expected(200))

    async def the_back_door(self) -> None:
        self.narrator.heading("07:06 a tries the CRM without the gateway, with the token it has")
        call = Call("POST", "/notes", "note-direct", note("direct", "let me in"))
        reply = await self.a.send_directly(self.stage.crm_url, call)
        await self.tell(self.a.label, _what(call, "direct"), call, reply, Expected(401, got=1))

    # ---------------------------------------------------------------- account

    async def account(self) -> tuple[Account, list[str]]:
        """Compare the CRM's own record with the script; return the numbers and what is off."""
        journal = await self.crm.journal()
        intended = +self.intended
        stale = ("cobre-a", "report-a")
        account = Account(
            expected_effects=intended.total(),
            effects=journal.applied.total(),
            requests=len(journal.entries),
            duplicates=await self.crm.duplicates(),
            from_stale_leader=sum(journal.received[intent] for intent in stale),
            unknown_left=await self.operator.unknown_left(),
        )
        faults = self.narrator.faults()
        for intent in sorted(intended.keys() | journal.applied.keys()):
            if journal.applied[intent] != intended[intent] or intended[intent] > 1:
                faults.append(
                    f"{intent}: in the CRM {journal.applied[intent]} times, "
                    f"intended {intended[intent]}"
                )
        if account.duplicates:
            faults.append(f"the CRM counts {account.duplicates} duplicates")
        if account.from_stale_leader:
            faults.append(f"{account.from_stale_leader} requests of the old leader reached the CRM")
        if account.requests != self.told_got.total():
            faults.append(f"the CRM got {account.requests} requests, told {self.told_got.total()}")
        older, newer = journal.effect_of("brasa-a"), journal.effect_of("brasa-b")
        if not _version(older) < _version(newer):
            faults.append(f"the old leader's write {older!r} is not before the new one's {newer!r}")
        faults += [f"the CRM saw the header {name}" for name in _leaked(journal.headers_seen())]
        return account, faults


def _what(call: Call, remark: str = "") -> str:
    thing = call.path.partition("?")[0].rpartition("/")[2]
    what = f"{call.method} {thing} {call.key}"
    return f"{what} ({remark})" if remark else what


def _stage(name: str) -> bytes:
    return orjson.dumps({"stage": name})


def _seconds_until(instant: str) -> float:
    left_ms = datetime.fromisoformat(instant).timestamp() * 1000 - SystemClock().wall_ms()
    return min(max(0.0, left_ms / 1000) + SEAL_SLACK_S, LONGEST_SEAL_WAIT_S)


def _version(effect: str) -> int:
    number = effect.rpartition("@")[2]
    return int(number) if number.isdigit() else 0


def _leaked(headers: set[str]) -> list[str]:
    return sorted(
        name for name in headers if name.startswith("fence-") or name == "idempotency-key"
    )
