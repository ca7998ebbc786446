"""A ledger that came back older than it was: noticed, refused, recovered; what the CRM received."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.exits import Exit
from gateway.store.backup import back_up
from tests.cli.terminal import Ended, call
from tests.house import Got, House, running_house
from tests.postgres_server import Server
from tests.proxy.setting import destination, eventually
from tests.raw_destination import RawDestination, answer

LEASED = """
function: relatorio
authority: lease
leadership: function
lease: {ttl: 20s, renew_every: 5s, margin: 3s}
exceptions: {owner: ops-comercial, deadline: 4h}
"""
LIMITS = "{timeout: 1s, connect: 500ms, settle: 100ms, barrier_wait: 300ms}"


@dataclass
class FileSite:
    """A ledger in a file, and its copy of some moment."""

    folder: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}"

    def back_up(self) -> None:
        back_up(self.folder / "ledger.db", self.folder / "copy.db")

    def restore(self) -> None:
        for end in ("", "-wal", "-shm"):
            (self.folder / f"ledger.db{end}").unlink(missing_ok=True)
        (self.folder / "copy.db").rename(self.folder / "ledger.db")


@dataclass
class DatabaseSite:
    """A ledger in a database of its own, dumped and restored under its name."""

    folder: Path
    server: Server
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.server.database()

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def _run(self, *words: str) -> None:
        where = ("-h", str(self.server.folder), "-U", "fencegate")
        done = subprocess.run(
            [words[0], *where, *words[1:]], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr

    def back_up(self) -> None:
        self._run("pg_dump", "-Fc", "-f", str(self.folder / "dump"), self.name)

    def restore(self) -> None:
        """Into a database made anew, under gateways that may be running."""
        self.server.psql(f"DROP DATABASE {self.name} WITH (FORCE)")
        self.server.psql(f"CREATE DATABASE {self.name}")
        self._run("pg_restore", "-d", self.name, str(self.folder / "dump"))


Site = FileSite | DatabaseSite


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    if request.param == "sqlite":
        return FileSite(tmp_path)
    return DatabaseSite(tmp_path, request.getfixturevalue("postgres_server"))


@pytest.fixture
def file_site(tmp_path: Path) -> FileSite:
    """For what the stores do alike by the suite that runs on both."""
    return FileSite(tmp_path)


@dataclass
class Desk:
    """A gateway on the site, and who speaks to it."""

    house: House

    async def lead(self, holder: str) -> int:
        """Acquire the lease; return its term."""
        got = await self.acquire(holder)
        assert got.status == 201, got.body
        term: int = got.json["term"]
        return term

    async def acquire(self, holder: str) -> Got:
        return await self.house.post("/v1/leases/relatorio/acquire", {"holder": holder})

    async def send(self, key: str, holder: str, term: int) -> Got:
        return await self.house.worker(holder, term).post(f"/notes/{key}", key, {"text": key})

    async def ready(self) -> Got:
        return await self.house.get("/readyz")

    async def exceptions(self) -> dict[str, dict[str, Any]]:
        """Return the open exceptions by the path that they are about."""
        items = (await self.house.get("/v1/exceptions")).json["items"]
        return {item["detail"].split("/notes/")[1].split(" ")[0]: item for item in items}

    async def act(self, case: dict[str, Any], action: str) -> Got:
        body = {"reason": "looked at the CRM", "version": case["version"]}
        return await self.house.post(f"/v1/exceptions/{case['id']}/{action}", body)


@asynccontextmanager
async def opened(
    site: Site, crm: RawDestination, *routes: str, limits: str = LIMITS
) -> AsyncIterator[Desk]:
    policies = {"crm": destination(crm, *routes, limits=limits), "relatorio": LEASED}
    more = {"ledger": site.url, "witness": site.folder / "witness", "log_level": "error"}
    async with running_house(site.folder, policies, **more) as house:
        yield Desk(house)


async def recover(site: Site, *words: object) -> Ended:
    mine = ["recover", "--ledger", site.url, "--witness", site.folder / "witness"]
    if isinstance(site, DatabaseSite):  # the dump has the heartbeat of a moment ago
        mine.append("--force")
    return await asyncio.to_thread(call, *mine, *words)


def writes(crm: RawDestination) -> list[str]:
    return [one.path for one in crm.received if one.method == "POST"]


async def lose(site: Site, crm: RawDestination) -> None:
    """Go on after a backup, and come back to it: k-2 and the term 2 with k-3 are lost."""
    async with opened(site, crm) as desk:
        assert (await desk.send("k-1", "ana#1", await desk.lead("ana#1"))).status == 200
        await asyncio.to_thread(site.back_up)
        assert (await desk.send("k-2", "ana#1", 1)).status == 200
        released = {"holder": "ana#1", "term": 1}
        await desk.house.post("/v1/leases/relatorio/release", released)
        assert await desk.lead("bo#1") == 2
        assert (await desk.send("k-3", "bo#1", 2)).status == 200
    await asyncio.to_thread(site.restore)


async def test_an_older_ledger_is_refused_and_says_what_to_do(site: Site, crm: RawDestination):
    await lose(site, crm)
    before = writes(crm)

    async with opened(site, crm) as desk:
        refused = await desk.send("k-2", "ana#1", 1)
        lease = await desk.acquire("bo#1")
        read = await desk.house.worker("ana#1", 1).send("GET", "/notes")
        ready = await desk.ready()

    assert (refused.status, refused.problem) == (503, "ledger-unavailable")
    assert (lease.status, lease.problem) == (503, "ledger-unavailable")
    assert read.status == 200
    assert ready.status == 503
    assert "relatorio stands at term 1 and had come to 2" in ready.body.decode()
    assert "fencegate recover" in ready.body.decode()
    assert writes(crm) == before


async def test_after_the_recovery_no_lost_term_and_no_lost_key_gets_through(
    site: Site, crm: RawDestination
):
    await lose(site, crm)
    only_looked = await recover(site)
    done = await recover(site, "--yes")
    assert (only_looked.code, done.code) == (Exit.CONFLICT, Exit.OK), (only_looked, done)
    assert "relatorio stands at term 1 and had come to 2" in only_looked.out

    async with opened(site, crm) as desk:
        assert (await desk.ready()).status == 200
        assert (await desk.send("k-9", "ana#1", 1)).problem == "stale-term"
        assert (await desk.send("k-9", "bo#1", 2)).problem == "stale-term"
        term = await desk.lead("cid#1")
        known = await desk.send("k-1", "cid#1", term)
        lost = [await desk.send(key, "cid#1", term) for key in ("k-2", "k-3", "k-2")]

        assert term > 2
        assert (known.status, known.headers["Fence-Verdict"]) == (200, "replayed")
        assert [got.status for got in lost] == [423] * 3
        assert lost[0].json["reason"] == "ledger-restored"
        assert lost[0].json["effect_id"] == lost[2].json["effect_id"]
        assert writes(crm) == ["/notes/k-1", "/notes/k-2", "/notes/k-3"]


async def test_a_person_says_what_became_of_the_lost_keys(file_site: FileSite, crm: RawDestination):
    await lose(file_site, crm)
    assert (await recover(file_site, "--yes")).code == 0

    async with opened(file_site, crm) as desk:
        term = await desk.lead("cid#1")
        for key in ("k-3", "k-4"):
            assert (await desk.send(key, "cid#1", term)).status == 423

        async def told() -> bool:
            return len(await desk.exceptions()) == 2

        await eventually(told)
        cases = await desk.exceptions()
        assert {case["reason"] for case in cases.values()} == {"ledger-restored"}
        assert (await desk.act(cases["k-3"], "confirm")).status == 200

        async def freed() -> bool:  # not before the seal
            return (await desk.act(cases["k-4"], "not-applied")).status == 200

        await eventually(freed)
        confirmed = await desk.send("k-3", "cid#1", term)
        free = await desk.send("k-4", "cid#1", term)

    assert (confirmed.status, confirmed.problem) == (409, "result-unavailable")
    assert (free.status, free.headers["Fence-Verdict"]) == (200, "forwarded")
    assert writes(crm) == ["/notes/k-1", "/notes/k-2", "/notes/k-3", "/notes/k-4"]


async def test_what_is_trusted_is_sent_again(file_site: FileSite, crm: RawDestination):
    await lose(file_site, crm)
    assert (await recover(file_site, "--yes")).code == 0

    async def trusted() -> bool:
        said = await recover(file_site, "--trust", "relatorio", "--reason", "compared with the CRM")
        return said.code == 0

    await eventually(trusted)  # not before the last lost attempt is over
    async with opened(file_site, crm) as desk:
        sent = await desk.send("k-8", "cid#1", await desk.lead("cid#1"))

    assert sent.status == 200
    assert writes(crm)[-1] == "/notes/k-8"


async def test_what_was_open_in_the_backup_is_unknown(file_site: FileSite, crm: RawDestination):
    """Its answer came after the backup, and nobody knows it any more."""
    held = asyncio.Event()

    async def hold(request: Any, wire: Any) -> None:
        held.set()
        await asyncio.Event().wait()

    crm.on("/notes/k-1", hold)
    async with opened(file_site, crm) as desk:
        term = await desk.lead("ana#1")
        sending = asyncio.ensure_future(desk.send("k-1", "ana#1", term))
        await held.wait()
        await asyncio.to_thread(file_site.back_up)
        await sending
        await desk.send("k-2", "ana#1", term)
    await asyncio.to_thread(file_site.restore)
    assert (await recover(file_site, "--yes", "--force")).code == 0

    async with opened(file_site, crm) as desk:
        again = await desk.send("k-1", "bo#1", await desk.lead("bo#1"))

    assert (again.status, again.problem) == (423, "outcome-unknown")
    assert writes(crm) == ["/notes/k-1", "/notes/k-2"]


async def test_a_running_gateway_notices_and_goes_on_by_itself_after_the_recovery(
    crm: RawDestination, tmp_path: Path, postgres_server: Server
):
    site = DatabaseSite(tmp_path, postgres_server)
    async with opened(site, crm) as desk:
        term = await desk.lead("ana#1")
        await asyncio.to_thread(site.back_up)
        assert (await desk.send("k-1", "ana#1", term)).status == 200
        await asyncio.to_thread(site.restore)

        async def found() -> bool:
            again = await desk.send("k-1", "ana#1", term)
            assert again.status == 503, again.body
            return "older than it was" in again.json["reason"]

        await eventually(found)
        assert (await recover(site, "--yes")).code == 0

        async def back() -> bool:
            return (await desk.ready()).status == 200

        await eventually(back)
        old = await desk.send("k-1", "ana#1", term)
        held = await desk.send("k-1", "bo#1", await desk.lead("bo#1"))

    assert old.problem == "stale-term"
    assert (held.status, held.json["reason"]) == (423, "ledger-restored")
    assert writes(crm) == ["/notes/k-1"]


async def test_a_native_key_settles_a_lost_effect_without_a_person(
    file_site: FileSite, crm: RawDestination
):
    route = (
        '{match: "POST /{rest*}", does: write, guard: native_key, '
        'native_key: {header: Idempotency-Key, value: "{effect}", window: 24h, '
        "repeat_returns: everything}}"
    )
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(opened(file_site, crm, route))
        term = await desk.lead("ana#1")
        assert (await desk.send("k-0", "ana#1", term)).status == 200
        await asyncio.to_thread(file_site.back_up)
        assert (await desk.send("k-1", "ana#1", term)).status == 200
    await asyncio.to_thread(file_site.restore)
    assert (await recover(file_site, "--yes")).code == 0

    async with opened(file_site, crm, route) as desk:
        term = await desk.lead("bo#1")
        assert (await desk.send("k-1", "bo#1", term)).status == 423

        async def settled() -> bool:
            return (await desk.send("k-1", "bo#1", term)).status == 200

        await eventually(settled)

    keys = [one.header("Idempotency-Key") for one in crm.received if one.path == "/notes/k-1"]
    assert keys == [keys[0], keys[0]]


async def test_an_answer_to_what_was_lost_reaches_its_caller_and_the_log(
    crm: RawDestination, tmp_path: Path, postgres_server: Server
):
    """The intent is gone before the answer is there; nothing waits for ever to write it down."""
    site = DatabaseSite(tmp_path, postgres_server)
    held, go = asyncio.Event(), asyncio.Event()

    async def hold(request: Any, wire: Any) -> None:
        held.set()
        await go.wait()
        await answer(201)(request, wire)

    crm.on("/notes/k-1", hold)
    async with opened(site, crm, limits="{timeout: 20s, connect: 1s, settle: 100ms}") as desk:
        term = await desk.lead("ana#1")
        await asyncio.to_thread(site.back_up)
        sending = asyncio.ensure_future(desk.send("k-1", "ana#1", term))
        await held.wait()
        await asyncio.to_thread(site.restore)
        go.set()
        answered = await sending
        assert (await recover(site, "--yes")).code == 0

        async def back() -> bool:
            return (await desk.ready()).status == 200

        await eventually(back)
        again = await desk.send("k-1", "bo#1", await desk.lead("bo#1"))

    assert (answered.status, answered.headers["Fence-Ledger"]) == (201, "degraded")
    assert (again.status, again.json["reason"]) == (423, "ledger-restored")
    assert writes(crm) == ["/notes/k-1"]
