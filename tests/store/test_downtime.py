"""A machine that comes back with its wall clock behind was off for nobody knows how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.books import Books


@pytest.mark.parametrize(("step_s", "known"), [(-3600.0, False), (3600.0, True)])
async def test_an_absence_of_unknown_length_is_written_down(
    tmp_path: Path, step_s: float, known: bool
):
    books = await Books.open(tmp_path / "ledger.db")
    await books.reopen(reboot=True, step_wall_s=step_s)

    since_ms = await (await books.ledger.reader()).downtime_unknown_at_ms()

    assert (since_ms == 0) is known
    await books.close()


async def test_a_restart_on_the_same_boot_is_no_absence(tmp_path: Path):
    books = await Books.open(tmp_path / "ledger.db")
    await books.reopen(step_wall_s=-3600)

    assert await (await books.ledger.reader()).downtime_unknown_at_ms() == 0
    await books.close()
