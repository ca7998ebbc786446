"""`fencegate leases` and `fencegate functions`: through a gateway, beside it, and at rest."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.exits import Exit
from gateway.cli.leases import line_of
from gateway.control.lease_views import terms_of
from gateway.core.ids import Scope
from gateway.core.lease import Ask
from gateway.demo.processes import clean_environment
from gateway.wire.leadership import LeaseOut, LeasePage, TransitionOut
from tests.cli.shelf import Shelf, at_rest
from tests.cli.terminal import Ended, call, run_beside
from tests.control.leading import LEASED, OPEN, PER_UNIT
from tests.house import FUNCTION, House, running_house
from tests.proxy.setting import destination, principals
from tests.raw_destination import RawDestination

SECRET = "fg_olga"


class Running:
    """A gateway with a leader, and the ways to ask about it."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.ledger = f"sqlite:///{folder / 'ledger.db'}"

    async def post(self, path: str, **body: Any) -> Any:
        got = await self.house.post(path, body, **{"Fence-Authorization": "Bearer fg_ana"})
        assert got.status in (200, 201), got.body
        return got.json

    async def v1(self, path: str) -> Any:
        return (await self.house.get(path, **{"Fence-Authorization": f"Bearer {SECRET}"})).json

    async def ask(self, *words: object, token: str = SECRET) -> Ended:
        given = {"FENCEGATE_TOKEN": token} if token else {}
        return await run_beside(*words, "--url", self.house.url, **given)

    async def on_file(self, *words: object) -> Ended:
        return await run_beside(*words, "--ledger", self.ledger)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    people = principals(tmp_path, ana="", olga="role: operator", vera="role: viewer")
    async with RawDestination() as crm:
        policies = {
            "crm": destination(crm), "relatorio": FUNCTION, "plantao": LEASED, "ronda": OPEN,
            "carteira": PER_UNIT,
        }  # fmt: skip
        async with running_house(tmp_path, policies, dev=False, principals=people) as house:
            running = Running(house, tmp_path)
            await running.post("/v1/leases/ronda/acquire", holder="ana#1")
            await running.post("/v1/leases/carteira/acquire", holder="ana#1", unit="u-1")
            yield running


async def test_leases_are_listed_one_to_a_line(running: Running) -> None:
    ended = await running.ask("leases", "ls")

    head, *rows = ended.out.splitlines()
    assert (ended.code, ended.err) == (Exit.OK, "")
    assert head.split()[:3] == ["FUNCTION", "UNIT", "STATE"]
    assert [row.split()[:3] for row in rows] == [
        ["carteira", "u-1", "leader-acquired"],
        ["plantao", "-", "candidate"],
        ["ronda", "-", "leader-acquired"],
    ]
    assert "ana#1" in rows[0]


async def test_pages_of_leases_follow_one_another(running: Running) -> None:
    first = await running.ask("leases", "ls", "--limit", 2)
    *_, more = first.out.splitlines()

    rest = await running.ask("leases", "ls", "--cursor", more.removeprefix("more: --cursor "))

    assert [line.split()[0] for line in rest.out.splitlines()] == ["FUNCTION", "ronda"]


async def test_json_is_what_v1_says_also_from_the_file(running: Running) -> None:
    listed = LeasePage.model_validate((await running.ask("leases", "ls", "--json")).json)
    shown = LeaseOut.model_validate((await running.ask("leases", "show", "ronda", "--json")).json)
    on_file = LeasePage.model_validate((await running.on_file("leases", "ls", "--json")).json)
    one = LeaseOut.model_validate((await running.on_file("leases", "show", "ronda", "--json")).json)

    assert [item.function for item in listed.items] == ["carteira", "plantao", "ronda"]
    assert [item.function for item in on_file.items] == ["carteira", "ronda"]
    for each in (shown, one):
        assert (each.holder, each.term, each.in_flight) == ("ana#1", 1, 0)


async def test_a_lease_is_told_in_words(running: Running) -> None:
    ended = await running.ask("leases", "show", "carteira", "--unit", "u-1")

    assert ended.code == Exit.OK
    for words in ("scope        carteira, unit u-1", "ana#1 under term 1", "in flight    0"):
        assert words in ended.out


async def test_an_operator_ends_exactly_the_lease_that_is_named(running: Running) -> None:
    wrong = await running.ask("leases", "release", "ronda", "--holder", "ana#1", "--term", 2)
    done = await running.ask("leases", "release", "ronda", "--holder", "ana#1", "--term", 1)
    unit = await running.ask(
        "leases", "release", "carteira", "--holder", "ana#1", "--term", 1, "--unit", "u-1"
    )

    assert wrong.code == Exit.CONFLICT
    assert "term 2" in wrong.said
    assert (done.code, unit.code) == (Exit.OK, Exit.OK)
    assert "ended        released: ana#1, term 1" in done.out
    assert (await running.v1("/v1/leases/ronda"))["holder"] is None


