"""Child processes: started, watched, stopped."""

from __future__ import annotations

import os
import signal

import pytest

from gateway.demo.processes import (
    ChildFailed,
    Children,
    python,
    start,
    status_of,
    wait_for_port,
    wait_until_ready,
)

SERVER = """
import http.server, pathlib, sys
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print("listening", flush=True)
pathlib.Path(sys.argv[1]).write_text(f"127.0.0.1:{server.server_port}")
server.serve_forever()
"""
DEAF = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text("1")
while True:
    signal.pause()
"""


def test_a_server_is_ready_once_it_answers_on_the_port_it_wrote_down(tmp_path):
    port_file = tmp_path / "port"
    with Children(tmp_path) as children:
        child = children.start("server", python("-c", SERVER, str(port_file)))

        url = f"http://127.0.0.1:{wait_for_port(child, port_file)}/"
        wait_until_ready(child, url)

        assert status_of(url) == 200
    assert not child.running
    assert status_of(url) is None


def test_a_child_that_dies_is_reported_with_its_last_words(tmp_path):
    child = start("crm", python("-c", "import sys; sys.exit('no such ledger')"), folder=tmp_path)

    with pytest.raises(ChildFailed, match=r"crm ended with code 1(.|\n)*no such ledger"):
        wait_for_port(child, tmp_path / "port")


def test_a_child_that_never_gets_ready_is_given_up(tmp_path):
    with Children(tmp_path) as children:
        child = children.start("idle", python("-c", "import signal; signal.pause()"))

        with pytest.raises(ChildFailed, match="no port in port within"):
            wait_for_port(child, tmp_path / "port", timeout_s=0.1)


def test_a_child_that_ignores_the_request_to_end_is_killed(tmp_path):
    port_file = tmp_path / "port"
    child = start("deaf", python("-c", DEAF, str(port_file)), folder=tmp_path)
    wait_for_port(child, port_file)

    code = child.stop(timeout_s=0.1)

    assert code == -signal.SIGKILL
    assert not child.running


def test_a_pinned_child_runs_on_its_core(tmp_path):
    core = min(os.sched_getaffinity(0))
    script = "import os; print(os.sched_getaffinity(0))"
    child = start("pinned", python("-c", script), folder=tmp_path, core=core)

    child.process.wait()

    assert child.tail() == f"{{{core}}}"


def test_leaving_the_block_stops_the_children_even_after_an_error(tmp_path):
    children = Children(tmp_path)

    def fail() -> None:
        with children:
            children.start("idle", python("-c", "import signal; signal.pause()"))
            raise RuntimeError("the run went wrong")

    with pytest.raises(RuntimeError, match="the run went wrong"):
        fail()
    assert not children.started[0].running


def test_a_child_does_not_see_settings_of_the_gateway_that_are_not_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEGATE_DEV", "true")
    script = "import os; print([name for name in os.environ if name.startswith('FENCEGATE')])"
    child = start("child", python("-c", script), folder=tmp_path)

    child.process.wait()

    assert child.tail() == "[]"
