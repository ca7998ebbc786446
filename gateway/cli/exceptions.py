"""`fencegate exceptions`: what waits for a person, and what the person decides.

Deciding goes through a running gateway, which knows who decides; looking works on the ledger's
file too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

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
    checked_reason,
    print_page,
)
from gateway.cli.remote import Remote, answered, path_of, read_token, remote

app = typer.Typer(
    help="Exceptions: list, show, probe-again, confirm, not-applied, abandon, assign, extend.",
    no_args_is_help=True,
)

ReasonOption = Annotated[str, typer.Option(help="On what grounds; goes into the journal.")]
VersionOption = Annotated[
    int | None,
    typer.Option(help="The version that was looked at; if absent, the one that it has now."),
]


@app.command("ls")
def list_exceptions(
    function: Annotated[str | None, typer.Option(help="Only this function.")] = None,
    unit: Annotated[str | None, typer.Option(help="Only this unit.")] = None,
    closed: Annotated[bool, typer.Option("--closed", help="Those that are closed.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on behind this id.")] = None,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List exceptions by age, the oldest first."""
    gateway = remote(url, ledger, token_file)
    if gateway is not None:
        query = {
            "function": function, "unit": unit, "closed": "true" if closed else None,
            "limit": limit, "cursor": cursor,
        }  # fmt: skip
        page = answered(lambda: gateway.get("/v1/exceptions", query, member="items"))
    else:
        from gateway.cli import case_file

        page = case_file.list_exceptions(
            LedgerAt(ledger, ledger_password_file), function, unit, closed, limit, cursor
        )
    print_page(page, table, as_json)


