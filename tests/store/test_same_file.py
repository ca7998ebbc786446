"""A ledger that is taken away under a running gateway takes no more writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.core.errors import LedgerUnavailable
from tests.conformance.books import Books


@pytest.mark.parametrize("suffix", ["", ".lock"])
async def test_nothing_is_admitted_into_a_ledger_that_was_moved(
    books: Books, tmp_path: Path, suffix: str
) -> None:
    await books.admit("k-1")
    path = tmp_path / f"ledger.db{suffix}"
    away = path.rename(tmp_path / "away")

    with pytest.raises(LedgerUnavailable):
        await books.admit("k-2")

    away.rename(path)
    assert (await books.admit("k-3")).n == 1
    assert [key for (key,) in books.rows("SELECT key FROM effect ORDER BY key")] == ["k-1", "k-3"]


async def test_nothing_is_admitted_into_a_ledger_that_was_replaced(
    books: Books, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    path.rename(tmp_path / "away")
    copy.rename(path)

    with pytest.raises(LedgerUnavailable, match="another file"):
        await books.admit("k-1")
