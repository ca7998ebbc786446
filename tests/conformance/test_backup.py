"""A backup taken while the ledger is being written is a ledger of one moment."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from gateway.core.effect import Outcome
from gateway.core.errors import StoreError
from gateway.store.backup import back_up
from tests.conformance.books import Books


async def test_a_backup_made_while_writing_is_whole(file_store: Books, tmp_path: Path):
    done = asyncio.Event()

    async def write(name: str) -> int:
        count = 0
        while not done.is_set():
            await file_store.settled(Outcome.CONFIRMED, f"{name}-{count}")
            count += 1
        return count

    async with asyncio.TaskGroup() as tasks:
        writers = [tasks.create_task(write(f"w{n}")) for n in range(8)]
        counts = [
            await asyncio.to_thread(back_up, file_store.path, tmp_path / f"copy-{n}.db")
            for n in range(5)
        ]
        done.set()

    assert counts == sorted(counts)
    assert 0 < counts[-1] <= sum(writer.result() for writer in writers)
    for n, count in enumerate(counts):
        db = sqlite3.connect(tmp_path / f"copy-{n}.db")
        try:
            (effects,) = db.execute("SELECT count(*) FROM effect").fetchone()
            (torn,) = db.execute(
                "SELECT (SELECT count(*) FROM effect e WHERE NOT EXISTS "
                "(SELECT 1 FROM attempt a WHERE a.effect_id = e.id)) + (SELECT count(*) FROM "
                "effect e WHERE outcome = 'confirmed' AND NOT EXISTS "
                "(SELECT 1 FROM answer w WHERE w.effect_id = e.id))"
            ).fetchone()
        finally:
            db.close()
        assert (effects, torn) == (count, 0)


async def test_a_restored_backup_works_as_a_ledger(file_store: Books, tmp_path: Path):
    await file_store.settled(Outcome.CONFIRMED, term=7)
    back_up(file_store.path, tmp_path / "copy.db")

    restored = await Books.open(tmp_path / "copy.db", file_store.clock)
    try:
        assert await restored.ask("k-1", term=7) == "replay"
        assert await restored.ask("k-2", term=6) == "stale-term"
    finally:
        await restored.close()


def test_a_backup_never_overwrites_and_leaves_no_half_file(file_store: Books, tmp_path: Path):
    target = tmp_path / "copy.db"
    target.write_text("precious")

    with pytest.raises(StoreError, match="there already"):
        back_up(file_store.path, target)
    with pytest.raises(StoreError, match=r"nowhere\.db"):
        back_up(tmp_path / "nowhere.db", tmp_path / "other.db")

    assert target.read_text() == "precious"
    assert not list(tmp_path.glob("*.part*"))
    assert not (tmp_path / "other.db").exists()