@app.command("show")
def show_exception(
    exception_id: str,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one exception with its evidence, and what may be done about it."""
    gateway = remote(url, ledger, token_file)
    effect: dict[str, Any] | None = None
    if gateway is not None:
        case: dict[str, Any] | None = _show(gateway, exception_id)
        effect = None if as_json or case is None else _effect(gateway, case)
    else:
        from gateway.cli import at_rest, case_file

        case = case_file.show_exception(LedgerAt(ledger, ledger_password_file), exception_id)
        if case is not None and case["effect_id"] and not as_json:
            effect = at_rest.show_effect(LedgerAt(ledger, ledger_password_file), case["effect_id"])
    if case is None:
        fail(f"there is no exception {exception_id!r}", Exit.NOT_FOUND)
    print(json.dumps(case, indent=2) if as_json else details(case, effect))


def _offer(action: str, what: str) -> None:
    """Add the command for an action that needs to be told nothing but the grounds."""

    @app.command(action, help=what)
    def act(
        exception_id: str,
        url: GatewayOption,
        reason: ReasonOption,
        version: VersionOption = None,
        token_file: TokenFileOption = None,
        as_json: JsonOption = False,
    ) -> None:
        _act(action, exception_id, url, reason, version, token_file, as_json)


_offer("probe-again", "Have the destination asked again, as if it had not been asked yet.")
_offer("confirm", "Say that it happened. Its key is spent for ever.")
_offer(
    "not-applied",
    "Say that it did not happen. Taken only after the seal; its key is free again.",
)
_offer(
    "abandon",
    "Give it up without knowing. Taken only after the seal; its key stays spent.",
)


@app.command("assign")
def assign(
    exception_id: str,
    url: GatewayOption,
    owner: Annotated[str, typer.Option(help="Who decides from now on.")],
    reason: ReasonOption,
    version: VersionOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make somebody else responsible."""
    _act("assign", exception_id, url, reason, version, token_file, as_json, owner=owner)


@app.command("extend")
def extend(
    exception_id: str,
    url: GatewayOption,
    deadline: Annotated[str, typer.Option(help="How much longer, from now: 30m, 4h, 2d.")],
    reason: ReasonOption,
    version: VersionOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give more time. What was rejected too often may be tried again."""
    _act("extend", exception_id, url, reason, version, token_file, as_json, deadline=deadline)


def _act(
    action: str,
    exception_id: str,
    url: str,
    reason: str,
    version: int | None,
    token_file: Path | None,
    as_json: bool,
    **more: str,
) -> None:
    reason = checked_reason(reason, "on what grounds")
    gateway = Remote(url, read_token(token_file))
    if version is None:
        version = int(_show(gateway, exception_id)["version"])
    body = {"reason": reason, "version": version} | more
    path = f"{_path(exception_id)}/{action}"
    case = answered(lambda: gateway.post(path, body, member="allowed_actions"))
    if as_json:
        print(json.dumps(case, indent=2))
        return
    print(details(case, _effect(gateway, case), reason))
    if action == "not-applied":
        print("next         the key is free: a repetition under it will be sent")


def _show(gateway: Remote, exception_id: str) -> dict[str, Any]:
    path = _path(exception_id)
    return answered(lambda: gateway.get(path, {}, member="allowed_actions"))


def _effect(gateway: Remote, case: dict[str, Any]) -> dict[str, Any] | None:
    if not case["effect_id"]:
        return None
    path = f"/v1/effects/{path_of('effect', case['effect_id'])}"
    return answered(lambda: gateway.get(path, {}, member="id"))


def _path(exception_id: str) -> str:
    return f"/v1/exceptions/{path_of('exception', exception_id)}"


def table(cases: list[dict[str, Any]]) -> list[str]:
    """Return one line an exception."""
    rows = [("ID", "AGE", "REASON", "FUNCTION", "UNIT", "DESTINATION", "OWNER", "DEADLINE")]
    rows += [
        (
            case["id"],
            _age(case["age_s"]),
            case["reason"],
            case["function"] or "-",
            case["unit"] or "-",
            case["destination"],
            case["owner"],
            case["deadline_at"] + (" (overdue)" if case["overdue"] else ""),
        )
        for case in cases
    ]
    return columns(rows)


def details(
    case: dict[str, Any], effect: dict[str, Any] | None = None, reason: str | None = None
) -> str:
    """Return an exception in words; `reason` is that of the decision that was just taken."""
    unit = f", unit {case['unit']}" if case["unit"] else ""
    item = f", item {case['item']}" if case["item"] else ""
    overdue = ", overdue" if case["overdue"] else ""
    lines = [
        f"exception    {case['id']} (version {case['version']}), {case['state']}",
        f"reason       {case['reason']}: {case['detail']}",
        f"function     {case['function'] or '-'}{unit}{item}",
        f"effect       {case['effect_id'] or '-'} at {case['destination']}",
        *_sent(effect),
        f"responsible  {case['owner']}, by {case['deadline_at']}{overdue}",
        f"opened       {case['opened_at']}, {_age(case['age_s'])} old",
    ]
    if case["seal_at"]:
        lines.append(f"seal         {case['seal_at']}: not before then can it be ruled out")
    if case["acknowledged_by"]:
        lines.append(f"seen by      {case['acknowledged_by']}")
    if case["closed_at"]:
        lines.append(f"closed       {case['closed_at']} by {case['closed_by']}: {case['decision']}")
    if reason is None and case["closed_at"] and effect and effect["resolution"]:
        reason = effect["resolution"]["reason"]
    if reason is not None:
        lines.append(f"because      {reason}")
    lines += _evidence(case["evidence"] or {})
    if case["allowed_actions"]:
        lines.append(f"possible     {', '.join(case['allowed_actions'])}")
    return "\n".join(printable(line) for line in lines)


def _sent(effect: dict[str, Any] | None) -> list[str]:
    if effect is None:
        return []
    sent = [
        f"sent         at {one['created_at']} under term {one['term']} by {one['holder'] or '-'}"
        for one in effect["attempts"]
    ]
    look = f"look         fencegate effects show {effect['id']}"
    return [f"key          {effect['key'] or '-'}", *sent, look]


def _evidence(evidence: dict[str, Any]) -> list[str]:
    lines = []
    request = evidence.get("opened_on", {}).get("request")
    if request:
        lines.append(
            f"request      {request.get('method')} {request.get('target')}, digest "
            f"{request.get('fingerprint')}"
        )
    lines += [
        f"answer {one['n']}     status {one['status']}: {one['excerpt'] or '(nothing kept)'}"
        for one in evidence.get("answers", [])
    ]
    lines += [
        f"probe {one['n']}      {one['verdict'] or 'under way'}, started {one['started_at']}"
        + (f": {json.dumps(one['evidence'])}" if one["evidence"] else "")
        for one in evidence.get("probes", [])
    ]
    return lines


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
