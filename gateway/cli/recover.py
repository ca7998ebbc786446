"""`fencegate recover`: bring a ledger that came back older than it was into service again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from gateway.cli.at_rest import LOCAL_OPERATOR
from gateway.cli.exits import Exit, fail
from gateway.clock import SystemClock
from gateway.settings import Settings, load_settings
from gateway.store.homes import Home, home_at
from gateway.store.recover import Findings, Recovered
from gateway.store.repair import Repair
from gateway.store.watch import name_of
from gateway.store.witness import Seen, WitnessFile

SHOWN: Final = 20


def recover(
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="sqlite:///… or postgresql://…")
    ] = None,
    ledger_password_file: Annotated[
        Path | None, typer.Option("--ledger-password-file", help="The database's password.")
    ] = None,
    witness: Annotated[
        list[Path] | None,
        typer.Option("--witness", help="A gateway's witness; give every gateway's."),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            help="After a recovery: FUNCTION, FUNCTION/UNIT or * whose lost effects you know of; "
            "their keys that are not on record are sent again.",
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="For the journal.")] = "",
    principal: Annotated[str, typer.Option(help="Who decides.")] = LOCAL_OPERATOR,
    force: Annotated[
        bool,
        typer.Option("--force", help="Even if nothing was found older, or gateways are at work."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; else only say what was found.")
    ] = False,
) -> None:
    """Lift the terms of a restored ledger above all that was seen, and make what is open unknown.

    Without --yes it only says what it found. Afterwards no key that is not on record is sent by
    itself, until somebody trusts its function or unit with --trust.
    """
    settings = load_settings(ledger=ledger, ledger_password_file=ledger_password_file)
    with Repair(_home(settings), SystemClock()) as repair:
        if trust:
            _trust(repair, trust, principal, reason)
            return
        seen = _witnesses(witness or [settings.witness_path()], named=witness is not None)
        found = repair.look(seen)
        _tell(found)
        if not found.older and found.lineage.restored is None and not force:
            _no("the ledger is not older than any witness says; nothing to recover (--force to)")
        if found.live_gateways and found.lineage.restored is None and not force:
            _no(
                f"{found.live_gateways} gateways are at work on this ledger; stop them first "
                "(one that was killed counts for ten seconds), or use --force"
            )
        if not yes:
            _no("nothing was changed; run it again with --yes")
        _told(repair.recover(seen, principal, reason or "the ledger came back older than it was"))


def _no(why: str) -> NoReturn:
    fail(why, Exit.CONFLICT)


def _home(settings: Settings) -> Home:
    place = settings.ledger_place()
    if isinstance(place, Path) and not place.is_file():
        fail(f"there is no ledger at {place}; put the restored file there first", Exit.NOT_FOUND)
    return home_at(place if isinstance(place, Path) else place.url, settings.ledger_password())


def _witnesses(paths: list[Path], *, named: bool) -> list[Seen]:
    found: list[Seen] = []
    for path in paths:
        seen = WitnessFile(path).load()
        if seen is not None:
            found.append(seen)
        elif named:
            fail(f"there is no witness {path}; look at --witness", Exit.NOT_FOUND)
    if not found:
        typer.echo("no witness: terms are lifted above what the ledger itself knows, no more")
    return found


def _tell(found: Findings) -> None:
    typer.echo(f"ledger {found.lineage.identity[:8]}, recovered {found.lineage.recoveries} times")
    typer.echo(f"last effect on record: {_shown(found.last_at_ms)}")
    if found.lineage.restored is not None:
        typer.echo(f"stopped: {found.lineage.restored}")
    for one in found.older[:SHOWN]:
        typer.echo(f"older: {one}")
    if len(found.older) > SHOWN:
        typer.echo(f"older: and {len(found.older) - SHOWN} more")
    typer.echo(
        f"{found.scopes} scopes, {found.live_leases} live leases, {found.open_effects} open "
        f"effects, {found.live_gateways} gateways alive"
    )


def _told(done: Recovered) -> None:
    for scope, term in list(done.terms.items())[:SHOWN]:
        typer.echo(f"{name_of(scope)}: terms up to {term} are refused")
    if len(done.terms) > SHOWN:
        typer.echo(f"and {len(done.terms) - SHOWN} more scopes")
    typer.echo(
        f"recovered, for the {done.recoveries}. time: {len(done.terms)} scopes lifted, "
        f"{done.leases_ended} leases ended, {done.effects_unknown} effects unknown. "
        "Keys that are not on record are held for a person; once you know what was sent in the "
        "lost time, say so with 'fencegate recover --trust FUNCTION'"
    )


def _trust(repair: Repair, names: list[str], principal: str, reason: str) -> None:
    if not reason:
        fail("--trust needs --reason: how do you know what was sent?", Exit.USAGE)
    doubt, not_before_ms = repair.trust(names, principal, reason)
    if doubt is None:
        _no("this ledger was never recovered: nothing in it is in doubt")
    if not_before_ms:
        _no(
            "what was sent in the lost time may still be under way; trust it after "
            f"{_shown(not_before_ms)}"
        )
    typer.echo(f"trusted: {', '.join(sorted(doubt.trusted))}")


def _shown(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
