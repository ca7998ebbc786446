"""The commands that read a ledger itself: the same on a file and on a database."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.cli.exits import Exit
from gateway.clock import SystemClock
from gateway.control.lease_views import terms_of
from gateway.core import ids
from gateway.core.effect import Outcome
from gateway.core.ids import Scope
from gateway.core.lease import Ask
from gateway.core.work import ItemState
from gateway.store.homes import PostgresHome
from gateway.store.ledger import Ledger
from gateway.store.postgres import Where
from gateway.store.work import Claiming, Creating, Reporting
from gateway.store.work_records import Report, Speech
from tests.cli.terminal import Ended, call, run_beside
from tests.conformance.books import Books, BootClock
from tests.conformance.shelves import FileShelf, PostgresShelf, Shelf
from tests.conformance.test_cases import opened
from tests.conformance.working import OPEN_TO_CLAIMANTS, TTL_MS, plan
from tests.postgres_server import Server

DAY_MS = 86_400_000
LONG_AGO_MS = SystemClock().wall_ms() - 7 * DAY_MS // 2
UNIT = "report:2026-10"
NOT_THE_SAME = re.compile(r'"age_s": [0-9.]+')
"""How old something is goes by the moment of the look."""


@dataclass
class Ids:
    """What has to be named by its id, the same in both ledgers."""

    confirmed: str
    unknown: str
    exception: str


def speech(holder: str = "leader#7", **more: bool) -> Speech:
    return Speech(
        scope=Scope("report"), unit=UNIT, term=7, holder=holder, principal="worker",
        rules=OPEN_TO_CLAIMANTS, **more,
    )  # fmt: skip


async def acquire(ledger: Ledger) -> None:
    await ledger.acquire(
        Scope("ronda"), Ask(holder="ana#1", principal="ana"), supersede=False, report=None,
        terms=terms_of(None),
    )  # fmt: skip


async def fill(shelf: Shelf, wall_ms: int) -> Ids:
    """A little of everything, with the same ids and times wherever it is."""
    ids._chance.seed(7)
    books = await Books.open_at(shelf, BootClock(wall_ms))
    try:
        confirmed = await books.settled(Outcome.CONFIRMED, "k-1", unit="u-1")
        await books.settled(Outcome.REJECTED, "k-2", function="sweep")
        unknown = await books.settled(Outcome.UNKNOWN, "k-3", covers="crm /notes/3")
        case = await opened(books, unknown)
        await books.admit("k-4", destination="erp")
        await acquire(books.ledger)
        work = books.ledger.work
        await work(Creating(speech(), plan(f"lead-{n}" for n in range(5))))
        await work(Claiming(speech("w#1", leader_only=False), "w#1", 3, TTL_MS))
        reports = [
            Report(item="lead-0", state=ItemState.DONE, attempt=1),
            Report(item="lead-1", state=ItemState.UNCERTAIN, attempt=1, reason="it hung up"),
        ]
        await work(Reporting(speech("w#1", leader_only=False), reports))
    finally:
        ids._chance.seed()
        await books.close()
    return Ids(confirmed, unknown, case.id)


@dataclass
class Pair:
    """A file and a database that hold the same."""

    file: str
    database: str
    ids: Ids

    def both(self, *words: str) -> tuple[Ended, Ended]:
        named = [word.format(**vars(self.ids)) for word in words]
        on_file, on_database = (
            call(*named, "--ledger", ledger) for ledger in (self.file, self.database)
        )
        return on_file, on_database


@pytest.fixture(scope="module")
def pair(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    path = tmp_path_factory.mktemp("both") / "ledger.db"
    url = postgres_server.url(postgres_server.database())
    known = asyncio.run(fill(FileShelf(path), LONG_AGO_MS))
    assert asyncio.run(fill(PostgresShelf(url), LONG_AGO_MS)) == known
    return Pair(f"sqlite:///{path}", url, known)


@pytest.mark.parametrize(
    "words",
    [
        "effects ls",
        "effects ls --limit 2",
        "effects ls --cursor {unknown}",
        "effects ls --outcome unknown",
        "effects ls --outcome in-flight",
        "effects ls --function report --unit u-1 --destination crm --term 7",
        "effects show {confirmed}",
        "effects show {unknown}",
        "effects show nobody",
        "exceptions ls",
        "exceptions ls --function report --unit u-1",
        "exceptions ls --closed",
        "exceptions show {exception}",
        "exceptions show nothing",
        "leases ls",
        "leases ls --function ronda --limit 1",
        "leases show ronda",
        "leases show ronda --unit u-1",
        "units ls",
        "units ls --state unit-uncertain --function report --limit 1",
        f"units show {UNIT}",
        "units show none",
        f"units items {UNIT}",
        f"units items {UNIT} --state uncertain",
        f"units items {UNIT} --after 1 --limit 2",
    ],
)
@pytest.mark.parametrize("form", ["words", "json"])
def test_a_file_and_a_database_read_the_same(pair: Pair, words: str, form: str):
    on_file, on_database = pair.both(*words.split(), *(["--json"] if form == "json" else []))

    assert on_database.code == on_file.code in (Exit.OK, Exit.NOT_FOUND)
    assert on_database.err == on_file.err
    assert NOT_THE_SAME.sub("", on_database.out) == NOT_THE_SAME.sub("", on_file.out)
    assert on_file.out or on_file.code == Exit.NOT_FOUND


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Shelf]:
    """The URL of a ledger that is to be filled, and where it is filled."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db", FileShelf(tmp_path / "ledger.db")
    url = request.getfixturevalue("postgres_url")
    return url, PostgresShelf(url)


