"""`fencegate reconcile`: how far the gateway has come, at a moment and as it goes on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.cli.exits import Exit
from gateway.cli.reconcile import Progressed, summary
from tests.cli.terminal import Ended, run_beside
from tests.house import FUNCTION, House, running_house
from tests.proxy.setting import eventually
from tests.raw_destination import RawDestination, Received, Wire, answer, fin

POLICY = """
destination: crm
base_url: {url}
checked: 2026-11-30
limits: {{timeout: 600ms, connect: 500ms, settle: 300ms, barrier_wait: 5s}}
connections: fresh
routes:
  - {{match: "GET /{{rest*}}", does: read}}
  - match: POST /notes
    does: write
    guard: look_first
    covers: "notes/new/{{effect}}"
    look:
      request: GET /notes?mark={{effect}}
      settle: 0s
      found: {{status: 200}}
      missing: {{status: 404}}
      if_still_missing: park
  - {{match: "POST /mail", does: write, guard: none, covers: "mail/{{effect}}"}}
"""


class Place:
    """A gateway with one effect that it looks for and one that a person has."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.ledger = f"sqlite:///{folder / 'ledger.db'}"
        self.found = asyncio.Event()

    async def crm(self, request: Received, wire: Wire) -> None:
        if request.method == "POST":
            await fin(request, wire)
        else:  # no answer to the question until the test lets it be found
            await answer(200 if self.found.is_set() else 500)(request, wire)

    async def ask(self, *words: str) -> Ended:
        return await run_beside("reconcile", "--url", self.house.url, *words)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with RawDestination() as crm:
        policies = {"crm": POLICY.format(url=crm.url), "relatorio": FUNCTION}
        async with running_house(tmp_path, policies) as house:
            place = Place(house, tmp_path)
            crm.default = place.crm
            for path in ("/notes", "/mail"):
                got = await house.worker().post(path, f"k{path[1:]}", {"text": "a"})
                assert got.problem == "outcome-unknown"

            async def left_to_a_person() -> bool:
                return bool((await house.get("/v1/exceptions")).json["items"])

            await eventually(left_to_a_person)
            yield place


async def test_it_shows_what_is_unknown_and_who_has_it(place: Place):
    told = await place.ask()
    at_rest = await run_beside("reconcile", "--ledger", place.ledger)

    first, head, row = told.out.splitlines()
    assert (told.code, told.err) == (Exit.OK, "")
    assert first.startswith("2 unknown: 1 looked for by the gateway, 1 with a person; the oldest")
    assert head.split() == ["FUNCTION", "DESTINATION", "LOOKED", "FOR", "WITH", "A", "PERSON"]
    assert row.split() == ["relatorio", "crm", "1", "1"]
    assert at_rest.out.splitlines()[1:] == [head, row]


async def test_it_looks_on_until_nothing_is_left_to_look_for(place: Place):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "reconcile", "--url", place.house.url, "--watch",
        "--every", "0.1", "--json", stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    first = json.loads(await asyncio.wait_for(process.stdout.readline(), 20))
    place.found.set()
    rest, _ = await asyncio.wait_for(process.communicate(), 30)

    last = json.loads(rest.splitlines()[-1])
    assert (first["seen"], first["settled"], first["looked_for"]) == (2, 0, 1)
    assert (last["seen"], last["settled"], last["looked_for"], last["with_a_person"]) == (
        2,
        1,
        0,
        1,
    )
    assert process.returncode == Exit.OK


async def test_with_nothing_unknown_it_says_so_and_does_not_wait(place: Place):
    ended = await place.ask("--watch", "--function", "another")

    assert (ended.code, ended.out) == (
        Exit.OK,
        "0 settled, 0 looked for, 0 with a person\n"
        "nothing is left to look for: 0 settled, 0 looked for, 0 with a person\n",
    )


def test_what_is_gone_from_the_list_is_settled():
    progressed = Progressed()
    one = {
        "id": "a", "exception_id": None, "created_at": "2026-12-01T00:00:00.000Z",
        "function": "f", "destination": "d",
    }  # fmt: skip
    progressed.take([one, one | {"id": "b"}])
    progressed.take([one | {"exception_id": "e"}])

    assert (progressed.done, progressed.settled) == (2, 1)
    assert summary(progressed.standing)[2].split() == ["f", "d", "0", "1"]
    assert summary(Progressed().standing) == ["nothing is unknown"]
