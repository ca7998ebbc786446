"""Answers to renewals that come late, or not at all, while all else goes through.

The worker's renewals pass through a relay; its effects go straight to the gateway. So the
gateway would take them to the very end: who has to stop is the worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.client.context import headers_of
from gateway.client.elector import Elector
from gateway.client.errors import LeadershipLost
from gateway.client.leadership import Leadership
from tests.house import write_policies
from tests.scenarios.caller import ask
from tests.scenarios.holding import Holder, leased
from tests.scenarios.relay import Relay, running_relay
from tests.scenarios.stage import Stage, until

TTL_S: Final = 3.0
MARGIN_S: Final = 1.0
RENEW_S: Final = 0.4
POLICY: Final = leased("relatorio", ttl="3s", renew_every="400ms", margin="1s")
TRY_AGAIN_S: Final = 0.01
ON_THE_WAY_S: Final = 0.25
"""How long something that was sent in time may take to be admitted on a busy machine."""


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Bustling:
    """A worker that leads and sends effects one after the other, as fast as they are answered.

    A stubborn one: it does not end with its leadership (whose end would give the lease back),
    and what keeps it from sending is nothing but the proof that the SDK asks for.
    """

    elector: Elector
    gateway: int
    leaderships: list[Leadership] = field(default_factory=list)
    sent_at_s: dict[str, float] = field(default_factory=dict)
    states: set[str] = field(default_factory=set)
    refused: int = 0
    leads: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Lead, and try to send for ever."""
        async with self.elector:
            leadership = await anext(self.elector)
            self.leaderships.append(leadership)
            self.leads.set()
            while True:
                try:
                    await self._send(leadership)
                except LeadershipLost:
                    self.refused += 1
                    await asyncio.sleep(TRY_AGAIN_S)

    async def _send(self, leadership: Leadership) -> None:
        with leadership.item(f"lead-{len(self.sent_at_s)}") as fence:
            headers = headers_of(fence, "POST", "crm", "/contacts")  # checks the proof
            key = headers["Idempotency-Key"].strip('"')
            self.sent_at_s[key] = boot_s()
            self.states.add(leadership.state)
            marks = {"X-Sandbox-Intent": key, "X-Sent-Under": str(leadership.term)}
            got = await ask(
                self.gateway, "POST", "/d/crm/contacts", headers=headers | marks, body=b"{}"
            )
            assert got.status == 201, got


@asynccontextmanager
async def bustling(stage: Stage, relay: Relay) -> AsyncIterator[Bustling]:
    elector = Elector(
        relay.url, function="relatorio", worker="ana", margin_s=MARGIN_S, renew_every_s=RENEW_S
    )
    worker = Bustling(elector, stage.port)
    running = asyncio.ensure_future(worker.run())
    try:
        leads = asyncio.ensure_future(worker.leads.wait())
        await asyncio.wait({running, leads}, return_when=asyncio.FIRST_COMPLETED)
        assert worker.leads.is_set(), running.result()
        yield worker
        assert not running.done(), running.result()
    finally:
        running.cancel()
        await asyncio.wait({running})


async def begin(stage: Stage) -> None:
    await stage.start_crm()
    stage.write_policies()
    write_policies(stage.policies, {"relatorio": POLICY})
    await stage.start_gateway()


def as_boot_s(stage: Stage, store_ms: int) -> float:
    """Return an instant of the store on the boot clock, which the store's follows."""
    ((now_ms, boot_ms),) = stage.ask_ledger("SELECT now_ms, boot_ms FROM store_clock")
    return float(boot_ms + store_ms - now_ms) / 1000


def expires_at_s(stage: Stage) -> float:
    ((expires_at_ms,),) = stage.ask_ledger("SELECT expires_at_ms FROM lease")
    return as_boot_s(stage, expires_at_ms)


def admitted_at_s(stage: Stage) -> dict[str, float]:
    """Return when each effect was admitted."""
    found = stage.ask_ledger(
        "SELECT e.key, a.created_at_ms FROM attempt a JOIN effect e ON e.id = a.effect_id"
    )
    started_s = as_boot_s(stage, 0)
    return {key: started_s + at_ms / 1000 for key, at_ms in found}


