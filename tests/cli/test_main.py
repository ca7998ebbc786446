"""The front door: its commands, their help, their exit codes, and what they wait for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from gateway import __version__
from gateway.cli.exits import Exit
from gateway.cli.main import COMMANDS, app
from gateway.core.errors import InvariantError, LedgerUnavailable, PolicyError, SettingsError
from tests.cli.terminal import call, run

HEAVY = ("aiohttp", "pydantic", "structlog", "ruamel", "aiosqlite", "uvloop", "prometheus_client")


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that there is, with the words that lead to it."""
    root: Any = typer.main.get_command(app)
    for name in root.list_commands(None):
        command = root.get_command(None, name)
        yield (name,), command
        for below, each in getattr(command, "commands", {}).items():
            yield (name, below), each


def test_the_version_is_told():
    assert run("--version").out == f"fencegate {__version__}\n"


def test_without_a_word_the_help_is_shown():
    ended = call()

    for name in COMMANDS:
        assert name in ended.out + ended.err


def test_the_help_names_every_command_and_exit_code():
    ended = call("--help", COLUMNS="200")

    assert ended.code == Exit.OK
    for name in COMMANDS:
        assert f" {name} " in ended.out
    for code in Exit:
        assert f"{code.value} " in ended.out


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_every_command_has_a_help_text(words: tuple[str, ...]):
    ended = call(*words, "--help", COLUMNS="200")

    assert ended.code == Exit.OK
    assert "Usage:" in ended.out
    command = dict(commands())[words]
    assert command.get_short_help_str(200)


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_every_option_says_what_it_is_for(words: tuple[str, ...]):
    command = dict(commands())[words]

    silent = [
        parameter.name
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.help
    ]

    assert silent == []


@pytest.mark.parametrize(
    "words", [("brew",), ("effects", "brew"), ("effects", "ls", "--brew"), ("effects", "show")]
)
def test_a_command_line_that_is_not_understood_is_wrong_usage(words: tuple[str, ...]):
    ended = call(*words)

    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "Traceback" not in ended.err
    assert ended.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("the port is taken"), Exit.REFUSED_TO_START),
        (PolicyError("no route"), Exit.REFUSED_TO_START),
        (LedgerUnavailable("the disk is full"), Exit.UNAVAILABLE),
        (InvariantError("an intent was not written"), Exit.INTERNAL),
    ],
)
def test_what_was_foreseen_is_one_message_and_a_code(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: Exit
):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("gateway.cli.at_rest.list_effects", fail)
    ended = call("effects", "ls")

    assert ended.code == code
    assert ended.said == f"fencegate: {error}\n"


def test_a_fault_of_the_program_does_not_look_like_a_no(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr("gateway.cli.at_rest.list_effects", fail)
    ended = call("effects", "ls")

    assert ended.code == Exit.INTERNAL
    assert "nobody foresaw this" in ended.err


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        (["--version"], HEAVY),
        (["effects", "ls", "--url", "http://127.0.0.1:1"], set(HEAVY) - {"pydantic"}),
        (["effects", "ls", "--ledger", "sqlite:///none.db"],
         ("aiohttp", "structlog", "ruamel", "uvloop", "prometheus_client")),
        (["policy", "schema"], ("aiohttp", "uvloop", "prometheus_client")),
        (["sandbox-crm", "--host", "10.0.0.1"], ("prometheus_client", "aiosqlite", "structlog")),
    ],
)  # fmt: skip
def test_a_command_loads_only_what_it_needs(words: list[str], spared: set[str]):
    watch = (
        "import sys; from gateway.cli.main import main; sys.argv[0] = 'fencegate'\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", watch, *words], capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip

    loaded = done.stdout.splitlines()[-1].split()[1:]
    assert set(loaded).isdisjoint(spared), done.stderr
