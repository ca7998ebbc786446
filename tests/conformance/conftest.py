"""The stores that the suite runs on: each kind is one parameter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.books import Books
from tests.conformance.working import Site


@pytest.fixture(params=["sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Books]:
    assert request.param == "sqlite"
    books = await Books.open(tmp_path / "ledger.db")
    try:
        yield books
    finally:
        await books.close()


@pytest.fixture
async def site(store: Books) -> Site:
    """A unit of three items, under term 7."""
    site = Site(store)
    assert (await site.create()).made
    return site
