"""`fencegate leases`: who leads, what changes, and how an operator takes a lease away.

As with effects, what reads the ledger's file is imported only where it is needed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from gateway.cli.columns import columns, printable
from gateway.cli.exits import Exit, fail
from gateway.cli.options import (
    GatewayOption,
    JsonOption,
    LedgerAt,
    LedgerOption,
    PasswordOption,
    TokenFileOption,
    UrlOption,
    print_page,
)
from gateway.cli.remote import (
    Answered,
    Remote,
    StreamLost,
    answered,
    no,
    path_of,
    read_token,
    remote,
)
from gateway.core.errors import StoreError
from gateway.core.ids import MAX_TERM

app = typer.Typer(help="Leases: list, show, watch, release.", no_args_is_help=True)

UnitOption = Annotated[
    str | None, typer.Option(help="The unit, where each unit has a leader of its own.")
]
AGAIN_S: Final = 2.0


@app.command("ls")
def list_leases(
    function: Annotated[str | None, typer.Option(help="Only this function.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on behind this scope.")] = None,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List leases, by function and unit."""
    query = {"function": function, "limit": limit, "cursor": cursor}
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        page = answered(lambda: gateway.get("/v1/leases", query, member="items"))
    else:
        from gateway.cli import lease_file

        page = lease_file.list_leases(
            LedgerAt(ledger, ledger_password_file), function, limit, cursor
        )
    print_page(page, table, as_json)


@app.command("show")
def show_lease(
    function: str,
    unit: UnitOption = None,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who leads a function."""
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        path = f"/v1/leases/{path_of('function', function)}"
        lease: dict[str, Any] | None = answered(
            lambda: gateway.get(path, {"unit": unit}, member="state")
        )
    else:
        from gateway.cli import lease_file

        lease = lease_file.show_lease(LedgerAt(ledger, ledger_password_file), function, unit)
    if lease is None:
        about = f" and unit {unit!r}" if unit else ""
        fail(f"there is no lease on record of function {function!r}{about}", Exit.NOT_FOUND)
    print(json.dumps(lease, indent=2) if as_json else details(lease))


@app.command("release")
def release_lease(
    function: str,
    holder: Annotated[str, typer.Option(help="Who holds it, exactly: name#incarnation.")],
    term: Annotated[int, typer.Option(min=1, max=MAX_TERM, help="Under which term.")],
    unit: UnitOption = None,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """End a lease that its holder cannot give back (operator). It names exactly what it ends."""
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        path = f"/v1/leases/{path_of('function', function)}/release"
        body = {"holder": holder, "term": term} | ({"unit": unit} if unit else {})
        lease = answered(lambda: gateway.post(path, body, member="state"))
    else:
        from gateway.cli import lease_file

        lease = lease_file.release_lease(
            LedgerAt(ledger, ledger_password_file), function, unit, holder, term
        )
    print(details(lease))


@app.command("watch")
def watch_leases(
    url: GatewayOption,
    function: Annotated[str | None, typer.Option(help="Only this function.")] = None,
    unit: Annotated[str | None, typer.Option(help="Only this unit.")] = None,
    after: Annotated[
        int | None, typer.Option(min=0, help="Begin behind this transition; else with the next.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
    token_file: TokenFileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one to a line.")] = False,
) -> None:
    """Follow transitions as they happen, one to a line, until Ctrl-C."""
    gateway = Remote(url, read_token(token_file))
    try:
        for seen, transition in enumerate(follow(gateway, function, unit, after), 1):
            print(json.dumps(transition) if as_json else line_of(transition), flush=True)
            if seen == count:
                return
    except Answered as said:
        no(said)
    except KeyboardInterrupt:
        return


def follow(
    gateway: Remote, function: str | None, unit: str | None, after: int | None
) -> Iterator[dict[str, Any]]:
    """Yield transitions without end: a stream that ends is taken up behind its last event."""
    last_id = None if after is None else str(after)
    connected = False
    while True:
        try:
            for transition in gateway.events(
                "/v1/transitions", {"function": function, "unit": unit}, last_id
            ):
                connected, last_id = True, str(transition["id"])
                yield transition
            connected = True
        except StreamLost:
            connected = True
        except (Answered, StoreError) as error:
            if not connected or (isinstance(error, Answered) and error.status < 500):
                raise
        print("fencegate: the stream ended; asking again", file=sys.stderr, flush=True)
        time.sleep(AGAIN_S)


def table(leases: list[dict[str, Any]]) -> list[str]:
    """Return one line a lease."""
    rows = [("FUNCTION", "UNIT", "STATE", "TERM", "HOLDER", "REMAINING", "IN FLIGHT")]
    rows += [
        (
            lease["function"],
            lease["unit"] or "-",
            f"{lease['state']} (draining)" if lease["draining"] else lease["state"],
            str(lease["term"] or "-"),
            lease["holder"] or "-",
            f"{lease['remaining_ms'] / 1000:.1f}s" if lease["holder"] else "-",
            "-" if lease["in_flight"] is None else str(lease["in_flight"]),
        )
        for lease in leases
    ]
    return columns(rows)


def details(lease: dict[str, Any]) -> str:
    """Return a lease in words."""
    scope = lease["function"] + (f", unit {lease['unit']}" if lease["unit"] else "")
    lines = [
        f"scope        {scope}",
        f"state        {lease['state']}" + (", draining" if lease["draining"] else ""),
    ]
    if lease["holder"]:
        lines += [
            f"holder       {lease['holder']} under term {lease['term']}",
            f"expires      {lease['expires_at']}, in {lease['remaining_ms']} ms",
        ]
    elif lease["last_holder"]:
        lines.append(
            f"ended        {lease['reason']}: {lease['last_holder']}, term {lease['term']}"
        )
    if lease["acquired_at"]:
        lines.append(f"acquired     {lease['acquired_at']}, renewed {lease['renewed_at']}")
    if lease["in_flight"] is not None:
        lines.append(f"in flight    {lease['in_flight']}")
    lines.append(f"grants       {lease['transitions']} (version {lease['version']})")
    return "\n".join(printable(line) for line in lines)


def line_of(transition: dict[str, Any]) -> str:
    """Return a transition on one line."""
    said = [transition["at"], transition["kind"], transition["function"] or "-"]
    words = ("unit", "term", "holder", "effect_id", "reason")
    said += [f"{word}={transition[word]}" for word in words if transition[word] is not None]
    if transition["uncertain_effects"]:
        said.append(f"uncertain={transition['uncertain_effects']}")
    if transition["responsible"]:
        said.append(f"responsible={transition['responsible']}")
    line = "  ".join(said)
    return printable(
        f"{line}  next: {transition['next_action']}" if transition["next_action"] else line
    )
