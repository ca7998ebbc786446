"""`fencegate effects`: what was sent, and what is known of it."""

from __future__ import annotations

import asyncio
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from gateway import __version__
from gateway.cli.exits import Exit
from gateway.cli.remote import Answered, Remote, read_token
from gateway.clock import SystemClock
from gateway.control.views import effect_out
from gateway.core.effect import Outcome
from gateway.settings import load_settings
from gateway.store.ledger import Ledger
from gateway.store.queries import Reader
from gateway.store.records import EffectFilter, Resolution, Unresolved

app = typer.Typer(help="Effects: list, show, resolve.", no_args_is_help=True)

LedgerOption = Annotated[
    str | None, typer.Option("--ledger", help="Read this ledger file (sqlite:///…).")
]
UrlOption = Annotated[
    str | None, typer.Option("--url", help="Ask this running gateway; token in FENCEGATE_TOKEN.")
]
TokenFileOption = Annotated[Path | None, typer.Option(help="A file with the gateway token.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON as /v1 gives it.")]


class OutcomeFilter(StrEnum):
    """What `--outcome` may be."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    NO_EFFECT = "no-effect"
    UNKNOWN = "unknown"
    IN_FLIGHT = "in-flight"


class Verdict(StrEnum):
    """What an operator may say of an unknown effect."""

    CONFIRMED = "confirmed"
    NO_EFFECT = "no-effect"


@app.command("ls")
def list_effects(
    function: Annotated[str | None, typer.Option(help="Only this function.")] = None,
    unit: Annotated[str | None, typer.Option(help="Only this unit.")] = None,
    destination: Annotated[str | None, typer.Option(help="Only this destination.")] = None,
    outcome: Annotated[OutcomeFilter | None, typer.Option(help="Only this outcome.")] = None,
    term: Annotated[int | None, typer.Option(min=1, help="Only under this term.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on behind this id.")] = None,
    ledger: LedgerOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List effects, newest first."""
    word = outcome.value if outcome else None
    query: dict[str, Any] = {
        "function": function, "unit": unit, "destination": destination, "outcome": word,
        "term": term, "limit": limit, "cursor": cursor,
    }  # fmt: skip
    if url is not None:
        page = _asked(Remote(url, read_token(token_file)), "/v1/effects", query)
    else:
        page = asyncio.run(_page(_path(ledger), EffectFilter(**query)))
    if as_json:
        print(json.dumps(page, indent=2))
        return
    for line in table(page["items"]):
        print(line)
    if page["next"]:
        print(f"more: --cursor {page['next']}")


