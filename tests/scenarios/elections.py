"""Elections among real workers: they are started, watched, stopped in the middle of it.

    async with Election(stage) as election:
        await election.enlist("ana", "bo", "cy")
        leader = await election.leader()
        hand = await election.in_hand(leader, …)       # its next bytes would be a command
        with election.standstill(leader):               # SIGSTOP … SIGCONT
            successor = await election.leader(above=hand.term)
        told = await hand.go()

Workers are worker.py; what they tell is kept in `notes`, in the order in which it was heard.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from gateway.demo.processes import Child, python
from tests.house import write_policies
from tests.scenarios.stage import DESTINATION, Stage
from tests.scenarios.worker import Part

FUNCTION: Final = "relatorio"
POLICY: Final = """
function: relatorio
authority: lease
leadership: function
lease: {ttl: %(ttl_ms)dms, renew_every: %(renew_ms)dms, margin: %(margin_ms)dms}
exceptions: {owner: ops-comercial, deadline: 4h}
"""
PATIENCE_S: Final = 20.0

Note = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Times:
    """The lease's times: short, for tests are many."""

    ttl_ms: int = 2000
    renew_ms: int = 400
    margin_ms: int = 300


@dataclass(eq=False)
class Member:
    """One worker process, as far as it has been heard."""

    name: str
    child: Child
    holder: str = ""
    term: int = 0  # 0 while it follows
    writer: asyncio.StreamWriter | None = None
    gone: bool = False


@dataclass(eq=False)
class Hand:
    """A command that a worker holds: it has passed every check of the worker, and nothing of it
    is sent."""

    key: str
    term: int
    done: asyncio.Future[Note]
    writer: asyncio.StreamWriter

    async def go(self) -> Note:
        """Let the worker send, and return what it was told."""
        self.let_go()
        async with asyncio.timeout(PATIENCE_S):
            return await self.done

    def let_go(self) -> None:
        """Let the worker send as soon as it can: at once, or when it is continued."""
        if not self.writer.is_closing():
            self.writer.write(b"!")
            self.writer.close()


