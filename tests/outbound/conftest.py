"""A real destination, and the way out to it, on both event loops."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop

from gateway.clock import SystemClock
from gateway.outbound import Outbound
from tests.raw_destination import RawDestination


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"std": asyncio.new_event_loop, "uv": uvloop.new_event_loop}


@pytest.fixture
async def crm() -> AsyncIterator[RawDestination]:
    async with RawDestination() as destination:
        yield destination


@pytest.fixture
async def outbound() -> AsyncIterator[Outbound]:
    out = Outbound(SystemClock())
    yield out
    await out.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", "/CN=crm.test", "-addext", "subjectAltName=IP:127.0.0.1"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *subject, "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    return certificate, key
