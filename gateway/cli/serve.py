"""`fencegate serve`: run a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import uvloop

from gateway import app
from gateway.core.errors import SettingsError, StoreError
from gateway.settings import load_settings


def serve(
    policies: Annotated[Path | None, typer.Option(help="Folder with policy files.")] = None,
    ledger: Annotated[
        str | None, typer.Option(help="sqlite:///relative.db or sqlite:////absolute.db")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Address and port; port 0 takes a free one.")
    ] = None,
    principals: Annotated[Path | None, typer.Option(help="Who may call (YAML).")] = None,
    dev: Annotated[
        bool,
        typer.Option("--dev", help="No tokens: everybody may do everything; loopback only."),
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    port_file: Annotated[Path | None, typer.Option(help="Write the port taken here.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json or text.")] = None,
    spool_dir: Annotated[
        Path | None, typer.Option(help="Where large request bodies wait; beside the ledger.")
    ] = None,
    body_retention: Annotated[
        str | None, typer.Option(help="How long answers are kept for replay, e.g. 30d.")
    ] = None,
    replay_body_max: Annotated[
        str | None, typer.Option(help="The largest answer kept for replay, e.g. 256KiB.")
    ] = None,
    drain_s: Annotated[
        float | None, typer.Option(help="Seconds to wait for writes under way on SIGTERM.")
    ] = None,
    force_policies: Annotated[
        bool,
        typer.Option(
            "--force-policies",
            help="Adopt policies that change identity under open attempts; those then hold back "
            "everything at their destination.",
        ),
    ] = False,
) -> None:
    """Run the gateway. Options may also be given as FENCEGATE_* or in fencegate.toml."""
    settings = load_settings(
        policies=policies,
        ledger=ledger,
        listen=listen,
        principals=principals,
        dev=dev or None,
        tls_cert=tls_cert,
        tls_key=tls_key,
        port_file=port_file,
        log_level=log_level,
        log_format=log_format,
        spool_dir=spool_dir,
        body_retention=body_retention,
        replay_body_max=replay_body_max,
        drain_s=drain_s,
    )
    try:
        uvloop.run(app.serve(settings, force_policies=force_policies))
    except StoreError as error:  # a gateway without its ledger does not start
        raise SettingsError(str(error)) from error
