"""`fencegate functions`: what a running gateway knows of each exclusive function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from gateway.cli.columns import columns, printable
from gateway.cli.leases import table as lease_table
from gateway.cli.options import GatewayOption, JsonOption, TokenFileOption
from gateway.cli.remote import Remote, answered, path_of, read_token
from gateway.core.measures import show_duration

app = typer.Typer(help="Functions: list, show.", no_args_is_help=True)


@app.command("ls")
def list_functions(
    url: GatewayOption, token_file: TokenFileOption = None, as_json: JsonOption = False
) -> None:
    """List functions as their policies declare them."""
    page = answered(lambda: _gateway(url, token_file).get("/v1/functions", {}, member="items"))
    if as_json:
        print(json.dumps(page, indent=2))
        return
    rows = [("FUNCTION", "AUTHORITY", "LEADERSHIP", "CALLERS", "TTL", "RESPONSIBLE")]
    for function in page["items"]:
        lease, exceptions = function["lease"], function["exceptions"]
        rows.append(
            (
                function["function"],
                function["authority"],
                function["leadership"],
                function["callers"],
                show_duration(lease["ttl_ms"]) if lease else "-",
                exceptions["owner"] if exceptions else "-",
            )
        )
    for line in columns(rows):
        print(line)


@app.command("show")
def show_function(
    function: str,
    url: GatewayOption,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a function's policy, its scopes and its candidates."""
    path = f"/v1/functions/{path_of('function', function)}"
    found = answered(lambda: _gateway(url, token_file).get(path, {}, member="function"))
    print(json.dumps(found, indent=2) if as_json else details(found))


def _gateway(url: str, token_file: Path | None) -> Remote:
    return Remote(url, read_token(token_file))


def details(function: dict[str, Any]) -> str:
    """Return a function in words, with a table of its scopes and one of its candidates."""
    lines = [
        f"function     {function['function']} (policy {function['digest'][:12]})",
        f"authority    {function['authority']}, one leader for each {function['leadership']}",
        f"callers      {function['callers']}",
    ]
    if function["lease"]:
        times = {
            word: show_duration(function["lease"][f"{word}_ms"])
            for word in ("ttl", "renew_every", "margin")
        }
        lines.append("lease        " + ", ".join(f"{word} {said}" for word, said in times.items()))
    eligible = function["eligible"]
    if eligible:
        lines.append(
            f"eligible     versions {eligible['versions'] or 'any'}, regions "
            f"{' '.join(eligible['regions'] or ['any'])}, preferred "
            f"{eligible['preferred'] or 'nobody'}, {eligible['upgrades']}"
        )
    exceptions = function["exceptions"]
    if exceptions:
        deadline = show_duration(exceptions["deadline_ms"])
        lines.append(f"responsible  {exceptions['owner']}, within {deadline}")
    lines = [printable(line) for line in lines]
    scopes = function["scopes"]
    if scopes:
        lines += ["", *lease_table([scope["lease"] for scope in scopes if scope["lease"]])]
        unfinished = sum(scope["unfinished_effects"] for scope in scopes)
        lines.append(f"unfinished effects: {unfinished}")
    if function["scopes_left_out"]:
        lines.append(f"and {function['scopes_left_out']} scopes more: fencegate leases ls")
    if function["candidates"]:
        lines += ["", *_candidates(function["candidates"])]
    return "\n".join(lines)


def _candidates(candidates: list[dict[str, Any]]) -> list[str]:
    rows = [("CANDIDATE", "VERSION", "REGION", "PRIORITY", "MAY LEAD")]
    rows += [
        (
            each["holder"],
            each["version"] or "-",
            each["region"] or "-",
            str(each["priority"]),
            "yes" if each["eligible"] else "no: " + "; ".join(each["reasons"]),
        )
        for each in candidates
    ]
    return columns(rows)
