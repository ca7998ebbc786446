"""Destinations that nobody here wrote: what is sent after an unknown outcome, and what they did.

Each case loses one thing on the wire. `sent` counts what left the gateway, `done` what the server
shows afterwards, asked directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.demo.processes import Children
from tests.house import FUNCTION, House, running_house
from tests.proxy.setting import effects
from tests.standins.lossy_wire import LossyWire, lossy_wire
from tests.standins.real_servers import Server, rows, start_kinto, start_pocketbase

WITHIN_S = 20.0
HEAD = """
destination: crm
base_url: http://127.0.0.1:{port}{prefix}
checked: 2026-11-30
limits: {{timeout: 1s, connect: 500ms, settle: 300ms, barrier_wait: 300ms}}
connections: fresh
routes:
"""
KINTO = """
  - match: POST /buckets/crm/collections/deals/records
    does: write
    guard: unique_field
    covers: "deals/new/{effect}"
    send_as:
      request: PUT /buckets/crm/collections/deals/records/{effect}
      header: {If-None-Match: "*"}
    result:
      - {when: {status: 201}, is: confirmed}
      - {when: {status: 412}, is: look}
    look:
      request: GET /buckets/crm/collections/deals/records/{effect}
      settle: 100ms
      found: {status: 200}
      missing: {status: 404}
  - match: PATCH /buckets/crm/collections/deals/records/{id}
    does: write
    guard: version
    covers: "deals/{id}"
    stamp: {data.mark: "{effect}"}
    version: {send: If-Match, from: worker, exact: true, lost_when: {status: 412}}
    look:
      request: GET /buckets/crm/collections/deals/records/{id}
      settle: 100ms
      found: {status: 200, same: {data.mark: "{effect}"}}
      missing: {status: 200}
  - match: PATCH /buckets/crm/collections/notes/records/{id}
    does: write
    guard: version
    covers: "notes/{id}"
    version: {send: If-Match, from: worker, exact: true, lost_when: {status: 412}}
"""
TABLE = """
  - match: POST /collections/{{table:{table}}}/records
    does: write
    guard: {guard}
    covers: "{{table}}/new/{{effect}}"
    stamp: {{mark: "{{effect}}"}}
    look:
      request: GET /collections/{{table}}/records?filter=mark%3D'{{effect}}'
      settle: 100ms
      each: items
      found: {{status: 200, same: {{mark: "{{effect}}"}}}}
      missing: {{status: 200, json: {{totalItems: 0}}}}
      if_still_missing: resend
"""
POCKETBASE = TABLE.format(table="deals", guard="unique_field") + TABLE.format(
    table="notes", guard="look_first"
)


@dataclass
class Place:
    """A gateway in front of a real server, and the wire between them."""

    house: House
    server: Server
    wire: LossyWire

    async def lost(
        self, case: str, what: str, method: str, path: str, body: Any, **more: str
    ) -> None:
        """Send a write of which something is lost on the wire."""
        self.wire.lose[case] = what
        worker = self.house.worker()
        got = await worker.send(method, path, key=case, body=body, X_Case=case, **more)
        assert got.problem == "outcome-unknown", got

    async def ended(self, case: str) -> dict[str, Any]:
        """Wait until the effect is settled or in a person's hands; return it."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                (shown,) = [one for one in await effects(self.house) if one["key"] == case]
                known = shown["outcome"] not in (None, "unknown")
                if known or shown["state"] == "exception":
                    return shown
                await asyncio.sleep(0.05)  # the gateway has no event for it

    async def reasons(self) -> list[str]:
        cases = (await self.house.get("/v1/exceptions")).json["items"]
        return [str(case["reason"]) for case in cases]

    def tell(self, name: str, case: str, done: int, shown: dict[str, Any]) -> None:
        print(
            f"{name:10} {case:32} sent {self.wire.writes[case]}, done {done}: "
            f"{shown['outcome']} by {shown['resolved_by']}"
        )


@asynccontextmanager
async def in_front_of(server: Server, routes: str, folder: Path) -> AsyncIterator[Place]:
    async with lossy_wire(server.port) as wire:
        text = HEAD.format(port=wire.port, prefix=server.prefix) + routes
        policies = {"crm": text, "relatorio": FUNCTION}
        async with running_house(folder, policies) as house:
            yield Place(house, server, wire)


@pytest.fixture(scope="module")
def kinto_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("kinto")
    with Children(folder) as children:
        yield asyncio.run(start_kinto(children, folder))


@pytest.fixture(scope="module")
def pocketbase_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("pocketbase")
    with Children(folder) as children:
        yield asyncio.run(start_pocketbase(children, folder))


@pytest.fixture
async def kinto(tmp_path: Path, kinto_server: Server) -> AsyncIterator[Place]:
    async with in_front_of(kinto_server, KINTO, tmp_path) as place:
        yield place