@dataclass
class Election:
    """The director of some workers that compete for one function."""

    stage: Stage
    times: Times = field(default_factory=Times)
    members: dict[str, Member] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.port = 0
        self._bell = asyncio.Event()
        self._orders = itertools.count(1)
        self._open: dict[int, asyncio.Future[Note]] = {}
        self._hands: dict[str, asyncio.Future[tuple[Note, asyncio.StreamWriter]]] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Election:
        self._server = await asyncio.start_server(self._hear, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members.values():
            if kind is not None:
                member.child.kill()
        await self.dismiss()
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    # -- before

    async def open(self, *options: str, timeout: str = "2s") -> None:
        """Start the CRM, and a gateway that grants the leases; it keeps its port for good."""
        stage = self.stage
        await stage.start_crm()
        crm = DESTINATION % {"port": stage.crm_port, "timeout": timeout, "connections": "fresh"}
        policy = POLICY % asdict(self.times)
        write_policies(stage.policies, {"crm": crm, FUNCTION: policy})
        stage.port = quiet_port()
        await self.start_gateway(*options)
        await stage.until_ready()

    async def start_gateway(self, *options: str) -> None:
        """Start the gateway, again if need be, where the workers look for it."""
        await self.stage.start_gateway(*self.listen_here, *options)

    @property
    def listen_here(self) -> tuple[str, str]:
        return "--listen", f"127.0.0.1:{self.stage.port}"

    async def enlist(self, *names: str, dice: random.Random | None = None) -> None:
        """Start workers, and wait until each is heard; with `dice` they are busy ones."""
        for name in names:
            part = Part(
                name=name,
                gateway=f"http://127.0.0.1:{self.stage.port}",
                director=self.port,
                function=FUNCTION,
                renew_every_s=self.times.renew_ms / 1000,
                margin_s=self.times.margin_ms / 1000,
                others=[other for other in names if other != name],
                busy=None if dice is None else dice.getrandbits(32),
            )
            words = ("-m", "tests.scenarios.worker", json.dumps(asdict(part)))
            child = self.stage.children.start(name, python(*words))
            self.members[name] = Member(name, child)
        await self.until(
            lambda: all(self.members[name].holder for name in names), "word of every worker"
        )

    async def dismiss(self) -> None:
        """Hang up on all workers, which makes them leave, and wait for their end."""
        for member in self.members.values():
            if member.writer is not None:
                member.writer.close()
        for member in self.members.values():
            await asyncio.to_thread(member.child.process.wait, PATIENCE_S)

    # -- during

    async def until(self, ready: Callable[[], Any], what: str) -> Any:
        """Wait until something that is heard makes `ready` true."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not (found := ready()):
                    self._bell.clear()
                    await self._bell.wait()
                return found
        except TimeoutError:
            said = "\n".join(str(note) for note in self.notes[-20:])
            tails = "\n".join(f"{m.name}: {m.child.tail(5)}" for m in self.members.values())
            raise AssertionError(f"no {what} within {PATIENCE_S:g} s\n{said}\n{tails}") from None

    async def leader(self, *, above: int = 0, besides: Sequence[Member] = ()) -> Member:
        """Wait for a worker that says that it leads, under a term above `above`."""

        def found() -> Member | None:
            leading = [m for m in self.members.values() if m.term > above and m not in besides]
            return max(leading, key=lambda member: member.term, default=None)

        member: Member = await self.until(found, f"leader above term {above}")
        return member

    def order(self, member: Member, do: str, **more: Any) -> asyncio.Future[Note]:
        """Order something of a leader; the future is what it tells of it."""
        number = next(self._orders)
        done: asyncio.Future[Note] = asyncio.get_running_loop().create_future()
        self._open[number] = done
        assert member.writer is not None
        line = {"order": number, "do": do, "term": member.term, **more}
        member.writer.write(json.dumps(line).encode() + b"\n")
        return done

    async def send(self, member: Member, item: str, method: str, path: str, body: Any) -> Note:
        """Have a leader send a command with its SDK."""
        order = self.order(member, "send", item=item, method=method, path=path, body=body)
        async with asyncio.timeout(PATIENCE_S):
            return await order

    async def in_hand(
        self, member: Member, item: str, method: str, path: str, body: Any, *, sdk_first: bool
    ) -> Hand | None:
        """Have a leader check its proof and take a command into its hand; None if it does not
        lead any more. What it does at the go: worker.py, `_hold`."""
        heard = asyncio.get_running_loop().create_future()
        self._hands[member.name] = heard
        more = {"method": method, "path": path, "body": body, "sdk_first": sdk_first}
        done = self.order(member, "hold", item=item, **more)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait((heard, done), return_when=asyncio.FIRST_COMPLETED)
        if not heard.done():
            return None
        note, writer = heard.result()
        return Hand(note["in_hand"], note["term"], done, writer)

    @contextmanager
    def standstill(self, member: Member) -> Iterator[None]:
        """Stop a worker's whole process, and continue it at the end."""
        os.kill(member.child.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(member.child.pid, signal.SIGCONT)

    def heard(self, what: str) -> list[Note]:
        return [note for note in self.notes if note["what"] == what]

    # -- hearing

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = json.loads(await reader.readline())
        if "in_hand" in first:
            self._hands.pop(first["name"]).set_result((first, writer))
            return
        member = self.members[first["name"]]
        member.holder, member.writer = first["holder"], writer
        self._bell.set()
        with suppress(ConnectionError):
            while line := await reader.readline():
                self._take(member, json.loads(line))
                self._bell.set()
        member.gone = True
        member.term = 0
        self._bell.set()
        writer.close()

    def _take(self, member: Member, note: Note) -> None:
        self.notes.append({"name": member.name, **note})
        match note["what"]:
            case "leads":
                member.term = note["term"]
            case "lost":
                member.term = 0
            case "done":
                self._open.pop(note["order"]).set_result(note)


def quiet_port() -> int:
    """Return a free port below those that the system gives to outgoing connections.

    While nobody listens on a port of theirs, a connection to it may be given that very port as
    its own, and so reach itself.
    """
    lowest = 32768
    with suppress(OSError, ValueError):
        said = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii")
        lowest = int(said.split()[0])
    for port in random.sample(range(max(1025, lowest - 15_000), lowest), 200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"no free port was found below {lowest}")
