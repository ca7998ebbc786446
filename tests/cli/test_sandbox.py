"""`fencegate sandbox-crm`: starts, answers, remembers, and stops when asked to."""

from __future__ import annotations

import http.client
import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.exits import Exit
from gateway.demo.processes import Child, Children, python, wait_for_port
from tests.cli.terminal import call

TOKEN = "s3cret-of-the-crm"


class Crm:
    """The sandbox as a process."""

    def __init__(self, children: Children, *words: str, **environment: str) -> None:
        self.port_file = children.folder / "port"
        self.port_file.unlink(missing_ok=True)
        given = ("sandbox-crm", "--port", "0", "--port-file", str(self.port_file), *words)
        self.child: Child = children.start(
            "crm", python("-m", "gateway", *given), environment=environment
        )
        self.port = wait_for_port(self.child, self.port_file)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), headers=headers
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def stop(self) -> int:
        self.child.process.send_signal(signal.SIGTERM)
        return self.child.process.wait(20)


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with Children(tmp_path) as children:
        yield children


def test_it_takes_notes_and_forgets_nothing_over_a_restart(children: Children, tmp_path: Path):
    crm = Crm(children, "--file", str(tmp_path / "crm.jsonl"), "--fsync")
    status, made = crm.ask("POST", "/notes", {"text": "18 of 31"})
    assert status == 201
    assert crm.stop() == Exit.OK
    assert f"listening on http://127.0.0.1:{crm.port}" in crm.child.tail()

    again = Crm(children, "--file", str(tmp_path / "crm.jsonl"))

    assert again.ask("GET", f"/notes/{made['id']}")[1]["text"] == "18 of 31"
    first, *_ = again.ask("GET", "/_sandbox/requests")[1]
    assert (first["method"], first["applied"]) == ("POST", True)


def test_it_asks_for_a_token_that_no_process_list_shows(children: Children):
    crm = Crm(children, SANDBOX_CRM_TOKEN=TOKEN)

    assert crm.ask("GET", "/notes")[0] == 401
    assert crm.ask("GET", "/notes", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert TOKEN not in crm.child.tail()


def test_it_is_not_offered_to_a_network():
    ended = call("sandbox-crm", "--host", "10.0.0.1", "--port", "0")

    assert ended.code == Exit.REFUSED_TO_START
    assert "'10.0.0.1'" in ended.said


def test_a_port_that_is_taken_is_told(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = call("sandbox-crm", "--port", port)

    assert ended.code == Exit.REFUSED_TO_START
    assert str(port) in ended.said


def test_a_token_in_the_environment_is_not_shown_in_the_help():
    ended = call("sandbox-crm", "--help", SANDBOX_CRM_TOKEN=TOKEN, COLUMNS="200")

    assert ended.code == Exit.OK
    assert "SANDBOX_CRM_TOKEN" in ended.out
    assert TOKEN not in ended.out
