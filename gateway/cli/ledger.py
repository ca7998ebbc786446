"""`fencegate ledger`: backup and retention."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from gateway.cli.at_rest import ledger_home, open_at_rest, readable
from gateway.cli.exits import Exit, fail
from gateway.cli.options import LedgerAt, LedgerOption, PasswordOption
from gateway.core.measures import parse_duration_ms
from gateway.settings import DatabaseUrl, load_settings
from gateway.store.backup import back_up
from gateway.store.homes import Home
from gateway.store.upkeep import Kept

app = typer.Typer(help="The ledger: back it up, let old answers go.", no_args_is_help=True)

DATABASE: Final = (
    "a ledger on PostgreSQL is backed up with PostgreSQL's own tools, pg_basebackup with its "
    "write-ahead log archived or pg_dump, and never together with what gateways remember of it "
    "beside it (their witness): a copy that is put back does not know what was sent since, so let "
    "no worker in before that is settled (docs/operating.md, Backup and restore)"
)


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="The file to write; must not exist yet.")],
    ledger: LedgerOption = None,
) -> None:
    """Copy a ledger's file while it is in use. The copy is consistent and checked."""
    place = load_settings(ledger=ledger).ledger_place()
    if isinstance(place, DatabaseUrl):
        fail(DATABASE, Exit.USAGE)
    path = readable(place)
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
    ledger_password_file: PasswordOption = None,
) -> None:
    """Let answers past their time go, in a ledger at rest (a running gateway does it hourly).

    Effects themselves stay: a key never becomes fresh again. Unknown effects keep everything.
    """
    home = ledger_home(LedgerAt(ledger, ledger_password_file))
    if older_than is None:
        bodies_ms = load_settings().body_retention_ms
    else:
        try:
            bodies_ms = parse_duration_ms(older_than)
        except ValueError as error:
            fail(f"--older-than: {error}", Exit.USAGE)
    bodies, refusals = asyncio.run(_forget(home, Kept(bodies_ms=bodies_ms)))
    print(f"{bodies} answers and {refusals} refusal records let go")


async def _forget(home: Home, kept: Kept) -> tuple[int, int]:
    ledger = await open_at_rest(home, "a gateway that runs does this by itself, every hour")
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
