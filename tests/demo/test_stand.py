"""`fencegate try`: on whatever ports it is told, the gateway sends to its own CRM."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.demo.processes import ROOT, clean_environment, python
from gateway.demo.stand import policies_for

POLICIES = ROOT / "policies"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def tried(folder: Path, port: int, crm_port: int) -> Iterator[subprocess.Popen[str]]:
    words = ("--policies", POLICIES, "--folder", folder, "--port", port, "--crm-port", crm_port)
    process = subprocess.Popen(
        python("-m", "gateway", "try", *map(str, words)),
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def read_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    seen = ""
    give_up_at_s = time.monotonic() + 40
    while word not in seen and time.monotonic() < give_up_at_s:
        line = process.stdout.readline()
        if not line:
            break
        seen += line
    return seen


def test_a_write_reaches_the_crm_on_the_port_that_was_chosen(tmp_path: Path):
    port, crm_port = free_ports(2)

    with tried(tmp_path / "one", port, crm_port) as process:
        said = read_until(process, "Ctrl-C")
        term = re.search(r"Fence-Term: (\d+)", said)
        assert term is not None, said
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/d/crm/notes",
            data=json.dumps({"text": "here"}).encode(),
            headers={
                "Fence-Function": "relatorio-comercial-diario", "Fence-Term": term[1],
                "Fence-Holder": "ana#1", "Idempotency-Key": "k-1",
                "Content-Type": "application/json",
            },
        )  # fmt: skip
        with urllib.request.urlopen(asked, timeout=10) as got:
            assert got.status == 201
        with urllib.request.urlopen(
            f"http://127.0.0.1:{crm_port}/_sandbox/summary", timeout=10
        ) as got:
            assert json.load(got)["applied"] == 1


def test_a_second_one_in_the_same_folder_is_told_the_way_out(tmp_path: Path):
    port, crm_port, other, other_crm = free_ports(4)

    with tried(tmp_path, port, crm_port) as first:
        read_until(first, "Ctrl-C")
        with tried(tmp_path, other, other_crm) as second:
            said = read_until(second, "\0")

    assert "curl" not in said
    assert "in use by another sandbox" in said
    assert "--folder, --port and --crm-port" in said


def test_the_policies_are_copied_only_where_they_say_another_port(tmp_path: Path):
    assert policies_for(POLICIES, 9100, tmp_path) == POLICIES

    copy = policies_for(POLICIES, 9200, tmp_path)

    assert copy.parent == tmp_path
    assert "base_url: http://127.0.0.1:9200\n" in (copy / "crm.yaml").read_text("utf-8")
    assert {file.name for file in copy.iterdir()} == {file.name for file in POLICIES.iterdir()}
    assert "base_url: http://127.0.0.1:9100\n" in (POLICIES / "crm.yaml").read_text("utf-8")
    assert policies_for(copy, 9300, tmp_path) == copy
    assert "base_url: http://127.0.0.1:9300\n" in (copy / "crm.yaml").read_text("utf-8")
