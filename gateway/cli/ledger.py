"""`fencegate ledger`: backup and retention."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from gateway import __version__
from gateway.clock import SystemClock
from gateway.core.errors import StoreError
from gateway.core.measures import parse_duration_ms
from gateway.settings import load_settings
from gateway.store.backup import back_up
from gateway.store.ledger import Ledger
from gateway.store.upkeep import Kept

app = typer.Typer(help="The ledger: back it up, let old answers go.", no_args_is_help=True)

LedgerOption = Annotated[str | None, typer.Option("--ledger", help="sqlite:///…")]


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="The file to write; must not exist yet.")],
    ledger: LedgerOption = None,
) -> None:
    """Copy the ledger while it is in use. The copy is consistent and checked."""
    path = load_settings(ledger=ledger).ledger_path()
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
    settings = load_settings(ledger=ledger, body_retention=older_than)
    kept = Kept(bodies_ms=parse_duration_ms(settings.body_retention))
    bodies, refusals = asyncio.run(_forget(settings.ledger_path(), kept))
    print(f"{bodies} answers and {refusals} refusal records let go")


async def _forget(path: Path, kept: Kept) -> tuple[int, int]:
    if not await asyncio.to_thread(path.is_file):
        raise StoreError(f"there is no ledger at {path}; look at --ledger")
    ledger = await Ledger.open(path, SystemClock(), version=__version__)
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
