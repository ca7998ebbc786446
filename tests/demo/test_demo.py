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


def test_the_demo_proves_the_promise_from_the_crms_own_record(tmp_path):
    done = subprocess.run(
        [*COMMAND, "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LONGEST_RUN_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    rows = {line.strip()[:42].strip(): line.strip()[42:].strip() for line in lines}
    assert rows["duplicates at the CRM"] == "0"
    assert rows["sent by the old leader after the takeover"] == "0"
    assert rows["refused: stale-term"] == "2"
    assert rows["refused: predecessor-in-flight"] == "1"
    assert rows["unknown"] == "1, still open: 0"
    assert any(line.startswith("PROMISE KEPT") for line in lines)
    assert all(len(line) <= WIDTH for line in lines if str(tmp_path) not in line)
    assert done.stdout.isascii()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_leaves_nothing_behind_when_it_is_interrupted(tmp_path, number):
    demo = subprocess.Popen(
        COMMAND,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        # A test run in the background ignores SIGINT, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert demo.stdout is not None
    first_line = demo.stdout.readline()
    children = psutil.Process(demo.pid).children(recursive=True)

    demo.send_signal(number)
    demo.communicate(timeout=LONGEST_RUN_S)

    assert first_line.startswith("sandbox CRM on ")
    assert len(children) == 2
    assert not any(child.is_running() for child in children)
    assert demo.returncode == 130
    assert list(tmp_path.iterdir()) == []
