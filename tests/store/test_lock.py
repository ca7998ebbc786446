"""One process owns a ledger; the kernel gives it back however that process ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from gateway.core.effect import Outcome
from gateway.core.errors import LedgerUnavailable, StoreError
from gateway.store.connect import FileLock
from tests.conformance.books import Books

ROOT = Path(__file__).parents[2]
OWNER = """
import asyncio, pathlib, sys
from gateway.clock import SystemClock
from gateway.store.ledger import Ledger
from tests.conformance.books import proposal

async def own():
    ledger = await Ledger.open(pathlib.Path(sys.argv[1]), SystemClock())
    await ledger.admit(proposal("e-left", "k-1"))
    print("open", flush=True)
    await asyncio.Event().wait()

asyncio.run(own())
"""


async def test_a_second_process_is_refused_and_told_who_the_first_is(tmp_path: Path):
    path = tmp_path / "ledger.db"
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(path), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert owner.stdout is not None
        assert await owner.stdout.readline() == b"open\n"

        with pytest.raises(StoreError, match=rf"ledger\.db is in use by process {owner.pid};"):
            await Books.open(path)
    finally:
        owner.send_signal(signal.SIGKILL)
        await owner.wait()

    books = await Books.open(path)
    try:
        assert (await books.effect("e-left")).outcome is Outcome.UNKNOWN
        with pytest.raises(StoreError, match=f"process {os.getpid()};"):
            await Books.open(path)
    finally:
        await books.close()


async def test_a_link_to_the_ledger_is_the_same_ledger(tmp_path: Path):
    books = await Books.open(tmp_path / "ledger.db")
    link = tmp_path / "link.db"
    link.symlink_to(books.path)
    try:
        with pytest.raises(StoreError, match="in use"):
            await Books.open(link)
    finally:
        await books.close()


async def test_a_ledger_that_cannot_be_opened_is_let_go(tmp_path: Path):
    path = tmp_path / "ledger.db"
    path.write_bytes(b"this is no database, whatever its name says" * 100)

    for _ in range(2):  # the lock is free again
        with pytest.raises(StoreError, match=re.escape(f"{path} cannot be opened")):
            await Books.open(path)


async def test_a_ledger_whose_start_fails_leaves_nothing_running(tmp_path: Path):
    path = tmp_path / "ledger.db"
    await (await Books.open(path)).close()
    db = sqlite3.connect(path)
    db.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON instance "
        "BEGIN SELECT RAISE(ABORT, 'not today'); END"
    )
    db.close()

    with pytest.raises(LedgerUnavailable, match="not today"):
        await Books.open(path)

    assert "ledger-writer" not in {thread.name for thread in threading.enumerate()}


def test_a_lock_is_free_after_its_release(tmp_path: Path):
    first, second = FileLock(tmp_path / "ledger.db"), FileLock(tmp_path / "ledger.db")
    first.take()
    first.release()
    first.release()

    second.take()
    second.release()


async def test_the_ledger_is_for_its_user_alone(tmp_path: Path):
    books = await Books.open(tmp_path / "deep" / "ledger.db")
    try:
        await books.admitted()
        modes = {name.name: name.stat().st_mode & 0o777 for name in sorted_files(books.path)}
    finally:
        await books.close()

    modes.pop("ledger.db.lock")  # says a process id, nothing else
    assert modes == {"ledger.db": 0o600, "ledger.db-shm": 0o600, "ledger.db-wal": 0o600}


def sorted_files(path: Path) -> list[Path]:
    return sorted(path.parent.iterdir())
