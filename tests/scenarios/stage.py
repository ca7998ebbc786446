"""A gateway and a sandbox CRM as processes of their own, and ways to look at both."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.demo.processes import Child, Children, python, wait_for_port
from gateway.store.queries import Reader
from gateway.store.records import EffectFilter, EffectRecord
from tests.house import FUNCTION, Got, write_policies
from tests.scenarios.caller import Leader, NoAnswer, ask

DESTINATION = """
destination: crm
base_url: http://127.0.0.1:%(port)d
checked: 2026-11-30
limits: {timeout: %(timeout)s, connect: 500ms, settle: 300ms, barrier_wait: 2s}
connections: %(connections)s
routes:
  - {match: "GET|HEAD /{rest*}", does: read}
  - {match: "PATCH /notes/{id}", does: write, guard: none, covers: "notes/{id}"}
  - {match: "POST|PUT|PATCH|DELETE /{rest*}", does: write, guard: none, covers: "new/{effect}"}
"""
CRM = """
import pathlib, sys
from gateway.sandbox.server import run
file, port_file = map(pathlib.Path, sys.argv[1:])
run("127.0.0.1", 0, file=file, fsync=False, token=None, port_file=port_file)
"""
"""What `fencegate sandbox-crm` does, without the second that loading the command line takes."""

LOOK_AGAIN_S = 0.02
PATIENCE_S = 15.0


async def until(ready: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
    """Ask again and again until `ready` returns (or its coroutine does) something true."""
    give_up_s = asyncio.get_running_loop().time() + timeout_s
    while True:
        found = ready()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert asyncio.get_running_loop().time() < give_up_s, f"no {what} within {timeout_s:g} s"
        await asyncio.sleep(LOOK_AGAIN_S)


@dataclass
class Stage:
    """One run's folder and processes. Ledger and spool may lie on a disk of their own."""

    folder: Path
    children: Children
    disk: Path
    gateway: Child | None = None
    port: int = 0
    crm_port: int = 0

    def clear(self) -> None:
        """End every process at once; what they leave behind interests nobody any more."""
        for child in self.children.started:
            child.kill()

    # -- starting

    @property
    def policies(self) -> Path:
        return self.folder / "policies"

    @property
    def ledger(self) -> Path:
        return self.disk / "ledger.db"

    def write_policies(
        self, *, timeout: str = "5s", connections: str = "fresh", text: str = DESTINATION
    ) -> None:
        said = text % {"port": self.crm_port, "timeout": timeout, "connections": connections}
        write_policies(self.policies, {"crm": said, "relatorio": FUNCTION})

    async def start_crm(self) -> None:
        port_file = self.folder / "crm.port"
        words = (str(self.folder / "crm"), str(port_file))
        child = self.children.start("crm", python("-c", CRM, *words))
        self.crm_port = await asyncio.to_thread(wait_for_port, child, port_file)

    def launch(
        self,
        *options: str,
        name: str = "gateway",
        program: tuple[str, ...] = ("gateway",),
        **environment: str,
    ) -> Child:
        """Start a gateway process and do not wait for anything."""
        self.port_file.unlink(missing_ok=True)
        words = (
            *("-m", *program, "serve", "--dev", "--listen", "127.0.0.1:0"),
            *("--policies", str(self.policies), "--ledger", f"sqlite:///{self.ledger}"),
            *("--port-file", str(self.port_file), "--log-level", "warning"),
            *("--witness", str(self.folder / f"{name}.witness")),
        )
        return self.children.start(name, python(*words, *options), environment=environment)

    @property
    def port_file(self) -> Path:
        return self.folder / "gateway.port"

    async def start_gateway(
        self,
        *options: str,
        name: str = "gateway",
        program: tuple[str, ...] = ("gateway",),
        **environment: str,
    ) -> Child:
        """Start a gateway, and return once it listens (on a new port each time)."""
        self.gateway = self.launch(*options, name=name, program=program, **environment)
        self.port = await asyncio.to_thread(wait_for_port, self.gateway, self.port_file)
        return self.gateway

    async def start(self, *options: str, timeout: str = "5s") -> Child:
        """Start the CRM, then a gateway in front of it."""
        await self.start_crm()
        self.write_policies(timeout=timeout)
        return await self.start_gateway(*options)

    def leader(self, term: int = 7, holder: str | None = None) -> Leader:
        return Leader(self.port, term, holder or f"ana#{term}")

    # -- ending

    def signal(self, number: int) -> None:
        assert self.gateway is not None
        os.kill(self.gateway.pid, number)

    async def kill(self) -> None:
        """kill -9: nothing of the process gets to say goodbye."""
        assert self.gateway is not None
        await asyncio.to_thread(self.gateway.kill)

    async def terminate(self) -> int:
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for the gateway's end and return its exit code."""
        assert self.gateway is not None
        return await asyncio.to_thread(self.gateway.process.wait, timeout_s)

    # -- looking

    async def get(self, path: str) -> Got:
        return await ask(self.port, "GET", path)

    async def readyz(self) -> Got | None:
        try:
            return await self.get("/readyz")
        except NoAnswer:
            return None

    async def until_ready(self, status: int = 200, timeout_s: float = PATIENCE_S) -> Any:
        """Wait until /readyz answers `status`; return what it says."""

        async def found() -> Got | None:
            got = await self.readyz()
            return got if got is not None and got.status == status else None

        return (await until(found, f"{status} from /readyz", timeout_s)).json

    async def crm(self, method: str, path: str, body: bytes = b"") -> Any:
        got = await ask(self.crm_port, method, path, body=body)
        assert got.status < 300, got
        return got.json if got.body else None

    async def received(self) -> list[dict[str, Any]]:
        """Return what the CRM says that it received and did, in order."""
        entries: list[dict[str, Any]] = await self.crm("GET", "/_sandbox/requests")
        return entries

    async def received_keys(self) -> list[str]:
        return [entry["intent"] for entry in await self.received() if entry["method"] != "GET"]

    async def applied_keys(self) -> list[str]:
        return [entry["intent"] for entry in await self.received() if entry["applied"]]

    async def until_held(self, name: str, many: int = 1) -> None:
        """Wait until `many` requests wait at the CRM for the release of `name`."""

        async def held() -> bool:
            waiting = await self.crm("GET", f"/_sandbox/holds?name={name}&wait=1s")
            return int(waiting.get(name, 0)) >= many

        await until(held, f"{many} requests held as {name!r}")

    async def release(self, name: str) -> None:
        await self.crm("POST", f"/_sandbox/release/{name}")

    async def reader(self) -> Reader:
        return await Reader.open(self.ledger)

    async def effects(self) -> dict[str, EffectRecord]:
        """Return every effect in the ledger by its key."""
        reader = await self.reader()
        found: dict[str, EffectRecord] = {}
        try:
            cursor: str | None = None
            while True:
                page, cursor = await reader.effects(EffectFilter(limit=500, cursor=cursor))
                found |= {effect.key or effect.id: effect for effect in page}
                if cursor is None:
                    return found
        finally:
            await reader.close()

    async def outcomes(self) -> Mapping[str, str | None]:
        effects = (await self.effects()).items()
        return {key: effect.outcome and effect.outcome.value for key, effect in effects}

    def ask_ledger(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        """Ask the ledger's file what no query of the house shows."""
        with closing(sqlite3.connect(f"{self.ledger.as_uri()}?mode=ro", uri=True)) as db:
            return db.execute(text, given).fetchall()

    def change_ledger(self, text: str, *given: Any) -> None:
        """Tamper with a ledger at rest."""
        with closing(sqlite3.connect(self.ledger, isolation_level=None)) as db:
            db.execute(text, given)

    def ledger_is_sound(self) -> bool:
        return self.ask_ledger("PRAGMA integrity_check") == [("ok",)]
