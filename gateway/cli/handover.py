"""`fencegate handover`: what a change of term left behind, for whoever takes over."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from gateway.cli.columns import columns, printable
from gateway.cli.options import GatewayOption, JsonOption, TokenFileOption
from gateway.cli.remote import Remote, answered, path_of, read_token

app = typer.Typer(help="Handovers: show.", no_args_is_help=True)
_SHOWN: Final = 20


@app.callback()
def main() -> None:
    """Handovers: what the old leader left, and what is to be done about it."""


@app.command("show")
def show(
    function: str,
    url: GatewayOption,
    term: Annotated[int | None, typer.Option(help="The change to this term.")] = None,
    unit: Annotated[str | None, typer.Option(help="Of this unit's scope.")] = None,
    lang: Annotated[str, typer.Option(help="Language of the sentence: en or pt-BR.")] = "en",
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the latest change of term of a function, as five answers and one sentence."""
    if lang not in ("en", "pt-BR"):
        raise typer.BadParameter(f"{lang!r} is no language of ours; write en or pt-BR")
    path = f"/v1/functions/{path_of('function', function)}/handover"
    query = {"term": str(term) if term is not None else None, "unit": unit}
    asked = {name: value for name, value in query.items() if value is not None}
    gateway = Remote(url, read_token(token_file))
    found = answered(lambda: gateway.get(path, asked, member="sentence"))
    print(json.dumps(found, indent=2) if as_json else report(found, lang))


def report(found: dict[str, Any], lang: str) -> str:
    """Return a handover in words."""
    sentence = found["sentence"]["pt_br" if lang == "pt-BR" else "en"]
    before, now = found["before"], found["now"]
    ended = f" ({before['ended']})" if before["ended"] else ""
    lines = [
        printable(sentence + "."),
        "",
        f"term     {before['term']} -> {now['term']} at {found['at']}",
        f"leader   {printable(before['holder'] or '-')}{ended} -> {printable(now['holder'])}",
        "figures  of units, items and effects are as of now, not of the change",
        "",
        "What was the old leader doing?",
        *_doing(found["doing"]),
        "What already took effect?",
        *_took_effect(found),
        "What can be resumed?",
        *_resumable(found),
        "What must be abandoned?",
        *_abandon(found["abandon"]),
        "Who gets the exceptions?",
        *_exceptions(found["exceptions"]),
    ]
    return "\n".join(lines)


def _doing(doing: dict[str, Any]) -> list[str]:
    lines = []
    for unit in doing["units"]:
        states = ", ".join(f"{count} {state}" for state, count in sorted(unit["items"].items()))
        checkpoint = unit["last_checkpoint"] or "none"
        lines.append(
            f"  {printable(unit['unit'])}: {unit['state']}; {states}; last checkpoint "
            f"{printable(checkpoint)}"
        )
    out = doing["items_out"]
    if out:
        lines.append(f"  {len(out)} items were out: {_names(out)}")
    commands = ", ".join(f"{n} {outcome}" for outcome, n in sorted(doing["commands"].items()))
    lines.append(f"  commands: {commands or 'none of its units'}")
    lines.append(f"  unfinished at the change: {doing['uncertain_count']}")
    rows = [
        (f"    {one['id']}", one["destination"], one["item"] or "-", one["outcome"] or "in-flight")
        for one in doing["uncertain"][:_SHOWN]
    ]
    return [*lines, *columns(rows)] if rows else lines


def _took_effect(found: dict[str, Any]) -> list[str]:
    if not found["doing"]["units"]:
        function, term = found["function"], found["before"]["term"]
        look = f"fencegate effects ls --function {function} --term {term}"
        return [
            f"  it left no open unit to count by; see {look}" if term else "  nothing before it"
        ]
    took = found["took_effect"]
    return [
        f"  {took['items_done']} of {took['items']} items, "
        f"{took['effects_confirmed']} effects confirmed"
    ]


def _resumable(found: dict[str, Any]) -> list[str]:
    lines = [f"  to reconcile: {found['to_reconcile']}"]
    if found["resumable"]:
        lines.append(f"  from a checkpoint: {_names(found['resumable'])}")
    return lines


def _abandon(abandon: dict[str, Any]) -> list[str]:
    lines = [f"  {abandon['stale_commands_refused']} commands of older terms were refused"]
    lines += [
        f"  {printable(unit)}: its period is over" for unit in abandon["units_past_their_period"]
    ]
    return lines


def _exceptions(cases: list[dict[str, Any]]) -> list[str]:
    if not cases:
        return ["  none is open"]
    rows = [
        (f"  {one['id']}", one["reason"], printable(one["owner"]), f"until {one['deadline_at']}")
        for one in cases[:_SHOWN]
    ]
    return columns(rows)


def _names(items: list[dict[str, Any]]) -> str:
    shown = ", ".join(printable(one["item"]) for one in items[:_SHOWN])
    more = len(items) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
