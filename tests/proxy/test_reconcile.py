"""Unknown effects are settled by their route's guard; what counts is what the destination did."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.house import FUNCTION, House, running_house
from tests.proxy.setting import effects
from tests.raw_destination import RawDestination, Received, Wire, answer, fin

WITHIN_S = 15.0
SEAL_S = 0.9  # timeout and settle of the policy below
POLICY = """
destination: crm
base_url: {url}
checked: 2026-11-30
limits: {{timeout: 600ms, connect: 500ms, settle: 300ms, barrier_wait: 5s}}
connections: fresh
routes:
  - {{match: "GET|HEAD /{{rest*}}", does: read}}
  - match: POST /notes
    does: write
    guard: {guard}
    covers: "notes/new/{{effect}}"
    stamp: {{mark: "{{effect}}", term: "{{term}}"}}
    look:
      request: GET /notes?mark={{effect}}
      reads: record
      settle: 100ms
      each: items
      found: {{status: 200, same: {{mark: "{{effect}}"}}}}
      missing: {{status: 200, json: {{items: {{present: true}}}}}}
      if_still_missing: {missing}
  - match: PATCH /notes/{{id}}
    does: write
    guard: none
    covers: "notes/{{id}}"
"""


@dataclass
class Notes:
    """A destination that loses answers, or carries requests out late."""

    loses: list[str] = field(default_factory=list)
    """What becomes of the next POSTs: `answer` or `request` is lost; `late` is carried out only
    when somebody has asked for it in vain."""
    notes: list[dict[str, Any]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    hang: set[str] = field(default_factory=set)
    twice: bool = False
    late: list[dict[str, Any]] = field(default_factory=list)
    said: list[int] = field(default_factory=list)
    """How many notes each question was answered with."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: Received, wire: Wire) -> None:
        match request.method:
            case "GET":
                await self.tell(request, wire)
            case "PATCH":
                self.order.append(json.loads(request.body)["by"])
                self.asked.set()
                if request.path not in self.hang:
                    await answer(200)(request, wire)
                self.hang.discard(request.path)
            case _:
                await self.take(request, wire)

    async def tell(self, request: Received, wire: Wire) -> None:
        mark = request.target.rpartition("mark=")[2]
        items = [note for note in self.notes if note["mark"] == mark] * (2 if self.twice else 1)
        body = json.dumps({"items": items}).encode()
        await answer(200, body, [("Content-Type", "application/json")])(request, wire)
        self.said.append(len(items))
        self.notes += self.late
        self.late.clear()

    async def take(self, request: Received, wire: Wire) -> None:
        lost = self.loses.pop(0) if self.loses else ""
        if lost != "request":
            (self.late if lost == "late" else self.notes).append(json.loads(request.body))
        await (fin if lost else answer(201))(request, wire)


