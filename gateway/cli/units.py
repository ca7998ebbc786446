"""`fencegate units`: the units of work, how far they are, and how an operator gives one up.

As with effects, what reads the ledger's file is imported only where it is needed.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from gateway.cli.columns import columns, printable
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
from gateway.core.work import ItemState, UnitShown

app = typer.Typer(help="Units of work: list, show, items, abandon.", no_args_is_help=True)


class StateFilter(StrEnum):
    """What `--state` of a unit may be."""

    OPEN = UnitShown.OPEN.value
    PROCESSING = UnitShown.PROCESSING.value
    UNCERTAIN = UnitShown.UNCERTAIN.value
    COMPLETED = UnitShown.COMPLETED.value
    ABANDONED = UnitShown.ABANDONED.value


@app.command("ls")
def list_units(
    function: Annotated[str | None, typer.Option(help="Only this function.")] = None,
    state: Annotated[StateFilter | None, typer.Option(help="Only this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on behind this unit.")] = None,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List units, newest first."""
    word = state.value if state else None
    query = {"function": function, "state": word, "limit": limit, "cursor": cursor}
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        page = answered(lambda: gateway.get("/v1/units", query, member="items"))
    else:
        from gateway.cli import unit_file

        page = unit_file.list_units(
            LedgerAt(ledger, ledger_password_file), function, word, limit, cursor
        )
    print_page(page, table, as_json)


@app.command("show")
def show_unit(
    unit: str,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one unit: what it is made of, and how far it is."""
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        path = f"/v1/units/{path_of('unit', unit)}"
        found: dict[str, Any] | None = answered(lambda: gateway.get(path, {}, member="unit"))
    else:
        from gateway.cli import unit_file

        found = unit_file.show_unit(LedgerAt(ledger, ledger_password_file), unit)
    if found is None:
        fail(f"there is no unit {unit!r}", Exit.NOT_FOUND)
    print(json.dumps(found, indent=2) if as_json else details(found))


@app.command("items")
def list_items(
    unit: str,
    state: Annotated[ItemState | None, typer.Option(help="Only this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 100,
    after: Annotated[int | None, typer.Option(min=0, help="Go on behind this place.")] = None,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List a unit's items in the manifest's order."""
    word = state.value if state else None
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        path = f"/v1/units/{path_of('unit', unit)}/items"
        query = {"state": word, "limit": limit, "after": after}
        page: dict[str, Any] | None = answered(lambda: gateway.get(path, query, member="items"))
    else:
        from gateway.cli import unit_file

        page = unit_file.list_items(
            LedgerAt(ledger, ledger_password_file), unit, word, limit, after
        )
    if page is None:
        fail(f"there is no unit {unit!r}", Exit.NOT_FOUND)
    print_page(page, item_table, as_json, go_on="--after")


@app.command("abandon")
def abandon_unit(
    unit: str,
    reason: Annotated[str, typer.Option(help="Why; goes into the journal.")],
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Give a unit up with all that is open of it (operator). It takes no more work or effects."""
    reason = checked_reason(reason, "why it is given up")
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        path = f"/v1/units/{path_of('unit', unit)}/abandon"
        found = answered(lambda: gateway.post(path, {"reason": reason}, member="unit"))
    else:
        from gateway.cli import unit_file

        found = unit_file.abandon_unit(LedgerAt(ledger, ledger_password_file), unit, reason)
    print(details(found))


def table(units: list[dict[str, Any]]) -> list[str]:
    """Return one line a unit."""
    rows = [("UNIT", "FUNCTION", "STATE", "DONE", "OF", "OPEN", "UNKNOWN", "TERM", "CREATED")]
    rows += [
        (
            unit["unit"],
            unit["function"],
            unit["state"],
            str(unit["items"]["done"]),
            str(unit["items"]["total"]),
            str(sum(unit["items"][state] for state in ("pending", "claimed", "uncertain"))),
            str(unit["unknown_effects"]),
            str(unit["created_term"]),
            unit["created_at"],
        )
        for unit in units
    ]
    return columns(rows)


def item_table(items: list[dict[str, Any]]) -> list[str]:
    """Return one line an item."""
    rows = [("ITEM", "STATE", "ATTEMPT", "WORKER", "TERM", "REMAINING", "CHECKPOINT", "REASON")]
    rows += [
        (
            item["item"],
            item["state"],
            str(item["attempt"]),
            item["worker"] or "-",
            str(item["term"] or "-"),
            f"{item['remaining_ms'] / 1000:.1f}s" if item["state"] == "claimed" else "-",
            str(item["checkpoint_version"] or "-"),
            (item["reason"] or "-")[:60],
        )
        for item in items
    ]
    return columns(rows)


def details(unit: dict[str, Any]) -> str:
    """Return a unit in words."""
    items = unit["items"]
    states = [f"{items[state]} {state}" for state in ItemState if items[state]]
    told = f": {', '.join(states)}" if states else ""
    lines = [
        f"unit         {unit['unit']} (version {unit['version']})",
        f"function     {unit['function']}",
        f"state        {unit['state']}",
        f"items        {items['total']}{told}",
        f"effects      {unit['unknown_effects']} unknown and not answered for, "
        f"{unit['effects_in_flight']} in flight",
        f"checkpoint   {unit['checkpoint'] or '-'}",
        f"period       {unit['period_start'] or '-'} to {unit['period_end'] or '-'}, "
        f"policy version {unit['policy_version'] or '-'}",
        f"manifest     {unit['manifest_digest']}",
        f"created      {unit['created_at']} by {unit['created_by']} under term "
        f"{unit['created_term']}",
    ]
    if unit["closed_at"]:
        lines.append(f"closed       {unit['closed_at']}: {unit['closed_reason']}")
    if unit["result"] is not None:
        lines.append(f"result       {json.dumps(unit['result'])}")
    return "\n".join(printable(line) for line in lines)
