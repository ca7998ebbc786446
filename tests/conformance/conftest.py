"""The stores that the suite runs on: each kind is one parameter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.books import Books
from tests.conformance.shelves import FileShelf, PostgresShelf, Shelf
from tests.conformance.working import Site


@pytest.fixture(params=["sqlite", "postgres"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    if request.param == "sqlite":
        return FileShelf(tmp_path / "ledger.db")
    return PostgresShelf(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def store(shelf: Shelf) -> AsyncIterator[Books]:
    books = await Books.open_at(shelf)
    try:
        yield books
    finally:
        await books.close()


@pytest.fixture
async def file_store(tmp_path: Path) -> AsyncIterator[Books]:
    """A ledger in a file, for what a file alone can do."""
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
