"""`fencegate`: the front door for operators."""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from gateway import __version__
from gateway.cli.exits import Exit
from gateway.core.errors import GatewayError, PolicyError, SettingsError, StoreError

COMMANDS: Final = {
    "serve": ("gateway.cli.serve", "serve"),
    "try": ("gateway.cli.demo", "try_it"),
    "demo": ("gateway.cli.demo", "demo"),
    "drill": ("gateway.cli.drill", "drill"),
    "policy": ("gateway.cli.policy", "app"),
    "effects": ("gateway.cli.effects", "app"),
    "reconcile": ("gateway.cli.reconcile", "reconcile"),
    "exceptions": ("gateway.cli.exceptions", "app"),
    "leases": ("gateway.cli.leases", "app"),
    "handover": ("gateway.cli.handover", "app"),
    "functions": ("gateway.cli.functions", "app"),
    "units": ("gateway.cli.units", "app"),
    "ledger": ("gateway.cli.ledger", "app"),
    "recover": ("gateway.cli.recover", "recover"),
    "token": ("gateway.cli.token", "app"),
    "sandbox-crm": ("gateway.cli.sandbox", "sandbox_crm"),
}
"""Where each command is: its module and what it is called there."""


class Commands(TyperGroup):
    """The commands, each imported when it is asked for: a look at an effect must not wait for
    a web server to be loaded."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(module), name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command()(found)
            found = alone
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="fencegate",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    except Exception:  # Python's own exit code for it is 1, which here means "no"
        traceback.print_exc()
        raise SystemExit(int(Exit.INTERNAL)) from None


def _fail(error: Exception, code: Exit) -> None:
    print(f"fencegate: {error}", file=sys.stderr)
    raise SystemExit(int(code))
