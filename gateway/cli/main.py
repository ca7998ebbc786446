"""`fencegate`: the front door for operators."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gateway import __version__
from gateway.cli import effects, ledger, policy, token
from gateway.cli.demo import demo, try_it
from gateway.cli.exits import Exit
from gateway.cli.sandbox import sandbox_crm
from gateway.cli.serve import serve
from gateway.core.errors import GatewayError, PolicyError, SettingsError, StoreError

app = typer.Typer(
    name="fencegate",
    help="A fencing reverse proxy: at most once per key, fenced by term, unknowns held.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(policy.app, name="policy")
app.add_typer(effects.app, name="effects")
app.add_typer(ledger.app, name="ledger")
app.add_typer(token.app, name="token")
app.command()(serve)
app.command()(demo)
app.command("try")(try_it)
app.command("sandbox-crm")(sandbox_crm)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"fencegate {__version__}")
        raise typer.Exit(Exit.OK)


@app.callback()
def fencegate(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A fencing reverse proxy: at most once per key, fenced by term, unknowns held.

    Exit codes: 0 done; 1 the answer is no (a check failed); 2 wrong usage; 3 refused to
    start; 4 not found; 5 what is there forbids it; 6 gateway or ledger not to be reached;
    70 a fault of the program.
    """


def main() -> None:
    """Run the command line; turn what was foreseen into one message and an exit code."""
    try:
        app()
    except (SettingsError, PolicyError) as error:
        _fail(error, Exit.REFUSED_TO_START)
    except StoreError as error:
        _fail(error, Exit.UNAVAILABLE)
    except GatewayError as error:
        _fail(error, Exit.INTERNAL)


def _fail(error: Exception, code: Exit) -> None:
    print(f"fencegate: {error}", file=sys.stderr)
    raise SystemExit(int(code))
