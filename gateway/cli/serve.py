"""`fencegate serve`: run a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from gateway import app
from gateway.core.errors import SettingsError, StoreError
from gateway.settings import load_settings


def _setting(name: str, says: str) -> Any:
    """An option that is a setting; its help names the variable too."""
    return typer.Option(f"--{name.replace('_', '-')}", help=f"{says} (FENCEGATE_{name.upper()})")


Text = str | None
File = Path | None
Policies = Annotated[File, _setting("policies", "Folder with policy files.")]
LedgerUrl = Annotated[
    Text, _setting("ledger", "sqlite:///file.db or postgresql://user@host/database")
]
LedgerPassword = Annotated[File, _setting("ledger_password_file", "The database's password.")]
Witness = Annotated[
    File, _setting("witness", "What was seen of the ledger; put it on another disk.")
]
LedgerUnsafe = Annotated[
    bool, _setting("ledger_unsafe", "Take a database that may lose what it commits. Tests only.")
]
Listen = Annotated[Text, _setting("listen", "Address and port; port 0 takes a free one.")]
Principals = Annotated[File, _setting("principals", "Who may call (YAML).")]
Dev = Annotated[bool, _setting("dev", "No tokens: everybody may do everything; loopback only.")]
TlsCert = Annotated[File, _setting("tls_cert", "Certificate chain (PEM).")]
TlsKey = Annotated[File, _setting("tls_key", "Its private key (PEM).")]
PortFile = Annotated[File, _setting("port_file", "Write the port taken here.")]
LogLevel = Annotated[Text, _setting("log_level", "debug, info, warning or error.")]
LogFormat = Annotated[Text, _setting("log_format", "json or text.")]
SpoolDir = Annotated[File, _setting("spool_dir", "Where large request bodies wait.")]
SpoolBytes = Annotated[Text, _setting("body_spool_bytes", "Larger ones wait there, e.g. 1MiB.")]
ReplayMax = Annotated[Text, _setting("replay_body_max", "The largest answer kept, e.g. 256KiB.")]
Retention = Annotated[Text, _setting("body_retention", "How long answers are kept, e.g. 30d.")]
KeepaliveTime = Annotated[Text, _setting("keepalive_timeout", "For the next request, e.g. 75s.")]
DrainTime = Annotated[Text, _setting("drain_s", "For writes under way on SIGTERM, e.g. 35s.")]
AlertWebhook = Annotated[
    Text, _setting("alert_webhook", "URL that gets alerts; secret: FENCEGATE_ALERT_WEBHOOK_SECRET.")
]
ForcePolicies = Annotated[
    bool,
    typer.Option(
        "--force-policies",
        help="Adopt policies that change identity under open attempts; those then hold back "
        "everything at their destination. For one start, so here only.",
    ),
]


def serve(
    policies: Policies = None,
    ledger: LedgerUrl = None,
    ledger_password_file: LedgerPassword = None,
    witness: Witness = None,
    ledger_unsafe: LedgerUnsafe = False,
    listen: Listen = None,
    principals: Principals = None,
    dev: Dev = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    port_file: PortFile = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    spool_dir: SpoolDir = None,
    body_spool_bytes: SpoolBytes = None,
    replay_body_max: ReplayMax = None,
    body_retention: Retention = None,
    keepalive_timeout: KeepaliveTime = None,
    drain_s: DrainTime = None,
    alert_webhook: AlertWebhook = None,
    force_policies: ForcePolicies = False,
) -> None:
    """Run the gateway. Options may also be given as FENCEGATE_* or in fencegate.toml."""
    settings = load_settings(
        policies=policies,
        ledger=ledger,
        ledger_password_file=ledger_password_file,
        witness=witness,
        ledger_unsafe=ledger_unsafe or None,
        listen=listen,
        principals=principals,
        dev=dev or None,
        tls_cert=tls_cert,
        tls_key=tls_key,
        port_file=port_file,
        log_level=log_level,
        log_format=log_format,
        spool_dir=spool_dir,
        body_spool_bytes=body_spool_bytes,
        replay_body_max=replay_body_max,
        body_retention=body_retention,
        keepalive_timeout=keepalive_timeout,
        drain_s=drain_s,
        alert_webhook=alert_webhook,
    )
    try:
        uvloop.run(app.serve(settings, force_policies=force_policies))
    except StoreError as error:  # a gateway without its ledger does not start
        raise SettingsError(str(error)) from error
