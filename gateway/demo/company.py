"""The director of some replicas: starts them, hears them, stops them in the middle of it.

    async with Company(office, children) as company:
        await company.enlist("relatorio-a", stops={"manifest": 1})
        ana = await company.heard("manifest")
        ana.child.kill()

What replicas tell is kept in `notes`, in the order in which it was heard.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from gateway.client.elector import TOKEN_VARIABLE
from gateway.core.errors import GatewayError
from gateway.demo.office import Office
from gateway.demo.processes import Child, Children, python
from gateway.demo.replica import Part

PATIENCE_S: Final = 30.0
LEAVING_S: Final = 5.0
Note = dict[str, Any]
T = TypeVar("T")


class NotHeard(GatewayError):
    """A replica did not come to where it was awaited."""


@dataclass(eq=False)
class Member:
    """One replica's process, as far as it has been heard."""

    name: str
    kind: str
    child: Child
    holder: str = ""
    term: int = 0  # of its leadership; 0 while it follows
    writer: asyncio.StreamWriter | None = None

    def order(self, do: str, **more: Any) -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(json.dumps({"do": do, **more}).encode() + b"\n")

    def go(self) -> None:
        """Let it go on from where it waits."""
        self.order("go")

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """Stop its whole process, and continue it at the end."""
        os.kill(self.child.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(self.child.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once; it takes leave of nobody."""
        self.child.kill()
        self.term = 0


@dataclass
class Company:
    """The replicas of one run."""

    office: Office
    children: Children
    members: dict[str, Member] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._port = 0
        self._bell = asyncio.Event()
        self._orders = itertools.count(1)
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._hear, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
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
            if member.writer is not None:
                member.writer.close()
        waiting = [
            asyncio.to_thread(member.child.stop, LEAVING_S) for member in self.members.values()
        ]
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    # -- who is there

    async def enlist(
        self,
        *names: str,
        kind: str = "coordinate",
        via: str = "",
        stops: Mapping[str, int] | None = None,
        **part: Any,
    ) -> list[Member]:
        """Start replicas, and wait until each is heard. `via` is a relay's URL; `part` says what
        else they are to be (replica.Part). Who has published waits there, still leading."""
        office = self.office
        for name in names:
            words = Part(
                name=name,
                kind=kind,
                director=self._port,
                gateway=via or office.gateway_url,
                straight=office.gateway_url,
                renew_every_s=office.lease.renew_ms / 1000,
                margin_s=office.lease.margin_ms / 1000,
                stops={"published": 1, **(stops or {})},
                **part,
            )
            child = self.children.start(
                name,
                python("-m", "gateway.demo.replica", json.dumps(asdict(words))),
                environment={TOKEN_VARIABLE: office.worker.token},
            )
            self.members[name] = Member(name, kind, child)
        new = [self.members[name] for name in names]
        await self.until(lambda: all(member.holder for member in new), "word of every replica")
        return new

    async def until(self, ready: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
        """Wait until something that is heard makes `ready` true; return what it is."""
        try:
            async with asyncio.timeout(patience_s):
                while not (found := ready()):
                    self._bell.clear()
                    await self._bell.wait()
                return found
        except TimeoutError:
            said = "\n".join(str(note) for note in self.notes[-15:])
            tails = "\n".join(f"{m.name}: {m.child.tail(5)}" for m in self.members.values())
            raise NotHeard(f"no {what} within {patience_s:g} s\n{said}\n{tails}") from None

    # -- what is heard

    def said(self, what: str, by: Member | None = None, **facts: Any) -> list[Note]:
        """Return what was told so far: notes of one kind, of one member, with these facts."""
        return [
            note
            for note in self.notes
            if note["what"] == what
            and (by is None or note["name"] == by.name)
            and all(note.get(name) == fact for name, fact in facts.items())
        ]

    async def heard(self, what: str, by: Member | None = None, **facts: Any) -> Note:
        """Wait until something is told, and return the latest note of it."""
        about = f"word that {by.name if by else 'somebody'} has come to {what!r}"
        return (await self.until(lambda: self.said(what, by, **facts), about))[-1]

    async def leader(self, *, above: int = 0) -> Member:
        """Wait for a replica that leads under a term above `above`."""

        def found() -> Member | None:
            leading = [member for member in self.members.values() if member.term > above]
            return max(leading, key=lambda member: member.term, default=None)

        leader = await self.until(found, f"leader above term {above}")
        if leader is None:  # cannot be: until returns what is true
            raise NotHeard
        return leader

    async def ask(self, member: Member, do: str, **more: Any) -> Note:
        """Order something, and wait for what is told of it."""
        number = next(self._orders)
        member.order(do, order=number, **more)
        found = await self.until(
            lambda: [note for note in self.notes if note.get("order") == number],
            f"answer of {member.name} to {do!r}",
        )
        return found[0]

    # -- hearing

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = json.loads(await reader.readline())
        member = self.members[first["name"]]
        member.holder, member.writer = first["holder"], writer
        self._bell.set()
        with suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                self._take(member, json.loads(line))
                self._bell.set()
        member.term = 0
        self._bell.set()
        writer.close()

    def _take(self, member: Member, note: Note) -> None:
        self.notes.append({"name": member.name, **note})
        if note["what"] == "leads":
            member.term = note["term"]
        elif note["what"] == "lost" and note["term"] == member.term:
            member.term = 0
