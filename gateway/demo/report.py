"""The daily sales report, as its users write it on `gateway.client`.

    FENCEGATE_URL=… FENCEGATE_TOKEN=… python -m gateway.demo.report coordinate relatorio-a
    FENCEGATE_URL=… FENCEGATE_TOKEN=… python -m gateway.demo.report work worker-1

Any number of each may run. One coordinator leads at a time: it opens the day's unit, with one
item for each opportunity in the CRM, sees to it that all are worked on, and publishes one report.
Workers look at one opportunity each, and write down what is wrong with it. No customer is
contacted.

Everything that a successor needs is at the gateway. `Prompter` is where the demo and the drill
look over this program's shoulder; on its own it has none.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gateway.client import CandidateReport, ClaimedItem, Elector, Leadership, Unit, UnitWorker
from gateway.client.errors import (
    ClaimLost,
    Duplicate,
    FencegateError,
    LeadershipLost,
    NotClaimed,
    NotInCommand,
    OutcomeUnknown,
    UnitClosed,
    UnitUnknown,
    is_retryable,
)

LOG: Final = logging.getLogger("report")
FUNCTION: Final = "relatorio-comercial-diario"
CRM: Final = "crm"
BUILD: Final = "2026.10"
PUBLISH: Final = "publish the report"
CLAIM_S: Final = 30.0
LOOK_AGAIN_S: Final = 0.1
OPEN_STATES: Final = ("pending", "claimed", "uncertain")
SETTLE_S: Final = 25.0
"""How long a worker asks again what became of an effect, before it leaves the item to others."""


@dataclass(frozen=True, slots=True)
class Day:
    """The day that is reported on."""

    date: str = "2026-10-02"
    period_start: str = "2026-10-01T00:00:00-03:00"
    period_end: str = "2026-10-01T23:59:59-03:00"
    criteria: str = "2026-10"

    @property
    def unit(self) -> str:
        return f"relatorio-comercial:{self.date}"


class Prompter(Protocol):
    """Hears where the program is, and may let it wait there."""

    async def reach(
        self, point: str, leadership: Leadership | None = None, **facts: Any
    ) -> None: ...


class Unheard:
    """Nobody listens."""

    async def reach(self, point: str, leadership: Leadership | None = None, **facts: Any) -> None:
        return


@dataclass(frozen=True, slots=True)
class Report:
    """The program: which day, who listens, and whether a coordinator works on items itself."""

    day: Day = field(default_factory=Day)
    prompter: Prompter = field(default_factory=Unheard)
    works: bool = False

    # -- coordinating

    async def coordinate(self, elector: Elector) -> None:
        """Follow until the report is published, by this replica or by another."""
        async with elector:
            async for leadership in elector:
                try:
                    async with leadership:  # its body is cut off when the leadership is lost
                        await self.prompter.reach("leads", leadership, term=leadership.term)
                        await self._lead(leadership)
                        return
                except FencegateError as error:  # the next leader goes on, perhaps this one
                    LOG.warning(
                        "the report is not finished under term %d: %s", leadership.term, error
                    )
                    await asyncio.sleep(LOOK_AGAIN_S)

    async def _lead(self, leadership: Leadership) -> None:
        unit = await self._open(leadership)
        if unit.told.state == "unit-completed":
            await self.prompter.reach("published", leadership, by="another")
            return
        await self.prompter.reach("manifest", leadership, created=unit.created)
        await self._follow(unit)
        await self.prompter.reach("closing", leadership)
        await self._publish(leadership, unit)
        await self.prompter.reach("published", leadership, by=leadership.holder)

    async def _open(self, leadership: Leadership) -> Unit:
        """Open the day's unit, or find it as an earlier leader left it."""
        listed = await leadership.effect("GET", CRM, "/opportunities?limit=1000", patience_s=5)
        items = [{"id": one["id"], "data": one} for one in listed.json()["items"]]
        day = self.day
        return await leadership.open_unit(
            day.unit,
            {"sources": ["crm:opportunities"], "criteria_version": day.criteria, "items": items},
            period_start=day.period_start,
            period_end=day.period_end,
        )

    async def _follow(self, unit: Unit) -> None:
        """Wait until every item has an end, whoever works on it. An item whose effect nobody
        knows is not handed out before that is settled, so items may come up late."""
        while True:
            if self.works:
                await self._work_through(unit)
            told = await unit.look()
            if not any(told.items.get(state) for state in OPEN_STATES):
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _publish(self, leadership: Leadership, unit: Unit) -> None:
        findings: Counter[str] = Counter()
        async for item in unit.items():
            findings[str((item.result or {}).get("finding"))] += 1
        said = ", ".join(f"{count} {finding}" for finding, count in sorted(findings.items()))
        with unit, leadership.step(PUBLISH):
            await confirmed(leadership, {"external_id": unit.key, "text": said})
        await unit.complete(dict(findings))

    async def _work_through(self, unit: Unit) -> None:
        while items := await unit.claim(limit=2, ttl_s=CLAIM_S):
            for item in items:
                await self._look_at(item)

    # -- working

    async def work(self, worker: UnitWorker) -> None:
        """Work on items until the unit is closed, under whichever leader there is."""
        async with worker:
            while True:
                try:
                    items = await worker.claim(limit=1, ttl_s=CLAIM_S)
                    for item in items:
                        await self._look_at(item)
                    if items:
                        continue
                except UnitClosed:
                    return
                except LeadershipLost:  # nobody leads now; perhaps all is done
                    if await _is_closed(worker):
                        return
                except (ClaimLost, NotClaimed, NotInCommand) as gone:
                    await self.prompter.reach("claim-lost", why=gone.slug or type(gone).__name__)
                except FencegateError as error:
                    waits = isinstance(error, UnitUnknown) or is_retryable(error)
                    if not waits:
                        raise
                await asyncio.sleep(LOOK_AGAIN_S)

    async def _look_at(self, item: ClaimedItem) -> None:
        """Find out what is wrong with one opportunity, note it in the CRM, and report."""
        resumed_from = item.version
        if item.saved is None:
            await self.prompter.reach("claimed", item=item.id)
            await item.checkpoint({"finding": finding_of(item.data)})
        finding = item.saved["finding"]
        await self.prompter.reach("checkpointed", item=item.id)
        with item:
            await confirmed(item, {"external_id": item.id, "about": item.id, "text": finding})
        await self.prompter.reach("noted", item=item.id)
        await item.done({"finding": finding, "resumed_from": resumed_from})


