"""`fencegate policy`: check, show and explain the policy files, and print their schema."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gateway.cli.policy_explain import Question, explain, find_destination, parse_headers
from gateway.cli.policy_text import check_json, check_text, show_json, show_text
from gateway.clock import Clock, SystemClock
from gateway.core.errors import PolicyError
from gateway.core.policy import PolicySet
from gateway.wire.policy_file import Loaded, load_policies
from gateway.wire.policy_schema import policy_schema

app = typer.Typer(
    help="Check, show and explain the policy files.", no_args_is_help=True, add_completion=False
)

Folder = Annotated[Path, typer.Argument(help="The folder that holds the *.yaml policies.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def today(clock: Clock) -> date:
    """Return the day in UTC by `clock`; the age of checked facts is judged by it."""
    return datetime.fromtimestamp(clock.wall_ms() / 1000, UTC).date()


@app.command()
def check(
    folder: Folder = Path("policies"),
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Look secrets up as well (never shown).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with the policies. Exit code 0 if nothing is, 1 if something is."""
    loaded = _load(folder, secrets=secrets)
    ok = loaded.policies is not None and not (strict and loaded.complaints)
    print(check_json(loaded, ok=ok) if as_json else check_text(loaded))
    raise typer.Exit(0 if ok else 1)


@app.command()
def show(
    folder: Folder = Path("policies"),
    destination: Annotated[
        str | None, typer.Option("--destination", help="Only this destination.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show destinations, functions, and what each route guarantees."""
    policies = _good(folder)
    if destination is not None and destination not in policies.destinations:
        known = ", ".join(sorted(policies.destinations)) or "none"
        _stop(f"the destination {destination!r} is not in {folder}; known are: {known}", code=1)
    print(show_json(policies, destination) if as_json else show_text(policies, destination))


@app.command("explain")
def explain_request(
    method: Annotated[str, typer.Argument(help="GET, POST, …")],
    path: Annotated[str, typer.Argument(help="/d/NAME/… or a path at the destination.")],
    destination: Annotated[str | None, typer.Option("--destination", help="Its name.")] = None,
    folder: Annotated[Path, typer.Option("--folder", help="The policies.")] = Path("policies"),
    body: Annotated[Path | None, typer.Option("--body", help="A file with the body.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", help="'Name: value'; may be repeated.")
    ] = None,
) -> None:
    """Say what would happen to one request, and why. Exit code 1 if it would be refused."""
    policies = _good(folder)
    try:
        found, at = find_destination(policies, path, destination)
        content = None if body is None else body.read_bytes()
        question = Question(method.upper(), at, parse_headers(header or []), content)
    except PolicyError as error:
        _stop(str(error), code=2)
    except OSError as error:
        _stop(f"the body {str(body)!r} cannot be read: {error.strerror}; name a file", code=2)
    told = explain(found, question, policies.functions)
    print(told.text)
    raise typer.Exit(0 if told.passes else 1)


@app.command()
def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    print(json.dumps(policy_schema(), indent=2, ensure_ascii=False))


def _load(folder: Path, *, secrets: bool) -> Loaded:
    try:
        return load_policies(
            folder, env=os.environ, resolve_secrets=secrets, today=today(SystemClock())
        )
    except PolicyError as error:
        _stop(str(error), code=2)


def _good(folder: Path) -> PolicySet:
    """Return the folder's policies, or stop with the complaints on the standard error."""
    loaded = _load(folder, secrets=False)
    if loaded.policies is None:
        _stop(check_text(loaded), code=1)
    return loaded.policies


def _stop(message: str, *, code: int) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)
