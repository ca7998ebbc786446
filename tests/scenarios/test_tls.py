"""TLS towards callers: --tls-cert and --tls-key."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.scenarios.caller import Leader, NoAnswer, ask
from tests.scenarios.stage import Stage


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that vouches for itself, and its key."""
    openssl = shutil.which("openssl")
    assert openssl, "these tests make their certificate with the openssl program; install it"
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


async def start(stage: Stage, cert: Path, key: Path) -> Leader:
    await stage.start("--tls-cert", str(cert), "--tls-key", str(key))
    return Leader(stage.port, 7, tls=ssl.create_default_context(cafile=str(cert)))


async def test_a_write_goes_through_over_tls(stage, pair):
    leader = await start(stage, *pair)

    got = await leader.create("k-1")
    replay = await leader.create("k-1")

    assert (got.status, got.headers["Fence-Outcome"]) == (201, "confirmed")
    assert replay.headers["Idempotent-Replayed"] == "true"
    assert await stage.applied_keys() == ["k-1"]


async def test_plain_http_gets_no_answer_and_tls_goes_on(stage, pair):
    leader = await start(stage, *pair)

    with pytest.raises(NoAnswer):
        await ask(stage.port, "GET", "/livez")

    assert (await leader.create("k-1")).status == 201


async def test_a_caller_that_does_not_know_the_certificate_hangs_up(stage, pair):
    await start(stage, *pair)
    stranger = Leader(stage.port, 7, tls=ssl.create_default_context())

    with pytest.raises(NoAnswer, match="CERTIFICATE_VERIFY_FAILED"):
        await stranger.create("k-1")

    assert await stage.received_keys() == []


async def test_a_draining_gateway_answers_over_tls_to_the_end(stage, pair):
    leader = await start(stage, *pair)
    sending = asyncio.ensure_future(leader.create("k-1", X_Sandbox_Fault="hold:a"))
    await stage.until_held("a")

    ending = asyncio.ensure_future(stage.terminate())
    await stage.release("a")

    assert (await sending).status == 201
    assert await ending == 0


async def test_a_key_that_does_not_fit_the_certificate_is_refused_at_the_start(stage, pair):
    await stage.start_crm()
    stage.write_policies()
    cert, _ = pair

    child = stage.launch("--tls-cert", str(cert), "--tls-key", str(cert))
    code = await asyncio.to_thread(child.process.wait, 15)

    assert code == 3
    assert f"--tls-key {cert} do not load" in child.tail()
    assert "Traceback" not in child.tail()
