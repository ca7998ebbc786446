"""The ledger itself, from the command line: read beside its gateways, or changed at rest."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway import __version__
from gateway.cli.exits import Exit, fail
from gateway.cli.options import LedgerAt
from gateway.clock import SystemClock
from gateway.control.views import effects_out
from gateway.core.effect import Outcome
from gateway.core.errors import StoreError
from gateway.settings import DatabaseUrl, load_settings
from gateway.store.homes import Home, home_at
from gateway.store.queries import Reader
from gateway.store.records import EffectFilter, Resolution, Unresolved

if TYPE_CHECKING:
    from gateway.store.ledger import Ledger

T = TypeVar("T")
LOCAL_OPERATOR: Final = "local-operator"
"""Who decides in the ledger itself: whoever may write it."""

_REFUSED: Final = {
    Unresolved.NOT_FOUND: ("it is not there", Exit.NOT_FOUND),
    Unresolved.VERSION_CONFLICT: (
        "it has changed since that version; look again with 'effects show'",
        Exit.CONFLICT,
    ),
    Unresolved.NOT_UNKNOWN: ("only an unknown effect is for a person to decide", Exit.CONFLICT),
    Unresolved.BEFORE_SEAL: (
        "until its seal the destination may still carry the request out; decide no-effect after "
        "that ('effects show' says when), having looked at the destination again",
        Exit.CONFLICT,
    ),
}


def ledger_home(ledger: LedgerAt) -> Home:
    """Return the home of the ledger that is named or set. Raises StoreError if it is a file that
    is not there, or a database and the driver is not."""
    settings = load_settings(ledger=ledger.url, ledger_password_file=ledger.password_file)
    place = settings.ledger_place()
    if isinstance(place, DatabaseUrl):
        return home_at(place.url, settings.ledger_password())
    return home_at(readable(place))


def readable(path: Path) -> Path:
    """Return the ledger's file. Raises StoreError if it cannot be read.

    Asked before SQLite is, which would make an empty ledger where the name is mistyped.
    """
    if not path.is_file():
        raise StoreError(
            f"there is no ledger at {path}; look at --ledger, or start a gateway that makes it"
        )
    if not os.access(path, os.R_OK):
        raise StoreError(
            f"the ledger at {path} may not be read by this user; use the gateway's user, or ask "
            "the gateway with --url"
        )
    return path


def look(ledger: LedgerAt, ask: Callable[[Reader], Awaitable[T]]) -> T:
    """Return what `ask` finds in the ledger."""
    return asyncio.run(_look(ledger_home(ledger), ask))


async def _look(home: Home, ask: Callable[[Reader], Awaitable[T]]) -> T:
    reader = Reader(await home.source())
    try:
        return await ask(reader)
    finally:
        await reader.close()


async def time_of(reader: Reader) -> int:
    """Return the ledger's time: in a file it is this machine's."""
    return await reader.now_ms(SystemClock().wall_ms())


def list_effects(ledger: LedgerAt, query: dict[str, Any]) -> dict[str, Any]:
    """Return a page of effects as /v1 gives it."""

    async def ask(reader: Reader) -> dict[str, Any]:
        effects, cursor = await reader.effects(EffectFilter(**query))
        items = await effects_out(reader, effects)
        return {"items": [effect.model_dump() for effect in items], "next": cursor}

    return look(ledger, ask)


def show_effect(ledger: LedgerAt, effect_id: str) -> dict[str, Any] | None:
    """Return an effect as /v1 gives it, or None."""

    async def ask(reader: Reader) -> dict[str, Any] | None:
        effect = await reader.effect(effect_id)
        return None if effect is None else (await effects_out(reader, [effect]))[0].model_dump()

    return look(ledger, ask)


def resolve_effect(
    ledger: LedgerAt, effect_id: str, outcome: str, reason: str, version: int | None
) -> dict[str, Any]:
    """Resolve in the ledger itself, which no gateway may be using; return the effect."""
    given = Resolution(effect_id, Outcome(outcome), reason, LOCAL_OPERATOR, version)
    asyncio.run(_resolve(ledger_home(ledger), given))
    return show_effect(ledger, effect_id) or {}


async def open_at_rest(home: Home, otherwise: str) -> Ledger:
    """Open a ledger that no gateway uses. Raises StoreError, with what to do `otherwise`."""
    from gateway.store.ledger import Ledger  # not loaded where the ledger is only read

    try:
        if not home.alone:
            await _look(home, _nobody_works)
        return await Ledger.open_at(home, SystemClock(), version=__version__)
    except StoreError as error:
        raise StoreError(f"{error}; {otherwise}") from error


async def _nobody_works(reader: Reader) -> None:
    """Raise StoreError if gateways use a database. One that starts later does no harm: then this
    is one of several; but who decides is asked of gateways while there are any."""
    count = await reader.living(await time_of(reader))
    if count:
        raise StoreError(
            f"the ledger is in use by {count} gateway{'s' if count > 1 else ''} (one that was "
            "killed counts for ten seconds)"
        )


async def _resolve(home: Home, given: Resolution) -> None:
    ledger = await open_at_rest(
        home, "if it is a gateway that runs, resolve through it with --url http://host:port"
    )
    try:
        refusal = await ledger.resolve(given)
    finally:
        await ledger.close()
    if refusal is not None:
        why, code = _REFUSED[refusal]
        fail(f"effect {given.effect_id!r} is not resolved: {why}", code)
