"""Starting, watching and stopping child processes of `python -m gateway …`.

The demo, the tests and the load tests start real processes with this. A child leads its own
process group, so Ctrl-C reaches the parent alone, which then stops its children in order.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from gateway.core.errors import GatewayError

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 8.0
POLL_S = 0.02
TAIL_LINES = 25


class ChildFailed(GatewayError):
    """A child process did not start, or ended on its own."""


@dataclass(slots=True)
class Child:
    """One child process; its standard output and error go to `log`."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def tail(self, lines: int = TAIL_LINES) -> str:
        """Return the last lines that the child wrote."""
        try:
            text = self.log.read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def require_running(self) -> None:
        """Raise ChildFailed, with the end of its log, if the child has ended."""
        code = self.process.poll()
        if code is not None:
            raise ChildFailed(f"{self.name} ended with code {code}; its last lines:\n{self.tail()}")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask the child to end, insist after `timeout_s`, and return its exit code."""
        if self.running:
            self.process.terminate()
            try:
                return self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.wait()

    def kill(self) -> None:
        """End the child and whatever it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def pinned_to(core: int | None) -> Callable[[], None] | None:
    """Return what a child runs before it starts, so that its threads stay on `core` too."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        return None
    return lambda: os.sched_setaffinity(0, {core})


def clean_environment() -> dict[str, str]:
    """Return this process's environment without anybody's own settings of the gateway, and such
    that a child finds the same modules from any folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FENCEGATE_")}
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def start(
    name: str,
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    core: int | None = None,
) -> Child:
    """Start `command` in `folder`; with `core`, the child and its threads stay on that core."""
    log = folder / f"{name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**clean_environment(), **(environment or {})},
            start_new_session=True,
            preexec_fn=pinned_to(core),
        )
    return Child(name, log, process)


def python(*arguments: str) -> list[str]:
    """Return a command for this very interpreter."""
    return [sys.executable, *arguments]


def wait_for(child: Child, ready: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Poll until `ready`.

    Raises:
        ChildFailed: the child ended, or the time is up.
    """
    give_up_at_s = time.monotonic() + timeout_s
    while not ready():
        child.require_running()
        if time.monotonic() > give_up_at_s:
            raise ChildFailed(
                f"{child.name}: no {what} within {timeout_s:g} s; its last lines:\n{child.tail()}"
            )
        time.sleep(POLL_S)


def wait_for_port(child: Child, port_file: Path, timeout_s: float = START_TIMEOUT_S) -> int:
    """Return the port that the child wrote into `port_file` (`8080` or `host:8080`)."""
    found: list[int] = []

    def written() -> bool:
        with suppress(FileNotFoundError, ValueError):
            found.append(int(port_file.read_text().strip().rpartition(":")[2]))
        return bool(found)

    wait_for(child, written, f"port in {port_file.name}", timeout_s)
    return found[0]


def status_of(url: str, timeout_s: float = 2.0) -> int | None:
    """Return the status that a GET of `url` gets, or None if nobody answers."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def wait_until_ready(child: Child, url: str, timeout_s: float = START_TIMEOUT_S) -> None:
    """Wait until a GET of `url` is answered with 200."""
    wait_for(child, lambda: status_of(url) == 200, f"200 from {urlsplit(url).path}", timeout_s)


@dataclass
class Children:
    """The children of one run; leaving the `with` block stops them, last started first."""

    folder: Path
    started: list[Child] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        core: int | None = None,
    ) -> Child:
        child = start(name, command, folder=self.folder, environment=environment, core=core)
        self.started.append(child)
        return child

    def require_running(self) -> None:
        for child in self.started:
            child.require_running()

    def stop(self) -> None:
        """Stop all of them, even if one does not want to end or Ctrl-C comes again."""
        for child in self.started:  # all at once: none waits for another's drain time
            if child.running:
                child.process.terminate()
        try:
            for child in reversed(self.started):
                child.stop()
        finally:
            for child in self.started:
                if child.running:
                    child.kill()
