"""The demo from end to end, as a user starts it: real processes, real HTTP, a real ledger."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from gateway.demo.narrate import WIDTH

COMMAND = [sys.executable, "-m", "gateway", "demo"]
LONGEST_RUN_S = 60


def test_the_demo_makes_one_report_in_spite_of_two_leaders(tmp_path):
    done = subprocess.run(
        [*COMMAND, "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        timeout=LONGEST_RUN_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    rows = {line.strip()[:42].strip(): line.strip()[42:].strip() for line in lines}
    assert rows["items confirmed"] == "31 of 31"
    assert rows["kept from the old leader, handed out again"] == "18, 13"
    assert rows["effects at the CRM"] == "32 of 32 intended"
    assert rows["duplicates at the CRM"] == "0"
    assert rows["reports published"] == "1"
    assert rows["written by the old leader after its term"] == "0"
    assert rows["refused: 412 stale-term"] == "2"
    assert rows["unknown, and settled"] == "1 by probe"
    assert rows["unknown, still open"] == "0"
    told = " ".join(done.stdout.replace("|", " ").split())
    assert "18 of 31 items of relatorio-comercial:2026-10-02 are confirmed" in told
    assert "the new leader must reconcile 13." in told
    assert "18 de 31 itens de relatorio-comercial:2026-10-02 estão confirmados" in told
    assert any(line.startswith("PROMISE KEPT") for line in lines)
    assert all(len(line) <= WIDTH for line in lines if str(tmp_path) not in line)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_leaves_nothing_behind_when_it_is_interrupted(tmp_path, number):
    demo = subprocess.Popen(
        COMMAND,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
        # A test run in the background ignores SIGINT, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert demo.stdout is not None
    first_line = demo.stdout.readline()
    while "leads" not in demo.stdout.readline():  # the replicas are up by then
        assert demo.poll() is None
    children = psutil.Process(demo.pid).children(recursive=True)

    demo.send_signal(number)
    demo.communicate(timeout=LONGEST_RUN_S)

    assert first_line.startswith("sandbox CRM on ")
    assert len(children) >= 5
    assert not any(child.is_running() for child in children)
    assert demo.returncode == 130
    assert list(tmp_path.iterdir()) == []
