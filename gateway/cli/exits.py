"""Exit codes: what a script may rely on."""

from __future__ import annotations

from enum import IntEnum
from typing import NoReturn

import typer


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    NO = 1  # the answer is no: a check failed, a promise is not proven
    USAGE = 2  # the command line, or a file that it names, cannot be used
    REFUSED_TO_START = 3
    NOT_FOUND = 4
    CONFLICT = 5  # what is there already forbids it
    UNAVAILABLE = 6  # the server or the ledger cannot be reached now
    INTERNAL = 70  # a fault of the program


def fail(message: str, code: Exit) -> NoReturn:
    """End the command with a message on the standard error."""
    typer.echo(f"fencegate: {message}", err=True)
    raise typer.Exit(code)
