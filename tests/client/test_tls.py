"""Over TLS the worker's side talks to the gateway whose certificate it trusts, and to no other."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from gateway.client.calls import Gateway
from gateway.client.errors import NotReached
from tests.client.script import Script, scripted


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    chain, key = folder / "chain.pem", folder / "key.pem"
    openssl = shutil.which("openssl")
    assert openssl, "install openssl: the certificate of these tests is made with it"
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-keyout", str(key), "-out", str(chain), "-days", "2",
            "-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return chain, key


async def test_a_call_goes_over_tls_to_a_gateway_that_is_trusted(certificate: tuple[Path, Path]):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*certificate)

    async with scripted(Script(), tls=server) as script:
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
        gateway = Gateway(script.url, tls=trusting)
        status, said = await gateway.control("GET", "/v1/leases/f", timeout_s=5)

        assert (status, said["term"]) == (200, 0)
        assert script.url.startswith("https://")


async def test_a_gateway_that_is_not_trusted_is_told_nothing(certificate: tuple[Path, Path]):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*certificate)

    async with scripted(Script(), tls=server) as script:
        with pytest.raises(NotReached, match="certificate"):
            await Gateway(script.url, "t-1").control("GET", "/v1/leases/f", timeout_s=5)

        assert script.asked == []
