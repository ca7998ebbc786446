"""The CRM's own paths, and the process that serves them.

A request is read, written into the journal, and only then carried out, well or badly. Everything
between planning a change and committing it is synchronous: with a file, the line is on disk
before the record changes, and the record before anybody is answered.
"""

from __future__ import annotations

import asyncio
import hmac
import importlib
import ipaddress
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from gateway.sandbox.acts import Exchange, Silence, misbehave, respond
from gateway.sandbox.admin import Admin
from gateway.sandbox.faults import WRITES, BadFault, Fault, Holds, Script
from gateway.sandbox.journal import DEFAULT_JOURNAL_LIMIT, Entry, Journal, Tape, entry_from_json
from gateway.sandbox.records import INVALID, Answer, Call, Change, Records, as_text, error, parse

LARGEST_BODY_BYTES = 256 * 1024 * 1024
KEEPALIVE_S = 75.0
SHUTDOWN_S = 0.5
BACKLOG = 1024


class Sandbox:
    """The whole CRM: records, journal, the file behind them, and its moods."""

    def __init__(
        self, *, file: Path | None, fsync: bool, token: str | None, journal_limit: int
    ) -> None:
        self.records = Records()
        self.journal = Journal(journal_limit)
        self.script = Script()
        self.holds = Holds()
        self._credential = None if token is None else f"Bearer {token}".encode()
        self._misbehaving: set[asyncio.Task[Any]] = set()
        self._tape = None if file is None else Tape(file, fsync=fsync)
        if self._tape is not None:
            self._replay(self._tape)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request to a CRM path."""
        try:
            body = await request.read()
        except (ConnectionError, web.RequestPayloadError):
            return self._half_received(request)
        path = _clean(request.rel_url.raw_path)
        payload = parse(body) if body else INVALID
        query = {} if request.method in WRITES else request.query
        call = Call(request.method, path, payload, query, request.headers.get("If-Match"))
        intent = intent_of(request, call)
        entry = self.journal.receive(
            method=request.method,
            target=_clean(request.raw_path),
            headers=request.raw_headers,
            body=body,
            intent=intent,
        )
        if not self._knows_caller(request):
            self._write(entry)
            refusal = error(401, "a bearer token is needed", WWW_Authenticate="Bearer")
            return respond(refusal)
        word = request.headers.get("X-Sandbox-Fault")
        word = None if word is None else _clean(word)
        try:
            fault = self.script.choose(word, request.method, path, intent)
        except BadFault as wrong:
            entry.fault = word
            self._write(entry)
            return respond(error(400, str(wrong)))
        if fault is None:
            return respond(self._apply(entry, call))
        return await self._misbehave(fault, request, entry, call)

    def _half_received(self, request: web.Request) -> web.StreamResponse:
        """Write down a request whose peer left before the end of the body; nobody can answer it."""
        entry = self.journal.receive(
            method=request.method,
            target=_clean(request.raw_path),
            headers=request.raw_headers,
            body=b"",
            intent=None,
        )
        entry.fault = "incomplete-body"
        self._write(entry)
        return Silence()

    async def _misbehave(
        self, fault: Fault, request: web.Request, entry: Entry, call: Call
    ) -> web.StreamResponse:
        entry.fault = fault.word
        self._write(entry)
        task = asyncio.current_task()
        if task is not None:
            self._misbehaving.add(task)
            task.add_done_callback(self._misbehaving.discard)
        exchange = Exchange(request, lambda: self._apply(entry, call, written=True), self.holds)
        return await misbehave(fault, exchange)

    def _apply(self, entry: Entry, call: Call, *, written: bool = False) -> Answer:
        """Carry out `call`; `entry` may have been written, or cleared away, while it waited."""
        answer, change = self.records.plan(call)
        if change is None:
            if not written:
                self._write(entry)
            return answer
        if not self.journal.knows(entry.n):
            entry.n = self.journal.last_n + 1  # cleared while it was held; it changes things now
            self.journal.append(entry)
            self._write(entry)
        if self._tape is not None:
            self._tape.write(_late(entry, change) if written else _at_once(entry, change))
        self.journal.mark_applied(entry, change.effect)
        self.records.commit(change)
        return answer

    def _write(self, entry: Entry) -> None:
        if self._tape is not None:
            self._tape.write({"entry": entry.to_json()})

    def _replay(self, tape: Tape) -> None:
        for line in tape.lines():
            if "entry" in line:
                self.journal.append(entry_from_json(line["entry"]))
            elif "applied" in line:
                self.journal.mark_number(line["applied"], line["intent"], line["effect"])
            else:
                self.journal.clear(line["cleared_through"])
            if "change" in line:
                self.records.commit(Change(*line["change"]))

    def clear(self) -> None:
        """Forget journal and records, on disk too. Faults stay as they are."""
        self.journal.clear()
        self.records.clear()
        if self._tape is not None:
            self._tape.restart(self.journal.last_n)

    def _knows_caller(self, request: web.Request) -> bool:
        if self._credential is None:
            return True
        shown = request.headers.get("Authorization", "")
        return hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), self._credential)

    async def stop_waiting(self, app: web.Application) -> None:
        """End delayed, held and hanging requests, so that shutting down does not wait for them."""
        for task in list(self._misbehaving):
            task.cancel()

    async def close(self, app: web.Application) -> None:
        if self._tape is not None:
            self._tape.close()


# orjson writes no named tuples, hence list(change).
def _at_once(entry: Entry, change: Change) -> dict[str, Any]:
    done = {**entry.to_json(), "applied": True, "effect": change.effect}
    return {"entry": done, "change": list(change)}


def _late(entry: Entry, change: Change) -> dict[str, Any]:
    return {
        "applied": entry.n,
        "intent": entry.intent,
        "effect": change.effect,
        "change": list(change),
    }


def intent_of(request: web.Request, call: Call) -> str | None:
    """Name what the caller wants done: its own word for it, else the record's external id."""
    named = request.headers.get("X-Sandbox-Intent")
    if named is not None:
        return _clean(named)
    if isinstance(call.payload, dict):
        external_id = call.payload.get("external_id")
        if external_id is not None:
            return f"{call.method} {call.path} {as_text(external_id)}"
    return None