@dataclass
class Shop:
    house: House
    notes: Notes
    wire: RawDestination

    @property
    def writes(self) -> int:
        return sum(request.method == "POST" for request in self.wire.received)

    async def ended(self) -> dict[str, Any]:
        """Wait until the effect under k-1 is settled or in a person's hands; return it."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                [shown] = [one for one in await effects(self.house) if one["key"] == "k-1"]
                if shown["outcome"] == "confirmed" or shown["state"] == "exception":
                    return dict(shown)
                await asyncio.sleep(0.02)  # the gateway has no event for it

    async def exception(self) -> str:
        (case,) = (await self.house.get("/v1/exceptions")).json["items"]
        return str(case["reason"])


@pytest.fixture
async def wire() -> AsyncIterator[RawDestination]:
    async with RawDestination() as running:
        yield running


async def open_shop(
    tmp_path: Path, wire: RawDestination, guard: str = "unique_field", missing: str = "resend"
) -> Any:
    wire.default = Notes()
    text = POLICY.format(url=wire.url, guard=guard, missing=missing)
    return running_house(tmp_path, {"crm": text, "relatorio": FUNCTION})


async def test_a_write_that_took_effect_is_found_at_once(tmp_path: Path, wire: RawDestination):
    async with await open_shop(tmp_path, wire) as house:
        shop = Shop(house, wire.default, wire)
        shop.notes.loses = ["answer"]

        began = asyncio.get_running_loop().time()
        got = await house.worker().post("/notes", "k-1", {"text": "a"})
        effect = await shop.ended()
        took_s = asyncio.get_running_loop().time() - began

    print(f"confirmed by a probe {took_s * 1000:.0f} ms after it was sent; its seal is at 900 ms")
    assert got.problem == "outcome-unknown"
    assert (effect["outcome"], effect["resolved_by"]) == ("confirmed", "probe")
    assert (len(shop.notes.notes), shop.writes) == (1, 1)
    assert took_s < 0.9


async def test_a_write_that_lands_after_a_probe_in_vain_is_found_after_the_seal(
    tmp_path: Path, wire: RawDestination
):
    async with await open_shop(tmp_path, wire) as house:
        shop = Shop(house, wire.default, wire)
        shop.notes.loses = ["late"]
        began = asyncio.get_running_loop().time()

        await house.worker().post("/notes", "k-1", {"text": "a"})
        effect = await shop.ended()
        took_s = asyncio.get_running_loop().time() - began

    print(f"looks found {shop.notes.said}; confirmed {took_s * 1000:.0f} ms after it was sent")
    assert (effect["outcome"], effect["resolved_by"]) == ("confirmed", "probe")
    assert (shop.notes.said[0], shop.notes.said[-1]) == (0, 1)  # it landed between the two
    assert (len(shop.notes.notes), shop.writes) == (1, 1)
    assert took_s >= SEAL_S  # a look before the seal had found nothing, which proved nothing


async def test_a_write_that_never_came_is_sent_again_once_under_the_term_that_is_live_then(
    tmp_path: Path, wire: RawDestination
):
    async with await open_shop(tmp_path, wire) as house:
        shop = Shop(house, wire.default, wire)
        shop.notes.loses = ["request"]
        began = asyncio.get_running_loop().time()

        await house.worker("old#1", term=1).post("/notes", "k-1", {"text": "a"})
        successor = house.worker("new#1", term=2)
        await successor.send("PATCH", "/notes/9", key="k-2", body={"by": "new"})
        effect = await shop.ended()
        took_s = asyncio.get_running_loop().time() - began
        sent = [json.loads(one.body) for one in wire.received if one.method == "POST"]

    assert effect["outcome"] == "confirmed"
    told = [(attempt["term"], attempt["outcome"]) for attempt in effect["attempts"]]
    assert told == [(1, "no-effect"), (2, "confirmed")]
    assert [str(one["term"]) for one in sent] == ["1", "2"]
    assert (shop.notes.notes, shop.notes.said) == ([sent[1]], [0] * len(shop.notes.said))
    assert took_s >= SEAL_S


@pytest.mark.parametrize(
    ("loses", "twice", "missing", "reason"),
    [
        ("request", False, "park", "still-missing"),
        ("answer", True, "resend", "several-matches"),
    ],
)
async def test_what_the_route_does_not_settle_is_a_persons_matter(
    tmp_path: Path, wire: RawDestination, loses: str, twice: bool, missing: str, reason: str
):  # fmt: skip
    async with await open_shop(tmp_path, wire, missing=missing) as house:
        shop = Shop(house, wire.default, wire)
        shop.notes.loses, shop.notes.twice = [loses], twice

        await house.worker().post("/notes", "k-1", {"text": "a"})
        effect = await shop.ended()

        assert (effect["state"], await shop.exception()) == ("exception", reason)
        assert shop.writes == 1


async def test_a_new_term_waits_for_the_old_write_to_the_same_record_and_for_no_other(
    tmp_path: Path, wire: RawDestination
):
    async with await open_shop(tmp_path, wire) as house:
        shop = Shop(house, wire.default, wire)
        shop.notes.hang = {"/notes/1"}
        old, new = house.worker("old#1", term=1), house.worker("new#1", term=2)
        loop = asyncio.get_running_loop()

        hanging = asyncio.ensure_future(old.send("PATCH", "/notes/1", key="a", body={"by": "old"}))
        await asyncio.wait_for(shop.notes.asked.wait(), WITHIN_S)
        began = loop.time()
        other = await new.send("PATCH", "/notes/2", key="c", body={"by": "other"})
        other_s = loop.time() - began
        same = await new.send("PATCH", "/notes/1", key="b", body={"by": "new"})
        same_s = loop.time() - began
        await hanging

    print(f"another record waited {other_s * 1000:.0f} ms, the same one {same_s * 1000:.0f} ms")
    assert (other.status, same.status) == (200, 200)
    assert shop.notes.order == ["old", "other", "new"]
    assert other_s < 0.5 < same_s