async def confirmed(sender: Leadership | ClaimedItem, note: Mapping[str, Any]) -> None:
    """Write a note into the CRM, and return once it is known to be there.

    Asking again under the same key is safe: while nobody knows what became of the first try, the
    gateway sends nothing, and once it is known that it is there, it says so.
    """
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + SETTLE_S
    while True:
        try:
            await sender.effect("POST", CRM, "/notes", json=dict(note), patience_s=5, wait_s=5)
            return
        except Duplicate:  # it is there; what the CRM answered is not known any more
            return
        except OutcomeUnknown:
            if loop.time() > give_up_s:
                raise
        await asyncio.sleep(LOOK_AGAIN_S)


async def _is_closed(worker: UnitWorker) -> bool:
    try:
        return (await worker.look()).state in ("unit-completed", "unit-abandoned")
    except FencegateError:  # it is not open yet, or the gateway is away; ask again
        return False


def finding_of(opportunity: Mapping[str, Any]) -> str:
    """Say what is wrong with an opportunity: by rules, not by anybody's opinion."""
    if opportunity.get("value") is None:
        return "data missing"
    if not opportunity.get("name"):
        return "incomplete"
    if opportunity.get("stage") == "won" and opportunity.get("open"):
        return "stage conflict"
    return "in order" if opportunity.get("next_step") else "no next step"


async def main(kind: str, name: str) -> None:
    report = Report()
    if kind == "coordinate":
        candidate = CandidateReport(version=BUILD)
        await report.coordinate(Elector(function=FUNCTION, worker=name, candidate=candidate))
    else:
        await report.work(UnitWorker(function=FUNCTION, unit=report.day.unit, worker=name))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("coordinate", "work"):
        sys.exit("write: python -m gateway.demo.report coordinate|work NAME")
    asyncio.run(main(sys.argv[1], sys.argv[2]))
