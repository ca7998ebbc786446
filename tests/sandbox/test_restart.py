"""The sandbox as a process: its file outlives a kill, its signals and its port behave."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import aiohttp
import pytest

from gateway.sandbox.server import check_host

PROGRAM = """
import pathlib, sys
from gateway.sandbox.server import run
run("127.0.0.1", 0, file=pathlib.Path(sys.argv[1]), fsync=sys.argv[2] == "fsync", token=None,
    port_file=pathlib.Path(sys.argv[3]))
"""


@contextmanager
def a_process(file, port_file, fsync="no") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a sandbox process and give it with its URL, once it listens."""
    command = [sys.executable, "-c", PROGRAM, str(file), fsync, str(port_file)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("sandbox CRM listening on http://127.0.0.1:")
            yield process, line.split()[-1]
        finally:
            process.kill()


async def _tell(url, method, path, content=None, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.request(method, url + path, json=content, headers=named) as answer:
        return await answer.json() if await answer.read() else None


async def _state(url):
    paths = ("/_sandbox/requests", "/_sandbox/summary", "/contacts", "/notes")
    requests, summary, contacts, notes = [await _tell(url, "GET", path) for path in paths]
    return requests, summary["duplicates"], summary["applied"], contacts, notes


@pytest.mark.parametrize("fsync", ["no", "fsync"])
async def test_after_a_kill_the_file_brings_back_records_journal_and_duplicates(tmp_path, fsync):
    file, port_file = tmp_path / "crm.jsonl", tmp_path / "port"
    with a_process(file, port_file, fsync) as (process, url):
        await _tell(url, "POST", "/notes", {"text": "gone"})
        await _tell(url, "DELETE", "/_sandbox/requests")
        await _tell(url, "POST", "/contacts", {"external_id": "e1"}, Authorization="Bearer s3cret")
        await _tell(url, "PATCH", "/contacts/contact-1", {"city": "Recife"})
        await _tell(url, "POST", "/contacts", {"external_id": "e2"})
        await _tell(url, "DELETE", "/contacts/contact-2")
        with suppress(aiohttp.ClientError):
            fault = {"X_Sandbox_Fault": "close-after", "X_Sandbox_Intent": "n1"}
            await _tell(url, "POST", "/notes", {"text": "late"}, **fault)
        await _tell(url, "POST", "/notes", {"text": "late"}, X_Sandbox_Intent="n1")
        before = await _state(url)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert b"s3cret" not in file.read_bytes()
    with a_process(file, port_file) as (_, url):
        requests, duplicates, applied, contacts, notes = await _state(url)
        kept = len(before[0])  # the reads of _state itself are journalled too
        assert (requests[:kept], duplicates, applied, contacts, notes) == before
        assert duplicates == [{"intent": "n1", "entries": [6, 7]}]
        await _tell(url, "POST", "/contacts", {"external_id": "e1"})
        later = await _state(url)
        assert [contact["id"] for contact in later[3]["items"]] == ["contact-1", "contact-3"]
        assert [entry["n"] for entry in later[0]] == list(range(2, 2 + len(later[0])))
        assert later[1][1]["intent"] == "POST /contacts e1"


async def test_a_request_held_when_the_process_dies_never_happened(tmp_path):
    file, port_file = tmp_path / "crm.jsonl", tmp_path / "port"
    with a_process(file, port_file) as (process, url):
        timeout = aiohttp.ClientTimeout(total=10)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            posting = session.post(
                f"{url}/contacts", json={}, headers={"X-Sandbox-Fault": "hold:h"}
            )
            held = asyncio.ensure_future(posting)
            assert await _tell(url, "GET", "/_sandbox/holds?name=h&wait=10s") == {"h": 1}
            process.send_signal(signal.SIGKILL)
            process.wait()
            with pytest.raises(aiohttp.ClientError):
                await held
    with a_process(file, port_file) as (_, url):
        [entry] = await _tell(url, "GET", "/_sandbox/requests")
        assert (entry["fault"], entry["applied"]) == ("hold:h", False)


async def test_sigterm_ends_the_process_cleanly_even_while_a_request_hangs(tmp_path):
    port_file = tmp_path / "port"
    with a_process(tmp_path / "crm.jsonl", port_file) as (process, url):
        assert url.endswith(f":{port_file.read_text()}")
        async with aiohttp.ClientSession() as session:
            hanging = asyncio.ensure_future(
                session.post(f"{url}/contacts", json={}, headers={"X-Sandbox-Fault": "hang"})
            )
            await _tell(url, "GET", "/_sandbox/requests?applied=true&wait=10s")
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=10) == 0
            with pytest.raises(aiohttp.ClientError):
                await hanging


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "0.0.0.0"])
def test_loopback_and_the_explicit_container_address_are_served(host):
    check_host(host)


@pytest.mark.parametrize("host", ["192.0.2.1", "::", "crm.example", ""])
def test_other_hosts_are_not_served(host):
    with pytest.raises(ValueError, match="loopback"):
        check_host(host)
