"""The wall clock of the ledger's host is stepped by an hour: mid-lease, and across a restart.

Two ways to do it. One always runs: a clock handed in to a real gateway process, which a file
steps. The other runs where libfaketime is installed: the whole process, its libraries included,
is lied to. What it takes to step the wall clock alone:

    LD_PRELOAD=…/faketime/libfaketimeMT.so.1   the one for programs with threads
    FAKETIME_DONT_FAKE_MONOTONIC=1             leaves CLOCK_MONOTONIC, and CLOCK_BOOTTIME with it
    FAKETIME_TIMESTAMP_FILE=FILE               holds `+3600`; FAKETIME itself must not be set
    FAKETIME_CACHE_DURATION=1                  looks at it every second: steps while it runs;
                                               FAKETIME_NO_CACHE=1 makes a loaded process crawl
    NO_FAKE_STAT=1                             leaves the times of files as they are
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

import pytest

from gateway.demo.processes import python, wait_for_port
from tests.house import write_policies
from tests.scenarios.clocked import write_clock
from tests.scenarios.holding import Holder, leased
from tests.scenarios.stage import Stage, until

SHORT_MS: Final = 2000
LONG_MS: Final = 60_000
_TIMES: Final = {"renew_every": "300ms", "margin": "200ms"}
POLICIES: Final = {
    "relatorio": leased("relatorio", ttl="1m", **_TIMES),
    "fechamento": leased("fechamento", ttl="2s", **_TIMES),
    "cobranca": leased("cobranca", ttl="2s", **_TIMES),
    "corte": leased("corte", ttl="1s", renew_every="100ms", margin="100ms"),
}
HOUR_S: Final = 3600
STEPS: Final = (HOUR_S, -HOUR_S)
SLACK_S: Final = 5.0
"""How late a busy machine may be with what is due."""

_PLACES: Final = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64")
_FOUND: Final = chain.from_iterable(
    Path(place).glob(f"{deeper}faketime/libfaketimeMT.so.1")
    for place in _PLACES
    for deeper in ("", "*/")
)
LIBRARY: Final = next(_FOUND, None)


class Way(Protocol):
    """A way to run a gateway under a wall clock that can be stepped."""

    async def start(self) -> None:
        """Start the gateway, under the clock as it was left."""

    def step(self, seconds: float) -> None:
        """Let the wall clock be wrong by that much."""


@dataclass
class HandedIn:
    """The clock is handed in to the gateway, and all that asks it is the gateway."""

    stage: Stage

    @property
    def file(self) -> Path:
        return self.stage.folder / "clock.json"

    async def start(self) -> None:
        stage = self.stage
        if not self.file.exists():
            self.step(0)
        stage.port_file.unlink(missing_ok=True)
        settings = {
            "FENCEGATE_DEV": "1",
            "FENCEGATE_LISTEN": "127.0.0.1:0",
            "FENCEGATE_POLICIES": str(stage.policies),
            "FENCEGATE_LEDGER": f"sqlite:///{stage.ledger}",
            "FENCEGATE_PORT_FILE": str(stage.port_file),
        }
        words = python("-m", "tests.scenarios.clocked", str(self.file))
        stage.gateway = stage.children.start("gateway", words, environment=settings)
        stage.port = await asyncio.to_thread(wait_for_port, stage.gateway, stage.port_file)

    def step(self, seconds: float) -> None:
        write_clock(self.file, wall_s=seconds)

    def reboot(self, name: str, seconds: float) -> None:
        """As after a boot five seconds ago, with a wall clock that is wrong."""
        write_clock(self.file, wall_s=seconds, boot=name, since_s=boot_s() - 5)


@dataclass
class Faked:
    """The whole process is lied to about the wall clock."""

    stage: Stage

    @property
    def file(self) -> Path:
        return self.stage.folder / "faketime"

    async def start(self) -> None:
        if not self.file.exists():
            self.step(0)
        await self.stage.start_gateway("--log-level", "info", **lies(self.file))

    def step(self, seconds: float) -> None:
        tell(self.file, seconds)


def tell(file: Path, seconds: float) -> None:
    waiting = file.with_suffix(".new")
    waiting.write_text(f"{seconds:+.0f}\n", "ascii")
    waiting.replace(file)


def lies(file: Path) -> dict[str, str]:
    """Return the environment in which the wall clock alone is what `file` says."""
    return {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "NO_FAKE_STAT": "1",
    }


def sweep(pid: int) -> None:
    """Remove what libfaketime leaves behind of a process that was killed."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        (Path("/dev/shm") / name).unlink(missing_ok=True)


WAYS: Final = (
    [pytest.param(HandedIn, id="handed-in"), pytest.param(Faked, id="libfaketime")]
    if LIBRARY
    else [pytest.param(HandedIn, id="handed-in-as-libfaketime-is-not-installed")]
)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Way]:
    print(f"wall clock: {LIBRARY or 'no libfaketime here; a clock that is handed in stands in'}")
    made: Way = request.param(stage)
    yield made
    for child in stage.children.started:
        sweep(child.pid)


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def shows_step(stage: Stage, step_s: float) -> bool:
    """Whether the gateway's log is ahead of the time by that much."""
    assert stage.gateway is not None
    log = stage.gateway.log
    before = log.read_text()
    await stage.get("/d/crm/contacts")
    await until(lambda: len(log.read_text()) > len(before), "line in the log for a request")
    line = json.loads(log.read_text().removeprefix(before).splitlines()[0])
    error_s = datetime.fromisoformat(line["at"]).timestamp() - time.time()
    return abs(error_s - step_s) < 60