async def until_renewed(relay: Relay, more: int) -> None:
    goal = relay.renewed + more
    await until(lambda: relay.renewed >= goal, f"{more} renewals at the gateway")


async def told_of(stage: Stage) -> dict[str, Any]:
    return await Holder(stage, "watcher#1").look()


async def test_without_an_answer_in_time_nothing_is_sent_though_the_lease_is_live(stage):
    await begin(stage)
    async with running_relay(stage.port) as relay, bustling(stage, relay) as worker:
        await until_renewed(relay, 2)

        relay.open.clear()
        async with asyncio.timeout(2 * TTL_S):
            lost = await worker.leaderships[0].wait_lost()
        deadline_s = worker.leaderships[0].until_s
        lease = await told_of(stage)
        relay.open.set()
        await until(lambda: boot_s() > deadline_s + MARGIN_S, "end of the margin")
        after = await told_of(stage)
        admitted = admitted_at_s(stage)
        received = await stage.received_keys()

    last_sent_s, last_admitted_s = max(worker.sent_at_s.values()), max(admitted.values())
    print(
        f"late renewals: {len(received)} effects; deadline in the worker {TTL_S - MARGIN_S:g} s "
        f"after the last renewal that was answered; last effect sent "
        f"{(deadline_s - last_sent_s) * 1000:.0f} ms before it, admitted "
        f"{(deadline_s - last_admitted_s) * 1000:.0f} ms before it; the lease was live for "
        f"another {lease['remaining_ms']} ms, in which the worker kept {worker.refused} back"
    )
    assert last_sent_s < deadline_s
    assert last_admitted_s < deadline_s + ON_THE_WAY_S
    assert deadline_s - last_sent_s < 0.5, "it sent until then"
    assert (lease["holder"], lease["term"]) == (worker.elector.holder, 1)
    assert lease["remaining_ms"] > MARGIN_S * 1000 - 100
    assert (after["term"], after["transitions"]) == (1, 1)
    assert lost.reason == "margin"
    assert sorted(received) == sorted(admitted)
    assert worker.refused > 10


async def test_a_lost_answer_costs_nothing(stage):
    await begin(stage)
    async with running_relay(stage.port) as relay, bustling(stage, relay) as worker:
        await until_renewed(relay, 1)

        relay.lost = 1
        await until(lambda: relay.lost == 0, "loss of an answer")
        renewed, sent = relay.told, len(worker.sent_at_s)
        await until(lambda: relay.told >= renewed + 2, "two more renewals")
        await until(lambda: len(worker.sent_at_s) > sent + 5, "more effects")
        lease = await told_of(stage)

        assert worker.leaderships[0].lost is None
    assert worker.states >= {"leader-renewing", "leader-uncertain"}
    assert (lease["holder"], lease["term"]) == (worker.elector.holder, 1)
    assert stage.ask_ledger("SELECT DISTINCT term FROM attempt") == [(1,)]
    assert stage.ask_ledger("SELECT count(*) FROM transition WHERE kind = 'leader-lost'") == [(1,)]
    assert set(await stage.outcomes()) <= set(worker.sent_at_s)
    assert len(await stage.applied_keys()) >= len(worker.sent_at_s) - 1


async def test_answers_that_are_slow_prove_no_more_than_they_say(stage):
    await begin(stage)
    async with running_relay(stage.port) as relay, bustling(stage, relay) as worker:
        leadership = worker.leaderships[0]
        spare = []
        for _ in range(3):
            relay.open.clear()
            await until_renewed(relay, 1)
            told = relay.told
            await asyncio.sleep(RENEW_S / 2)  # the delay is the scenario
            relay.open.set()
            await until(lambda told=told: relay.told > told, "delivery of a late answer")
            believed_s = leadership.until_s
            spare.append(expires_at_s(stage) - believed_s)

        assert leadership.lost is None
    print(f"late renewals: believed in {min(spare):.3f} s less than the store at the least")
    assert min(spare) >= MARGIN_S
