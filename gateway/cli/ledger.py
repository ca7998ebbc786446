"""`fencegate ledger`: backup and retention."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.at_rest import ledger_file, open_at_rest
from gateway.cli.exits import Exit, fail
from gateway.core.measures import parse_duration_ms
from gateway.settings import load_settings
from gateway.store.backup import back_up
from gateway.store.upkeep import Kept

app = typer.Typer(help="The ledger: back it up, let old answers go.", no_args_is_help=True)

LedgerOption = Annotated[str | None, typer.Option("--ledger", help="sqlite:///…")]


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="The file to write; must not exist yet.")],
    ledger: LedgerOption = None,
) -> None:
    """Copy the ledger while it is in use. The copy is consistent and checked."""
    path = ledger_file(ledger)
    if target.exists():
        fail(f"{target} is there already; name a new file. Nothing was written", Exit.CONFLICT)
    if not target.parent.is_dir():
        fail(f"there is no folder {target.parent}; make it, or name another one", Exit.USAGE)
    effects = back_up(path, target)
    print(f"{target}: {effects} effects, integrity ok")


@app.command()
def gc(
    older_than: Annotated[
        str | None, typer.Option(help="Let answers go that are older than this, e.g. 30d.")
    ] = None,
    ledger: LedgerOption = None,
) -> None:
    """Let answers past their time go, in a ledger at rest (a running gateway does it hourly).

    Effects themselves stay: a key never becomes fresh again. Unknown effects keep everything.
    """
    path = ledger_file(ledger)
    if older_than is None:
        bodies_ms = load_settings().body_retention_ms
    else:
        try:
            bodies_ms = parse_duration_ms(older_than)
        except ValueError as error:
            fail(f"--older-than: {error}", Exit.USAGE)
    bodies, refusals = asyncio.run(_forget(path, Kept(bodies_ms=bodies_ms)))
    print(f"{bodies} answers and {refusals} refusal records let go")


async def _forget(path: Path, kept: Kept) -> tuple[int, int]:
    ledger = await open_at_rest(path, "a gateway that runs does this by itself, every hour")
    bodies = refusals = 0
    try:
        while True:
            done = await ledger.forget(kept)
            bodies += done.bodies
            refusals += done.refusals
            if not done.more:
                return bodies, refusals
    finally:
        await ledger.close()
