"""`fencegate drill`: fifteen faults, played here with real processes, each confirmed by figures."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.columns import columns
from gateway.cli.exits import Exit, fail
from gateway.demo.folder import run_folder
from gateway.drill.run import Played, run_drill
from gateway.drill.scenarios import SCENARIOS
from gateway.drill.table import header, last_words, line_of


def drill(
    names: Annotated[
        list[str] | None, typer.Argument(help="Scenarios; all of them if none is named.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show the scenarios.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder with ledgers, journals and logs.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Use this folder (implies --keep).", file_okay=False),
    ] = None,
) -> None:
    """Play fault scenarios on this machine: a gateway, a CRM and replicas as processes of their
    own, in a temporary folder. Exit code 0 only if every one went as promised."""
    if listed:
        print("\n".join(columns([(one.name, one.says) for one in SCENARIOS.values()])))
        return
    if unknown := [name for name in names or () if name not in SCENARIOS]:
        fail(f"there is no scenario {unknown[0]!r}; see fencegate drill --list", Exit.USAGE)
    wanted = [SCENARIOS[name] for name in names or SCENARIOS]
    began_s = time.monotonic()

    def tell(played: Played) -> None:
        if not as_json:
            print(line_of(played), flush=True)

    with run_folder("fencegate-drill-", keep=keep, folder=folder, quiet=as_json) as place:
        if not as_json:
            print(header(), flush=True)
        played = run_drill(wanted, place, tell)
    seconds = time.monotonic() - began_s
    ok = not any(one.faults for one in played)
    if as_json:
        said = {"ok": ok, "seconds": round(seconds, 1), "scenarios": [p.to_json() for p in played]}
        print(json.dumps(said, indent=2))
    else:
        print("", *last_words(played, seconds), sep="\n")
    raise typer.Exit(Exit.OK if ok else Exit.NO)
