"""The stores that the suite runs on: each kind is one parameter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.books import Books


@pytest.fixture(params=["sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Books]:
    assert request.param == "sqlite"
    books = await Books.open(tmp_path / "ledger.db")
    try:
        yield books
    finally:
        await books.close()
