"""What several commands take alike, and how they print a page of what they list."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from gateway.cli.exits import Exit, fail
from gateway.cli.remote import TOKEN_VARIABLE
from gateway.core.ids import MAX_REASON

LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", help="This ledger: sqlite:///file.db or postgresql://user@host/name."),
]
PasswordOption = Annotated[
    Path | None,
    typer.Option("--ledger-password-file", help="A file with the database's password."),
]
UrlOption = Annotated[
    str | None, typer.Option("--url", help=f"Ask this running gateway; token in {TOKEN_VARIABLE}.")
]
GatewayOption = Annotated[
    str, typer.Option("--url", help=f"The running gateway; token in {TOKEN_VARIABLE}.")
]
TokenFileOption = Annotated[Path | None, typer.Option(help="A file with the gateway token.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON as /v1 gives it.")]


class LedgerAt(NamedTuple):
    """A ledger as the command line names it. What is None is a setting."""

    url: str | None = None
    password_file: Path | None = None


def checked_reason(reason: str, what: str) -> str:
    """Return the reason without spaces around it; end the command if /v1 would not take it."""
    reason = reason.strip()
    if not 1 <= len(reason) <= MAX_REASON:
        fail(f"--reason has {len(reason)} characters; say in 1 to {MAX_REASON} {what}", Exit.USAGE)
    return reason


def print_page(
    page: dict[str, Any],
    table: Callable[[list[dict[str, Any]]], list[str]],
    as_json: bool,
    go_on: str = "--cursor",
) -> None:
    """Print a page as a table, with the option that goes on behind it; or as it is."""
    if as_json:
        print(json.dumps(page, indent=2))
        return
    for line in table(page["items"]):
        print(line)
    if page["next"]:
        print(f"more: {go_on} {page['next']}")