def _clean(text: str) -> str:
    """Make text from the wire encodable: aiohttp keeps bytes that are not UTF-8 as surrogates."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def build_app(
    *,
    file: Path | None = None,
    fsync: bool = False,
    token: str | None = None,
    journal_limit: int = DEFAULT_JOURNAL_LIMIT,
) -> web.Application:
    """Build the sandbox CRM; with `file`, from what that file remembers."""
    sandbox = Sandbox(file=file, fsync=fsync, token=token, journal_limit=journal_limit)
    admin = Admin(sandbox.journal, sandbox.script, sandbox.holds, sandbox.clear)
    app = web.Application(client_max_size=LARGEST_BODY_BYTES)
    app.add_routes([*admin.routes(), web.route("*", "/{target:.*}", sandbox.handle)])
    app.on_shutdown.append(sandbox.stop_waiting)
    app.on_cleanup.append(sandbox.close)
    return app


def check_host(host: str) -> None:
    """Refuse to offer an open CRM to a network; 0.0.0.0 is for containers and must be said."""
    if host in {"localhost", "0.0.0.0"}:
        return
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ValueError(f"the sandbox listens on loopback or 0.0.0.0 only, not on {host!r}")


@asynccontextmanager
async def running(
    app: web.Application, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[str]:
    """Serve `app` and give its base URL; port 0 takes a free one."""
    check_host(host)
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=False,  # a server that has read a request goes on with it
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
        bound = runner.addresses[0][1]
        shown = "127.0.0.1" if host == "0.0.0.0" else host
        yield f"http://[{shown}]:{bound}" if ":" in shown else f"http://{shown}:{bound}"
    finally:
        await runner.cleanup()


async def serve(
    host: str,
    port: int,
    *,
    file: Path | None = None,
    fsync: bool = False,
    token: str | None = None,
    port_file: Path | None = None,
    journal_limit: int = DEFAULT_JOURNAL_LIMIT,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until `stop` is set, or until SIGTERM or SIGINT when no `stop` is given."""
    check_host(host)
    if stop is None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    app = build_app(file=file, fsync=fsync, token=token, journal_limit=journal_limit)
    async with running(app, host, port) as url:
        if port_file is not None:
            _write_whole(port_file, url.rpartition(":")[2])
        print(f"sandbox CRM listening on {url}", flush=True)
        await stop.wait()


def _write_whole(path: Path, text: str) -> None:
    """Write so that a reader who polls for the file never sees half of it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


def run(
    host: str,
    port: int,
    *,
    file: Path | None,
    fsync: bool,
    token: str | None,
    port_file: Path | None,
    journal_limit: int = DEFAULT_JOURNAL_LIMIT,
) -> None:
    """Block until SIGTERM or SIGINT; uvloop drives it where it is installed."""
    try:
        factory = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(
            serve(
                host,
                port,
                file=file,
                fsync=fsync,
                token=token,
                port_file=port_file,
                journal_limit=journal_limit,
            )
        )
