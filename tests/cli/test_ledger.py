"""`fencegate ledger`: backups of a ledger in use, and letting old answers go."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.exits import Exit
from gateway.clock import SystemClock
from gateway.core.effect import Outcome
from gateway.store.ledger import Ledger
from tests.cli.shelf import Shelf, at_rest
from tests.cli.terminal import call, run, run_beside
from tests.conformance.books import Books, BootClock


async def fill(shelf: Shelf) -> dict[str, str]:
    return {
        "confirmed": await shelf.effect("k-1", Outcome.CONFIRMED),
        "unknown": await shelf.effect("k-2", Outcome.UNKNOWN),
    }


def rows(path: Path, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(text).fetchall()


async def test_a_backup_taken_while_writing_has_all_that_was_committed_before(
    tmp_path: Path,
) -> None:
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    ledger = await Ledger.open(path, SystemClock())
    shelf = Shelf(ledger)
    before = {f"k-{n}" for n in range(50)}
    for key in sorted(before):
        await shelf.effect(key, Outcome.CONFIRMED)
    over = asyncio.Event()

    async def write_on() -> int:
        n = 0
        while not over.is_set():
            n += 1
            await shelf.effect(f"late-{n}", Outcome.CONFIRMED)
        return n

    writing = asyncio.ensure_future(write_on())
    ended = await run_beside("ledger", "backup", copy, "--ledger", f"sqlite:///{path}")
    over.set()
    written = await writing
    await ledger.close()

    assert ended.code == Exit.OK, ended.err
    assert written > 0
    assert "integrity ok" in ended.out
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not copy.with_name("copy.db.part").exists()
    (count,) = rows(copy, "SELECT count(*) FROM effect")[0]
    assert f"{count} effects" in ended.out
    assert count >= len(before)
    again = await Ledger.open(copy, SystemClock())  # a gateway can start on it
    try:
        kept = Shelf(again)
        await kept.effect("k-new", Outcome.CONFIRMED)
    finally:
        await again.close()
    assert before < {key for (key,) in rows(copy, "SELECT key FROM effect")}


def test_a_backup_never_overwrites(tmp_path: Path):
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    at_rest(path, fill)
    copy.write_text("precious")

    ended = call("ledger", "backup", copy, "--ledger", f"sqlite:///{path}")

    assert ended.code == Exit.CONFLICT
    assert str(copy) in ended.said
    assert copy.read_text() == "precious"


def test_a_backup_needs_a_folder_and_a_ledger(tmp_path: Path):
    path = tmp_path / "ledger.db"
    nothing = run("ledger", "backup", tmp_path / "copy.db", "--ledger", f"sqlite:///{path}")
    at_rest(path, fill)
    nowhere = call("ledger", "backup", tmp_path / "no" / "copy", "--ledger", f"sqlite:///{path}")

    assert nothing.code == Exit.UNAVAILABLE
    assert str(path) in nothing.said
    assert nowhere.code == Exit.USAGE
    assert str(tmp_path / "no") in nowhere.said
    assert not list(tmp_path.glob("copy*"))


def test_a_file_that_is_no_ledger_is_not_backed_up(tmp_path: Path):
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    path.write_bytes(b"this is a letter to my aunt" * 100)

    ended = run("ledger", "backup", copy, "--ledger", f"sqlite:///{path}")

    assert ended.code == Exit.UNAVAILABLE
    assert str(path) in ended.said
    assert not list(tmp_path.glob("copy*"))


async def _aged(path: Path) -> dict[str, str]:
    """A ledger of which one confirmed effect is 40 days old, and one unknown too."""
    now_ms = SystemClock().wall_ms()
    books = await Books.open(path, BootClock(now_ms - 40 * 86_400_000))
    ids = {
        "old": await books.settled(Outcome.CONFIRMED, "k-old"),
        "unknown": await books.settled(Outcome.UNKNOWN, "k-unknown"),
    }
    books.clock.advance(seconds=40 * 86_400)
    ids["new"] = await books.settled(Outcome.CONFIRMED, "k-new")
    await books.close()
    return ids


def test_only_old_answers_of_confirmed_effects_are_let_go(tmp_path: Path):
    path = tmp_path / "ledger.db"
    ids = asyncio.run(_aged(path))

    kept_longer = call("ledger", "gc", "--older-than", "60d", "--ledger", f"sqlite:///{path}")
    ended = call("ledger", "gc", "--ledger", f"sqlite:///{path}")
    again = call("ledger", "gc", "--ledger", f"sqlite:///{path}")

    assert kept_longer.out == "0 answers and 0 refusal records let go\n"
    assert ended.out == "1 answers and 0 refusal records let go\n"
    assert again.out == "0 answers and 0 refusal records let go\n"
    states = dict(rows(path, "SELECT effect_id, state FROM answer"))
    assert (states[ids["old"]], states[ids["new"]]) == ("expired", "complete")
    outcomes = dict(rows(path, "SELECT id, outcome FROM effect"))
    assert outcomes == {ids["old"]: "confirmed", ids["unknown"]: "unknown", ids["new"]: "confirmed"}


def test_how_long_answers_are_kept_may_be_a_setting(tmp_path: Path):
    path = tmp_path / "ledger.db"
    asyncio.run(_aged(path))

    ended = call(
        "ledger", "gc", FENCEGATE_LEDGER=f"sqlite:///{path}", FENCEGATE_BODY_RETENTION="39d"
    )

    assert ended.out.startswith("1 answers")


@pytest.mark.parametrize("text", ["soon", "30", "-1d", ""])
def test_a_duration_of_another_form_is_wrong_usage(tmp_path: Path, text: str):
    path = tmp_path / "ledger.db"
    at_rest(path, fill)

    ended = call("ledger", "gc", "--older-than", text, "--ledger", f"sqlite:///{path}")

    assert ended.code == Exit.USAGE
    assert f"--older-than: {text!r}" in ended.said


async def test_old_answers_are_left_to_a_gateway_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = await Ledger.open(path, SystemClock())

    ended = await run_beside("ledger", "gc", "--ledger", f"sqlite:///{path}")
    await ledger.close()

    assert ended.code == Exit.UNAVAILABLE
    assert "in use by process" in ended.said
    assert "every hour" in ended.said


def test_retention_makes_no_ledger_where_none_is(tmp_path: Path):
    ended = call("ledger", "gc", "--ledger", f"sqlite:///{tmp_path}/none.db")

    assert ended.code == Exit.UNAVAILABLE
    assert "none.db" in ended.said
    assert list(tmp_path.iterdir()) == []
