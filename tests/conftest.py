"""What holds for all tests, and what those in several folders share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.postgres_server import Server, running_server


def pytest_configure() -> None:
    # A shell starts what runs in the background with Ctrl-C ignored, and every process inherits
    # that: those that a test interrupts would go on for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Server) -> str:
    """The database with the ledger's schema, and nothing in it."""
    return postgres_server.url(postgres_server.ledger())