def test_what_a_person_decides_at_rest_is_written_down(empty: tuple[str, Shelf]):
    url, shelf = empty
    known = asyncio.run(fill(shelf, SystemClock().wall_ms()))

    def ask(*words: object) -> Ended:
        return call(*words, "--ledger", url)

    resolve = ("effects", "resolve", known.unknown, "--reason", "looked", "--as")
    early, resolved = ask(*resolve, "no-effect"), ask(*resolve, "confirmed")
    released = ask("leases", "release", "ronda", "--holder", "ana#1", "--term", 1)
    abandoned = ask("units", "abandon", UNIT, "--reason", "the window closed")

    assert (early.code, resolved.code) == (Exit.CONFLICT, Exit.OK)
    assert "by local-operator" in resolved.out
    assert "released: ana#1" in released.out
    assert "unit-abandoned" in abandoned.out
    assert ask(*resolve, "confirmed").code == Exit.CONFLICT
    assert ask("effects", "ls", "--outcome", "in-flight", "--json").json["items"] == []
    assert len(ask("exceptions", "ls", "--closed", "--json").json["items"]) == 1


def test_old_answers_are_let_go_at_rest(empty: tuple[str, Shelf]):
    url, shelf = empty
    asyncio.run(fill(shelf, LONG_AGO_MS))
    asked = ("ledger", "gc", "--ledger", url, "--older-than")

    assert call(*asked, "4d").out == "0 answers and 0 refusal records let go\n"
    assert call(*asked, "3d").out == "1 answers and 0 refusal records let go\n"
    assert call(*asked, "3d").out == "0 answers and 0 refusal records let go\n"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("ledger gc", "every hour"),
        ("effects resolve x --as confirmed --reason seen", "resolve through it with --url"),
        ("leases release ronda --holder ana#1 --term 1", "release through it with --url"),
    ],
)
async def test_a_database_with_a_gateway_on_it_is_read_and_not_changed(
    postgres_url: str, words: str, advice: str
):
    ledger = await Ledger.open_at(PostgresHome(Where(postgres_url)), SystemClock())
    try:
        await acquire(ledger)
        refused = await run_beside(*words.split(), "--ledger", postgres_url)
        seen = await run_beside("leases", "show", "ronda", "--json", "--ledger", postgres_url)
    finally:
        await ledger.close()

    assert refused.code == Exit.UNAVAILABLE
    assert "in use by 1 gateway" in refused.said
    assert advice in refused.said
    assert seen.json["holder"] == "ana#1"
    assert 0 < seen.json["remaining_ms"] <= terms_of(None).rules.ttl_ms


def test_a_database_is_backed_up_with_its_own_tools(tmp_path: Path):
    ended = call("ledger", "backup", tmp_path / "copy.db", "--ledger", "postgresql://u@db/ledger")

    assert ended.code == Exit.USAGE
    for word in ("pg_basebackup", "pg_dump", "witness", "docs/operating.md"):
        assert word in ended.said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", ["effects ls", "leases ls", "ledger gc", "units abandon u --reason late"]
)
def test_a_database_without_a_ledger_gets_none(postgres_server: Server, words: str):
    database = postgres_server.url("postgres")

    ended = call(*words.split(), "--ledger", database)

    assert ended.code == Exit.UNAVAILABLE
    assert "there is no ledger in this database" in ended.said
    assert postgres_server.psql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"


def test_a_database_that_does_not_answer_is_told_so(tmp_path: Path):
    ended = call("effects", "ls", "--ledger", f"postgresql://u@/ledger?host={tmp_path}")

    assert ended.code == Exit.UNAVAILABLE
    assert "no connection to the ledger's database" in ended.said
    assert "--ledger-password-file" in ended.said


def test_the_password_comes_from_a_file_that_has_to_be_there(pair: Pair, tmp_path: Path):
    file = tmp_path / "password"
    words = ("effects", "ls", "--ledger", pair.database, "--ledger-password-file", file)

    missing = call(*words)
    file.write_text("hunter2\n")
    given = call(*words)

    assert (missing.code, str(file) in missing.said) == (Exit.REFUSED_TO_START, True)
    assert given.code == Exit.OK
    assert "hunter2" not in given.out + given.err


def test_without_the_driver_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch):
    for name in ("postgres", "postgres_source"):
        monkeypatch.delitem(sys.modules, f"gateway.store.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)

    ended = call("effects", "ls", "--ledger", "postgresql://u@db/ledger")

    assert ended.code == Exit.UNAVAILABLE
    assert "install fencegate[postgres]" in ended.said