@pytest.mark.parametrize(
    ("words", "token", "code", "said"),
    [
        (["leases", "ls"], "", 1, "carries no token"),
        (["leases", "ls", "--cursor", "nonsense"], SECRET, 2, "'nonsense'"),
        (["leases", "show", "nobody"], SECRET, 4, "'nobody'"),
        (["leases", "show", ".."], SECRET, 4, "'..'"),
        (["leases", "show", "carteira"], SECRET, 2, "leadership: unit"),
        (["leases", "watch"], "", 1, "carries no token"),
        (["functions", "show", "nobody"], SECRET, 4, "'nobody'"),
        (["leases", "release", "ronda", "--holder", "a#1", "--term", "1"], "fg_vera", 1, "403"),
        (["leases", "release", "ronda", "--holder", "a b", "--term", "1"], SECRET, 2, "'a b'"),
    ],
)
async def test_what_the_gateway_refuses_is_told_with_a_way_on(
    running: Running, words: list[str], token: str, code: int, said: str
) -> None:
    ended = await running.ask(*words, token=token)

    assert ended.code == code
    assert said in ended.said
    assert "fg_" not in ended.err


@asynccontextmanager
async def watching(running: Running, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "leases", "watch", "--url", running.house.url, *words,
        env={**clean_environment(), "FENCEGATE_TOKEN": SECRET},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 20)).decode()


async def test_transitions_are_watched_as_they_happen(running: Running) -> None:
    async with watching(running, "--function", "ronda", "--after", "0") as process:
        assert "candidate  ronda" in await line(process)
        assert "leader-acquired  ronda  term=1  holder=ana#1" in await line(process)

        await running.post("/v1/leases/ronda/release", holder="ana#1", term=1)

        assert "leader-lost" in await line(process)
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 20) in (0, 130)


async def test_what_is_watched_is_json_for_a_script(running: Running) -> None:
    async with watching(running, "--json", "--after", "0", "--count", "2") as process:
        told = [TransitionOut.model_validate_json(await line(process)) for _ in range(2)]
        assert await asyncio.wait_for(process.wait(), 20) == Exit.OK

    assert [each.kind for each in told] == ["candidate", "leader-acquired"]


def test_a_line_cannot_move_the_cursor():
    transition = dict.fromkeys(TransitionOut.model_fields) | {
        "at": "now", "kind": "effect-resolved", "function": "f", "reason": "a\n\x1b[2Jb",
    }  # fmt: skip

    assert line_of(transition) == "now  effect-resolved  f  reason=a  [2Jb"


async def test_functions_are_listed_and_shown(running: Running) -> None:
    listed = await running.ask("functions", "ls")
    shown = await running.ask("functions", "show", "ronda")
    as_json = await running.ask("functions", "show", "plantao", "--json")

    head, *rows = listed.out.splitlines()
    assert head.split()[:3] == ["FUNCTION", "AUTHORITY", "LEADERSHIP"]
    assert [row.split()[:3] for row in rows] == [
        ["carteira", "lease", "unit"], ["plantao", "lease", "function"],
        ["relatorio", "external", "function"], ["ronda", "lease", "function"],
    ]  # fmt: skip
    for words in ("ttl 20s, renew_every 5s, margin 3s", "leader-acquired", "CANDIDATE", "ana#1"):
        assert words in shown.out
    assert as_json.json == await running.v1("/v1/functions/plantao")


class Desk:
    """The command line over a ledger at rest, with one live lease in it."""

    def __init__(self, path: Path) -> None:
        self.ledger = f"sqlite:///{path}"
        at_rest(path, self._fill)

    @staticmethod
    async def _fill(shelf: Shelf) -> None:
        await shelf.ledger.acquire(
            Scope("ronda"),
            Ask(holder="ana#1", principal="ana"),
            supersede=False,
            report=None,
            terms=terms_of(None),
        )

    def leases(self, *words: object) -> Ended:
        return call("leases", *words, "--ledger", self.ledger)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "ledger.db")


def test_a_ledger_at_rest_is_read(desk: Desk):
    assert desk.leases("ls", "--json").json["items"][0]["holder"] == "ana#1"
    assert "ana#1 under term 1" in desk.leases("show", "ronda").out
    assert desk.leases("ls", "--function", "nobody", "--json").json["items"] == []
    missing = desk.leases("show", "ronda", "--unit", "u-1")
    assert missing.code == Exit.NOT_FOUND
    assert "'u-1'" in missing.said


def test_a_lease_is_released_in_the_file(desk: Desk):
    wrong = desk.leases("release", "ronda", "--holder", "ana#1", "--term", 7)
    done = desk.leases("release", "ronda", "--holder", "ana#1", "--term", 1)

    assert wrong.code == Exit.CONFLICT
    assert "names term 7" in wrong.said
    assert (done.code, "released: ana#1" in done.out) == (Exit.OK, True)


async def test_the_file_is_not_written_while_a_gateway_owns_it(running: Running) -> None:
    ended = await running.on_file("leases", "release", "ronda", "--holder", "ana#1", "--term", 1)

    assert ended.code == Exit.UNAVAILABLE
    assert "--url" in ended.said


@pytest.mark.parametrize(
    "words",
    [
        ["leases", "watch"],
        ["functions", "ls"],
        ["leases", "release", "ronda"],
        ["leases", "release", "ronda", "--holder", "a#1", "--term", "0"],
        ["leases", "ls", "--limit", "0"],
        ["leases", "ls", "--url", "http://127.0.0.1:1", "--ledger", "sqlite:///x.db"],
    ],
)
def test_words_that_cannot_be_meant_are_wrong_usage(words: list[str]):
    ended = call(*words)

    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("words", [["leases", "ls"], ["leases", "watch"], ["functions", "ls"]])
def test_a_gateway_that_does_not_run_is_told_so(words: list[str]):
    ended = call(*words, "--url", "http://127.0.0.1:1")

    assert ended.code == Exit.UNAVAILABLE
    assert "Connection refused" in ended.said
