"""`fencegate sandbox-crm`: a destination to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.core.errors import SettingsError
from gateway.sandbox.faults import KNOWN
from gateway.sandbox.server import run


def sandbox_crm(
    host: Annotated[str, typer.Option(help="Loopback, or 0.0.0.0 in a container.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port 0 takes a free one.")] = 9100,
    file: Annotated[
        Path | None, typer.Option(help="Keep records and journal here (JSON lines).")
    ] = None,
    fsync: Annotated[bool, typer.Option("--fsync", help="Sync the file at every request.")] = False,
    token: Annotated[
        str | None,
        typer.Option(envvar="SANDBOX_CRM_TOKEN", help="Ask for this bearer token (401 without)."),
    ] = None,
    port_file: Annotated[Path | None, typer.Option(help="Write the port taken here.")] = None,
) -> None:
    try:
        run(host, port, file=file, fsync=fsync, token=token, port_file=port_file)
    except (ValueError, OSError) as error:
        raise SettingsError(f"the sandbox CRM cannot start: {error}") from error


sandbox_crm.__doc__ = (
    "Run a CRM with contacts, notes and opportunities that misbehaves when told to.\n\n"
    "One request, by its header X-Sandbox-Fault: WORD. The next that match, by POST "
    '/_sandbox/faults with {"match": {"method": "POST", "path_prefix": "/notes"}, '
    '"fault": WORD, "times": N}. The words:\n\n'
    + "\n\n".join(f"{word}: {meaning}" for word, meaning in KNOWN.items())
)