async def begin(stage: Stage, way: Way) -> None:
    write_policies(stage.policies, POLICIES)
    await way.start()


async def test_a_step_mid_lease_neither_ends_nor_prolongs_a_lease(stage, way):
    await stage.start_crm()
    stage.write_policies()
    await begin(stage, way)
    eva, ana = Holder(stage, "eva#1"), Holder(stage, "ana#1", "fechamento")
    first = await eva.ask("acquire")
    asked_s = boot_s()
    await ana.ask("acquire")

    for step_s in STEPS:
        way.step(step_s)
        await until(lambda step_s=step_s: shows_step(stage, step_s), "step in the gateway's log")
        held = await Holder(stage, "bo#1").ask("acquire")
        renewed = await eva.ask("renew")
        sent = await eva.leader.create(f"k{step_s:+}")

        assert (held.problem, renewed.status, sent.status) == ("lease-held", 200, 201)
        assert LONG_MS - 20_000 < held.json["remaining_ms"] < LONG_MS
        assert renewed.json["remaining_ms"] == LONG_MS
    await until(lambda: is_free(ana), "end of the short lease")

    assert first.status == 201
    assert_ended_in_time(asked_s, boot_s())
    assert await terms_grow(ana) == 2
    assert await terms_grow(eva) == 2
    assert (await eva.leader.create("late")).problem == "stale-term"
    assert await stage.received_keys() == ["k+3600", "k-3600"]


def assert_ended_in_time(asked_s: float, ended_s: float, started_s: float = 0.0) -> None:
    """Check that a short lease was not over early, nor as late as a clock that was set back
    would have it: by an hour."""
    due_s = asked_s + SHORT_MS / 1000
    assert due_s <= ended_s < max(due_s, started_s) + SLACK_S


async def test_after_a_step_and_a_restart_leases_end_when_they_would_have(stage, way):
    await begin(stage, way)
    eva = Holder(stage, "eva#1")
    await eva.ask("acquire")

    for step_s, function in zip(STEPS, ("fechamento", "cobranca"), strict=True):
        long, ana = await eva.look(), Holder(stage, "ana#1", function)
        asked_s = boot_s()
        await ana.ask("acquire")
        way.step(step_s)
        await stage.kill()
        await way.start()
        started_s = boot_s()
        rival = await Holder(stage, "bo#1").ask("acquire")
        renewed = await eva.ask("renew")
        await until(lambda ana=ana: is_free(ana), "end of the short lease")

        assert_ended_in_time(asked_s, boot_s(), started_s)
        assert (rival.problem, rival.json["term"]) == ("lease-held", 1)
        assert rival.json["expires_at"] == long["expires_at"]
        assert (renewed.status, renewed.json["term"]) == (200, 1)
        assert await terms_grow(ana) == 2
    assert await terms_grow(eva) == 2


async def is_free(holder: Holder) -> bool:
    return (await holder.look())["holder"] is None


async def terms_grow(holder: Holder) -> int:
    """End the lease if it is not over; return the next term that somebody is granted, and see
    to it that the old one is not renewed."""
    if not await is_free(holder):
        assert (await holder.ask("release")).status == 200
    assert (await holder.ask("renew")).problem == "lease-gone"
    successor = Holder(holder.stage, "next#1", holder.function)
    granted = await successor.acquire_once_free()
    assert granted.status == 201
    assert (await holder.ask("renew")).problem == "lease-gone"
    return successor.term


async def expired_in_the_ledger(stage: Stage) -> bool:
    found = stage.ask_ledger("SELECT reason FROM transition WHERE kind = 'leader-lost'")
    return found == [("expired",)]


async def test_boots_with_a_wrong_wall_clock_revive_nothing_and_terms_grow(stage):
    way = HandedIn(stage)
    await begin(stage, way)
    ana, eva = Holder(stage, "ana#1", "corte"), Holder(stage, "eva#1")
    long = (await eva.ask("acquire")).json
    short = (await ana.ask("acquire")).json
    await until(lambda: expired_in_the_ledger(stage), "end of the short lease")

    await stage.kill()
    way.reboot("second", -HOUR_S)
    await way.start()
    ended = await ana.look()
    rival = await Holder(stage, "bo#1").ask("acquire")
    renewed = await eva.ask("renew")

    assert (ended["holder"], ended["reason"]) == (None, "expired")
    assert await terms_grow(ana) == 2
    assert (await ana.look())["acquired_at"] > short["expires_at"]
    assert rival.problem == "lease-held"
    assert (renewed.status, renewed.json["term"]) == (200, 1)
    assert renewed.json["expires_at"] > long["expires_at"]

    await stage.kill()
    way.reboot("third", HOUR_S)
    await way.start()

    assert (await eva.ask("renew")).problem == "lease-gone"
    assert (await ana.look())["holder"] is None
    assert await terms_grow(eva) == 2
    assert await terms_grow(ana) == 3


if LIBRARY:

    def test_libfaketime_leaves_the_boot_clock_alone(tmp_path):
        tell(tmp_path / "faketime", HOUR_S)
        asked = "import time; print(time.clock_gettime(time.CLOCK_BOOTTIME), time.time())"

        said = subprocess.run(
            [sys.executable, "-c", asked],
            env=lies(tmp_path / "faketime"),
            capture_output=True,
            check=True,
        ).stdout.split()

        assert abs(float(said[0]) - boot_s()) < 60
        assert abs(float(said[1]) - time.time() - HOUR_S) < 60