@pytest.fixture
async def pocketbase(tmp_path: Path, pocketbase_server: Server) -> AsyncIterator[Place]:
    async with in_front_of(pocketbase_server, POCKETBASE, tmp_path) as place:
        yield place


DEALS = "/buckets/crm/collections/deals/records"
NOTES = "/buckets/crm/collections/notes/records"


async def a_record(place: Place, path: str) -> str:
    """Make a record behind the gateway's back; return its version as If-Match has it."""
    got = await place.server.send("PUT", path, {"data": {"stage": "new"}})
    assert got.status == 201, got
    return got.headers["ETag"]


async def test_creates_that_kinto_answers_for_exist_once_whatever_was_lost(kinto: Place):
    cases = {"create-answer-lost": "answer", "create-request-lost": "request"}

    for case, what in cases.items():
        await kinto.lost(case, what, "POST", DEALS, {"data": {"title": case}})
    shown = {case: await kinto.ended(case) for case in cases}
    found = (await kinto.server.get(DEALS))["data"]
    kept = [one["title"] for one in found if "title" in one]

    for case in cases:
        kinto.tell("kinto", case, kept.count(case), shown[case])
    assert {case: kinto.wire.writes[case] for case in cases} == dict(
        zip(cases, (1, 2), strict=True)
    )
    assert sorted(kept) == sorted(cases)
    assert [one["outcome"] for one in shown.values()] == ["confirmed", "confirmed"]


async def test_changes_under_kintos_versions_happen_once_or_not_at_all(kinto: Place):
    versions = {name: await a_record(kinto, f"{DEALS}/{name}") for name in ("a", "b", "c")}
    lost = {"a": "answer", "b": "request", "c": "request"}

    for name, what in lost.items():
        change = {"data": {"stage": "won"}}
        more = {"If_Match": versions[name]}
        await kinto.lost(f"change-{name}", what, "PATCH", f"{DEALS}/{name}", change, **more)
    await kinto.server.send("PATCH", f"{DEALS}/c", {"data": {"stage": "lost"}})
    shown = {name: await kinto.ended(f"change-{name}") for name in lost}

    stages = {name: (await kinto.server.get(f"{DEALS}/{name}"))["data"]["stage"] for name in lost}
    for name in lost:
        kinto.tell("kinto", f"change-{name}", int(stages[name] == "won"), shown[name])
    assert stages == {"a": "won", "b": "won", "c": "lost"}
    assert [kinto.wire.writes[f"change-{name}"] for name in lost] == [1, 2, 1]
    assert [one["outcome"] for one in shown.values()] == ["confirmed", "confirmed", "no-effect"]


async def test_the_same_condition_sent_again_cannot_change_a_kinto_record_twice(kinto: Place):
    version = await a_record(kinto, f"{NOTES}/n")

    change = {"data": {"stage": "won"}}
    await kinto.lost("again", "answer", "PATCH", f"{NOTES}/n", change, If_Match=version)
    after = (await kinto.server.send("GET", f"{NOTES}/n")).headers["ETag"]
    shown = await kinto.ended("again")

    last = (await kinto.server.send("GET", f"{NOTES}/n")).headers["ETag"]
    kinto.tell("kinto", "again", int(version != after), shown)
    assert version != after == last
    assert kinto.wire.writes["again"] == 2
    assert await kinto.reasons() == ["condition-lost"]


async def test_rows_of_pocketbase_exist_once_whatever_was_lost(pocketbase: Place):
    cases = {
        f"{table}-{what}-lost": (table, what)
        for table in ("deals", "notes")
        for what in ("answer", "request")
    }

    for case, (table, what) in cases.items():
        path = f"/collections/{table}/records"
        await pocketbase.lost(case, what, "POST", path, {"title": case})
    shown = {case: await pocketbase.ended(case) for case in cases}

    for case, (table, what) in cases.items():
        done = len(await rows(pocketbase.server, table, case))
        pocketbase.tell("pocketbase", case, done, shown[case])
        assert done == 1
        assert pocketbase.wire.writes[case] == (1 if what == "answer" else 2)
        assert shown[case]["outcome"] == "confirmed"


async def test_pocketbase_itself_rejects_a_second_row_with_our_mark(pocketbase: Place):
    worker = pocketbase.house.worker()
    made = await worker.post("/collections/deals/records", "once", {"title": "once"}, X_Case="once")
    (row,) = await rows(pocketbase.server, "deals", "once")

    again = await pocketbase.server.send(
        "POST", "/collections/deals/records", {"title": "twice", "mark": row["mark"]}
    )

    assert (made.status, again.status) == (200, 400)
    assert await rows(pocketbase.server, "deals", "twice") == []
