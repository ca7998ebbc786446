"""`fencegate demo`: the story of two leaders, played against a sandbox CRM."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.demo.run import run_demo


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder with ledger, journal and logs.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Use this folder (implies --keep).", file_okay=False),
    ] = None,
) -> None:
    """Play the story: two leaders, one CRM, real HTTP. Exit code 0 only if the CRM agrees."""
    raise typer.Exit(run_demo(keep=keep, folder=folder))
