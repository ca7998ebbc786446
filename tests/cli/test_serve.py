"""`fencegate serve`: its options, where else they may be said, and which of them counts."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.exits import Exit
from gateway.demo.processes import Child, Children, python, wait_for_port
from gateway.settings import Settings
from tests.cli.terminal import call
from tests.house import DESTINATION, FUNCTION, write_policies

SERVE = python("-m", "gateway", "serve")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_policies(tmp_path / "rules", {"crm": DESTINATION % {"port": 9}, "relatorio": FUNCTION})
    return tmp_path


@pytest.fixture
def children(folder: Path) -> Iterator[Children]:
    with Children(folder) as children:
        yield children


def readyz(port: int) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def stopped(child: Child) -> int:
    child.process.send_signal(signal.SIGTERM)
    return child.process.wait(20)


def test_the_help_names_every_setting_with_its_variable():
    text = " ".join(call("serve", "--help", COLUMNS="300").out.split())

    for name in Settings.model_fields:
        if "secret" in name:  # a command line is in every process list
            assert f"--{name.replace('_', '-')}" not in text
            assert f"FENCEGATE_{name.upper()}" in text
            continue
        assert f"--{name.replace('_', '-')} " in text
        assert f"(FENCEGATE_{name.upper()})" in text
    assert "fencegate.toml" in text


def test_everything_may_be_said_by_variables(children: Children, folder: Path):
    environment = {
        "FENCEGATE_POLICIES": str(folder / "rules"),
        "FENCEGATE_LEDGER": f"sqlite:///{folder / 'by-variable.db'}",
        "FENCEGATE_LISTEN": "127.0.0.1:0",
        "FENCEGATE_PORT_FILE": str(folder / "port"),
        "FENCEGATE_DEV": "true",
        "FENCEGATE_DRAIN_S": "200ms",
    }
    child = children.start("gateway", SERVE, environment=environment)
    port = wait_for_port(child, folder / "port")

    status, said = readyz(port)

    assert (status, said["policies"]["destinations"]) == (200, ["crm"])
    assert (folder / "by-variable.db").is_file()
    assert stopped(child) == Exit.OK


def test_a_file_may_say_it_variables_win_over_it_and_options_over_both(
    children: Children, folder: Path
):
    (folder / "fencegate.toml").write_text(
        'policies = "rules"\n'
        'ledger = "sqlite:///by-file.db"\n'
        'listen = "127.0.0.1:0"\n'
        'port_file = "port-by-file"\n'
        'log_format = "text"\n'
        "dev = true\n"
        "drain_s = 0.2\n"
    )
    environment = {"FENCEGATE_PORT_FILE": "port-by-variable", "FENCEGATE_LEDGER": "sqlite:///v.db"}
    words = [*SERVE, "--ledger", "sqlite:///by-option.db"]
    child = children.start("gateway", words, environment=environment)
    port = wait_for_port(child, folder / "port-by-variable")

    assert readyz(port)[0] == 200
    assert stopped(child) == Exit.OK
    assert (folder / "by-option.db").is_file()
    for other in ("by-file.db", "v.db", "port-by-file"):
        assert not (folder / other).exists()
    assert not child.tail(1).startswith("{")


def test_durations_and_sizes_are_written_with_their_unit(children: Children, folder: Path):
    words = [
        *SERVE, "--policies", "rules", "--ledger", "sqlite:///ledger.db", "--dev",
        "--listen", "127.0.0.1:0", "--port-file", "port", "--drain-s", "100ms",
        "--body-retention", "2d", "--replay-body-max", "16KiB", "--body-spool-bytes", "64KiB",
        "--keepalive-timeout", "5s",
    ]  # fmt: skip
    child = children.start("gateway", words)

    assert readyz(wait_for_port(child, folder / "port"))[0] == 200
    assert stopped(child) == Exit.OK


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "here"], "--listen: 'here'"),
        (["--log-level", "loud"], "--log-level is 'loud'"),
        (["--drain-s", "soon"], "--drain-s: 'soon'"),
        (["--body-retention", "30"], "--body-retention: '30'"),
        (["--replay-body-max", "big"], "--replay-body-max: 'big'"),
        (["--body-spool-bytes", "big"], "--body-spool-bytes: 'big'"),
        (["--ledger", "postgresql://u:s3cret@h/db"], "--ledger: postgresql://"),
        (["--dev", "--listen", "0.0.0.0:0"], "loopback only"),
        ([], "no principals file"),
        (["--principals", "none.yaml"], "'none.yaml'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
):
    monkeypatch.chdir(folder)

    ended = call("serve", "--policies", "rules", *words)

    assert ended.code == Exit.REFUSED_TO_START
    assert said in ended.said
    assert "s3cret" not in ended.err
    assert [each.name for each in folder.iterdir()] == ["rules"]


def test_a_word_in_the_file_that_is_no_setting_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    (folder / "fencegate.toml").write_text('lisen = "127.0.0.1:0"\n')

    ended = call("serve", "--dev")

    assert ended.code == Exit.REFUSED_TO_START
    assert "fencegate.toml: 'lisen' is not a setting" in ended.said
