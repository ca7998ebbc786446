"""A ledger on a real file for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.books import Books


@pytest.fixture
async def books(tmp_path: Path) -> AsyncIterator[Books]:
    opened = await Books.open(tmp_path / "ledger.db")
    try:
        yield opened
    finally:
        await opened.close()