@app.command("show")
def show_effect(
    effect_id: str,
    ledger: LedgerOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one effect with its attempts."""
    if url is not None:
        effect = _asked(Remote(url, read_token(token_file)), f"/v1/effects/{effect_id}", {})
    else:
        effect = asyncio.run(_one(_path(ledger), effect_id))
    if effect is None:
        _fail(f"there is no effect {effect_id!r}", Exit.NOT_FOUND)
    print(json.dumps(effect, indent=2) if as_json else details(effect))


@app.command("resolve")
def resolve_effect(
    effect_id: str,
    verdict: Annotated[Verdict, typer.Option("--as", help="What is now known.")],
    reason: Annotated[str, typer.Option(help="How it is known; goes into the journal.")],
    version: Annotated[int | None, typer.Option(help="The version that was looked at.")] = None,
    ledger: LedgerOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Say what became of an unknown effect. `no-effect` is taken only after the seal."""
    if url is not None:
        body = {"as": verdict.value, "reason": reason, "version": version}
        remote = Remote(url, read_token(token_file))
        try:
            effect = remote.post(f"/v1/effects/{effect_id}/resolve", body)
        except Answered as answered:
            _answered(answered)
    else:
        resolution = Resolution(
            effect_id, Outcome(verdict.value), reason, "local-operator", version
        )
        effect = asyncio.run(_resolve(_path(ledger), resolution))
    print(details(effect))


def _path(ledger: str | None) -> Path:
    return load_settings(ledger=ledger).ledger_path()


def _asked(remote: Remote, path: str, query: dict[str, Any]) -> Any:
    try:
        return remote.get(path, query)
    except Answered as answered:
        _answered(answered)


def _answered(answered: Answered) -> NoReturn:
    codes = {404: Exit.NOT_FOUND, 409: Exit.CONFLICT, 503: Exit.UNAVAILABLE, 400: Exit.USAGE}
    _fail(str(answered), codes.get(answered.status, Exit.NO))


async def _page(path: Path, wanted: EffectFilter) -> dict[str, Any]:
    reader = await Reader.open(path)
    try:
        effects, cursor = await reader.effects(wanted)
    finally:
        await reader.close()
    return {"items": [effect_out(effect).model_dump() for effect in effects], "next": cursor}


async def _one(path: Path, effect_id: str) -> dict[str, Any] | None:
    reader = await Reader.open(path)
    try:
        effect = await reader.effect(effect_id)
    finally:
        await reader.close()
    return None if effect is None else effect_out(effect).model_dump()


async def _resolve(path: Path, resolution: Resolution) -> dict[str, Any]:
    """Resolve in the file itself; needs it to be at rest."""
    ledger = await Ledger.open(path, SystemClock(), version=__version__)
    try:
        refusal = await ledger.resolve(resolution)
    finally:
        await ledger.close()
    if refusal is not None:
        _fail(*_REFUSED[refusal])
    found = await _one(path, resolution.effect_id)
    return found or {}


_REFUSED = {
    Unresolved.NOT_FOUND: ("there is no such effect", Exit.NOT_FOUND),
    Unresolved.VERSION_CONFLICT: (
        "the effect has changed since that version; look again with 'effects show'",
        Exit.CONFLICT,
    ),
    Unresolved.NOT_UNKNOWN: ("only an unknown effect is for a person to decide", Exit.CONFLICT),
    Unresolved.BEFORE_SEAL: (
        "until its seal the destination may still carry the request out; decide no-effect after "
        "that ('effects show' says when), having looked at the destination again",
        Exit.CONFLICT,
    ),
}


def table(effects: list[dict[str, Any]]) -> list[str]:
    """Return one line an effect, columns as wide as they have to be."""
    head = ("ID", "OUTCOME", "DESTINATION", "FUNCTION", "UNIT", "TERM", "REQUEST", "CREATED")
    rows = [head]
    for effect in effects:
        last = effect["attempts"][-1]
        outcome = effect["outcome"] or "in-flight"
        rows.append(
            (
                effect["id"],
                f"{outcome} (observed)" if effect["observed"] else outcome,
                effect["destination"],
                effect["function"] or "-",
                effect["unit"] or "-",
                str(last["term"]),
                f"{last['method']} {last['target'].partition('?')[0][:40]}",
                effect["created_at"],
            )
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def details(effect: dict[str, Any]) -> str:
    """Return an effect in words, an attempt a line."""
    lines = [
        f"effect       {effect['id']} (version {effect['version']})",
        f"outcome      {effect['outcome'] or 'in flight'}"
        + (f", by {effect['resolved_by']}" if effect["resolved_by"] else ""),
        f"destination  {effect['destination']}, covers {effect['covers']}",
        f"function     {effect['function'] or '-'}, unit {effect['unit'] or '-'}",
        f"key          {effect['key'] or '-'}",
        f"principal    {effect['principal']}",
        f"created      {effect['created_at']}, settled {effect['settled_at'] or '-'}",
    ]
    if effect["resource"]:
        lines.append(f"resource     {json.dumps(effect['resource'])}")
    if effect["observed"]:
        lines.append(f"observed     would have been refused: {effect['observed']}")
    for attempt in effect["attempts"]:
        said = attempt["outcome"] or "in flight"
        lines.append(
            f"attempt {attempt['n']}    term {attempt['term']} by {attempt['holder'] or '-'}: "
            f"{attempt['method']} {attempt['target']} -> {said} ({attempt['reason'] or '-'}), "
            f"seal {attempt['seal_at']}"
        )
    return "\n".join(lines)


def _fail(message: str, code: Exit) -> NoReturn:
    typer.echo(f"fencegate: {message}", err=True)
    raise typer.Exit(code)
