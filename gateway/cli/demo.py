"""`fencegate demo`: one daily report in spite of two leaders, made against a sandbox CRM."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.demo.run import run_demo
from gateway.demo.stand import run_stand


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder with ledger, journal and logs.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Use this folder (implies --keep).", file_okay=False),
    ] = None,
) -> None:
    """Play a morning: three replicas, one report. Exit code 0 only if the CRM agrees."""
    raise typer.Exit(run_demo(keep=keep, folder=folder))


def try_it(
    policies: Annotated[Path, typer.Option(help="Folder with policy files.")] = Path("policies"),
    folder: Annotated[Path, typer.Option(help="Where ledger and logs go.")] = Path("var"),
    port: Annotated[int, typer.Option(help="The gateway's port.")] = 8080,
    crm_port: Annotated[
        int, typer.Option(help="The sandbox CRM's port; the example policies say 9100.")
    ] = 9100,
) -> None:
    """Run a gateway and a sandbox CRM to play with, and print curl lines that work."""
    code = run_stand(folder=folder, policies=policies, gateway_port=port, crm_port=crm_port)
    raise typer.Exit(code)
