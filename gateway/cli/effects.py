"""`fencegate effects`: what was sent, and what is known of it.

What reads the ledger's file is imported only where it is needed: asking a gateway needs none
of it.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from gateway.cli.columns import columns
from gateway.cli.exits import Exit, fail
from gateway.cli.options import (
    JsonOption,
    LedgerAt,
    LedgerOption,
    PasswordOption,
    TokenFileOption,
    UrlOption,
    checked_reason,
    print_page,
)
from gateway.cli.remote import answered, path_of, remote
from gateway.core.ids import MAX_TERM

app = typer.Typer(help="Effects: list, show, resolve.", no_args_is_help=True)


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
    term: Annotated[
        int | None, typer.Option(min=1, max=MAX_TERM, help="Only under this term.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on behind this id.")] = None,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
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
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        page = answered(lambda: gateway.get("/v1/effects", query, member="items"))
    else:
        from gateway.cli import at_rest

        page = at_rest.list_effects(LedgerAt(ledger, ledger_password_file), query)
    print_page(page, table, as_json)


@app.command("show")
def show_effect(
    effect_id: str,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one effect with its attempts."""
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        path = _path(effect_id)
        effect: dict[str, Any] | None = answered(lambda: gateway.get(path, {}, member="id"))
    else:
        from gateway.cli import at_rest

        effect = at_rest.show_effect(LedgerAt(ledger, ledger_password_file), effect_id)
    if effect is None:
        fail(f"there is no effect {effect_id!r}", Exit.NOT_FOUND)
    print(json.dumps(effect, indent=2) if as_json else details(effect))


@app.command("resolve")
def resolve_effect(
    effect_id: str,
    verdict: Annotated[Verdict, typer.Option("--as", help="What is now known.")],
    reason: Annotated[str, typer.Option(help="How it is known; goes into the journal.")],
    version: Annotated[int | None, typer.Option(help="The version that was looked at.")] = None,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Say what became of an unknown effect. `no-effect` is taken only after the seal."""
    reason = checked_reason(reason, "how it is known")
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        path = f"{_path(effect_id)}/resolve"
        body = {"as": verdict.value, "reason": reason, "version": version}
        effect = answered(lambda: gateway.post(path, body, member="id"))
    else:
        from gateway.cli import at_rest

        effect = at_rest.resolve_effect(
            LedgerAt(ledger, ledger_password_file), effect_id, verdict.value, reason, version
        )
    print(details(effect))


def _path(effect_id: str) -> str:
    return f"/v1/effects/{path_of('effect', effect_id)}"


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
    return columns(rows)


def _since(effect: dict[str, Any]) -> str:
    since = effect["settled_at"] or "-"
    if effect["outcome"] != "unknown":
        return f"settled {since}"
    reasons = [one["reason"] for one in effect["attempts"] if one["outcome"] == "unknown"]
    return f"unknown since {since}, because {(reasons or [None])[-1] or '-'}"


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
        f"created      {effect['created_at']}, {_since(effect)}",
    ]
    if effect.get("resolution"):
        said = effect["resolution"]
        lines.append(f"resolved     by {said['principal']} at {said['at']}: {said['reason']}")
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
