"""What arrived, what it changed, and what happened twice.

Every request gets an entry the moment it was read, before any misbehaviour. `applied` turns
true when the request changes a record, which for a held or delayed request is later. Counts and
duplicates are kept apart from the entries, so they stay right when old entries are dropped.

`Tape` is the file behind records and journal: JSON lines, one write per line, so that entry and
change of a plain request live or die together.

    {"entry": {...}, "change": [kind, id, version, fields]}     change: only if it applied at once
    {"applied": n, "intent": ..., "effect": ..., "change": [...]}
    {"cleared_through": n}
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

Json = dict[str, Any]

KEPT_BODY_BYTES = 4096
DEFAULT_JOURNAL_LIMIT = 1_000_000


@dataclass(slots=True)
class Entry:
    """One request received. Headers are kept as encoded JSON: there may be a million of these."""

    n: int
    method: str
    target: str
    headers: str
    body_sha256: str
    body: str
    at_ms: int
    intent: str | None
    applied: bool = False
    effect: str | None = None
    fault: str | None = None

    def to_json(self) -> Json:
        shown = {name: getattr(self, name) for name in Entry.__slots__}
        return {**shown, "headers": orjson.Fragment(self.headers)}


def entry_from_json(line: Json) -> Entry:
    return Entry(**{**line, "headers": orjson.dumps(line["headers"]).decode()})


def digest_headers(raw: Sequence[tuple[bytes, bytes]]) -> str:
    """Encode headers as pairs; credentials are replaced by the start of their SHA-256."""
    pairs = []
    for name, value in raw:
        text = value.decode("utf-8", "replace")
        if name.lower().endswith(b"authorization"):  # Proxy- and Fence-Authorization too
            text = "sha256:" + hashlib.sha256(value).hexdigest()[:16]
        pairs.append((name.decode("utf-8", "replace"), text))
    # As text, because the bytes orjson returns keep hold of the 4 KiB they were written in.
    return orjson.dumps(pairs).decode()


async def until(bell: asyncio.Event, ready: Callable[[], bool], timeout_s: float) -> None:
    """Wait for `ready`, looking again each time `bell` rings; give up quietly at the timeout."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while not ready():
                await bell.wait()


def ring(bell: asyncio.Event) -> None:
    """Wake whoever waits now; later waiters wait for the next ring."""
    bell.set()
    bell.clear()


class Journal:
    """The entries in memory, at most `limit` of them, and the counts over all of them."""

    def __init__(self, limit: int = DEFAULT_JOURNAL_LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"journal_limit must be at least 1, not {limit}")
        self.bell = asyncio.Event()
        self.last_n = 0
        self._entries: deque[Entry] = deque(maxlen=limit)
        self._forget()

    def _forget(self) -> None:
        self._cleared_through = self.last_n
        self._entries.clear()
        self._requests = 0
        self._applied = 0
        self._by_method: Counter[str] = Counter()
        self._first: dict[str, int] = {}
        self._repeated: dict[str, list[int]] = {}

    def clear(self, through: int | None = None) -> None:
        """Forget everything. Numbering goes on, so that a reader's `since` stays meaningful."""
        self.last_n = self.last_n if through is None else through
        self._forget()

    def receive(
        self,
        *,
        method: str,
        target: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        intent: str | None,
    ) -> Entry:
        """Write down one request under the next number."""
        entry = Entry(
            n=self.last_n + 1,
            method=method,
            target=target,
            headers=digest_headers(headers),
            body_sha256=hashlib.sha256(body).hexdigest(),
            body=body[:KEPT_BODY_BYTES].decode("utf-8", "replace"),
            at_ms=time.time_ns() // 1_000_000,
            intent=intent,
        )
        self.append(entry)
        return entry

    def append(self, entry: Entry) -> None:
        self.last_n = entry.n
        self._entries.append(entry)
        self._requests += 1
        self._by_method[entry.method] += 1
        if entry.applied:
            self._count(entry.n, entry.intent)
        ring(self.bell)

    def knows(self, n: int) -> bool:
        """Tell whether entry `n` is counted, that is, was not cleared away since."""
        return n > self._cleared_through

    def mark_applied(self, entry: Entry, effect: str) -> None:
        """Record that `entry` changed a record."""
        entry.applied = True
        entry.effect = effect
        self._count(entry.n, entry.intent)
        ring(self.bell)

    def mark_number(self, n: int, intent: str | None, effect: str) -> None:
        """Do the same for an entry that is known by number only, and may have been dropped."""
        index = n - self._entries[0].n if self._entries else -1
        if index >= 0:
            self.mark_applied(self._entries[index], effect)
        else:
            self._count(n, intent)

    def _count(self, n: int, intent: str | None) -> None:
        self._applied += 1
        if intent is None:
            return
        first = self._first.setdefault(intent, n)
        if first != n:
            self._repeated.setdefault(intent, [first]).append(n)

    def since(self, n: int, *, applied: bool | None = None) -> Iterator[Entry]:
        """Give the kept entries numbered above `n`, in order."""
        skip = max(0, n + 1 - self._entries[0].n) if self._entries else 0
        for entry in islice(self._entries, skip, None):
            if applied is None or entry.applied == applied:
                yield entry

    def summary(self) -> Json:
        return {
            "requests": self._requests,
            "applied": self._applied,
            "duplicates": [
                {"intent": intent, "entries": sorted(numbers)}
                for intent, numbers in self._repeated.items()
            ],
            "by_method": dict(self._by_method),
        }


class Tape:
    """An append-only file of JSON lines that one process owns."""

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._fsync = fsync
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as failure:
            self._file.close()
            raise OSError(
                f"{path} is in use by another sandbox; stop the other, or give this one a file of "
                "its own (fencegate try: --folder, --port and --crm-port)"
            ) from failure

    def lines(self) -> Iterator[Json]:
        """Read the file from its start, and cut off a last line that a kill left half-written.

        Raises:
            ValueError: a line in the middle is not JSON; the file is not ours or is damaged.
        """
        self._file.seek(0)
        whole_bytes = 0
        for number, line in enumerate(self._file, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as failure:
                raise ValueError(f"{self._path}:{number} is not a journal line") from failure
            whole_bytes += len(line)
        self._file.truncate(whole_bytes)

    def write(self, line: Json) -> None:
        self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self._file.flush()
        if self._fsync:
            os.fsync(self._file.fileno())

    def restart(self, cleared_through: int) -> None:
        """Empty the file, keeping only how far the numbering had come."""
        self._file.truncate(0)
        self.write({"cleared_through": cleared_through})

    def close(self) -> None:
        self._file.close()
