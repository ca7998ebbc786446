"""A gateway with the example policies, and a sandbox CRM behind it, left running to be tried.

fencegate try        (what `make run` runs)
"""

from __future__ import annotations

import re
import shutil
import signal
import threading
from pathlib import Path
from types import FrameType

from gateway.clock import SystemClock
from gateway.demo.processes import (
    ChildFailed,
    Children,
    python,
    wait_for_port,
    wait_until_ready,
)

FIRST_TERM_AT_S = 1_790_000_000
_CRM = re.compile(r"^destination:\s*[\"']?crm[\"']?\s*(#.*)?$", re.MULTILINE)
_BASE_URL = re.compile(r"^(base_url:\s*[\"']?http://(?:127\.0\.0\.1|localhost)):\d+", re.MULTILINE)

LINES = """\
The gateway serves {policies}/ at {gateway}; the sandbox CRM behind it is {crm}.
It runs with --dev: no tokens, loopback only. Paste these into another terminal:

# a write under term {old}: goes through once
curl -i {gateway}/d/crm/notes -H 'Fence-Function: relatorio-comercial-diario' \\
  -H 'Fence-Term: {old}' -H 'Fence-Holder: ana#1' -H 'Idempotency-Key: note-{old}a' \\
  -H 'Content-Type: application/json' -d '{{"text": "18 of 31 items confirmed"}}'

# the same again: replayed, the CRM is not asked (Idempotent-Replayed: true)
curl -i {gateway}/d/crm/notes -H 'Fence-Function: relatorio-comercial-diario' \\
  -H 'Fence-Term: {old}' -H 'Fence-Holder: ana#1' -H 'Idempotency-Key: note-{old}a' \\
  -H 'Content-Type: application/json' -d '{{"text": "18 of 31 items confirmed"}}'

# the answer is lost after the effect: 423, "we do not know", and never sent again
curl -i {gateway}/d/crm/notes -H 'Fence-Function: relatorio-comercial-diario' \\
  -H 'Fence-Term: {old}' -H 'Fence-Holder: ana#1' -H 'Idempotency-Key: note-{old}b' \\
  -H 'X-Sandbox-Fault: close-after' \\
  -H 'Content-Type: application/json' -d '{{"text": "sent, but who knows"}}'

# a new leader under term {new}; then the old one is refused: 412 stale-term
curl -i {gateway}/d/crm/contacts -H 'Fence-Function: relatorio-comercial-diario' \\
  -H 'Fence-Term: {new}' -H 'Fence-Holder: bo#1' -H 'Idempotency-Key: contact-{new}' \\
  -H 'Content-Type: application/json' -d '{{"name": "Padaria Sol"}}'
curl -i {gateway}/d/crm/contacts -H 'Fence-Function: relatorio-comercial-diario' \\
  -H 'Fence-Term: {old}' -H 'Fence-Holder: ana#1' -H 'Idempotency-Key: contact-{old}' \\
  -H 'Content-Type: application/json' -d '{{"name": "too late"}}'

# what the CRM really received, what the ledger knows, whether the gateway is well
curl {crm}/_sandbox/summary
curl '{gateway}/v1/effects?outcome=unknown'
curl {gateway}/readyz

Ctrl-C stops both. The ledger stays in {ledger}.
"""


def policies_for(policies: Path, crm_port: int, folder: Path) -> Path:
    """Return the policies to serve: where they say another port of the sandbox CRM, a copy of
    them in `folder` that says `crm_port`."""
    moved = {
        file.name: text
        for file in policies.glob("*.y*ml")
        if _CRM.search(old := file.read_text("utf-8"))
        and (text := _BASE_URL.sub(rf"\g<1>:{crm_port}", old)) != old
    }
    if not moved:
        return policies
    copy = folder / "try-policies"
    if copy.resolve() != policies.resolve():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(policies, copy)
    for name, text in moved.items():
        (copy / name).write_text(text, "utf-8")
    return copy


def _start(
    children: Children, folder: Path, policies: Path, gateway_port: int, crm_port: int
) -> Path:
    """Start both and wait until each answers for itself; return the policies served.

    A port file is written by the child alone; on its port somebody else's may answer.
    """
    ports = {name: folder / f"{name}.port" for name in ("gateway", "sandbox-crm")}
    for name, file in ports.items():  # an earlier run's words would be taken for this one's
        (folder / f"{name}.log").unlink(missing_ok=True)
        file.unlink(missing_ok=True)
    child = children.start(
        "sandbox-crm",
        python(
            *("-m", "gateway", "sandbox-crm", "--port", str(crm_port)),
            *("--file", str(folder / "sandbox-crm.jsonl")),
            *("--port-file", str(ports["sandbox-crm"])),
        ),
    )
    wait_for_port(child, ports["sandbox-crm"])
    # not before: the folder, and the copy in it, may be those of one that is running
    policies = policies_for(policies, crm_port, folder)
    child = children.start(
        "gateway",
        python(
            *("-m", "gateway", "serve", "--dev"),
            *("--policies", str(policies.absolute())),
            *("--ledger", f"sqlite:///{folder / 'fencegate.db'}"),
            *("--listen", f"127.0.0.1:{gateway_port}"),
            *("--port-file", str(ports["gateway"])),
        ),
    )
    wait_for_port(child, ports["gateway"])
    wait_until_ready(child, f"http://127.0.0.1:{gateway_port}/readyz")
    children.require_running()
    return policies


def run_stand(*, folder: Path, policies: Path, gateway_port: int, crm_port: int) -> int:
    """Run both until Ctrl-C or SIGTERM; return the exit code."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    folder.mkdir(parents=True, exist_ok=True)
    # The ledger stays from run to run and terms only grow, so each run begins with a new one.
    term = SystemClock().wall_ms() // 1000 - FIRST_TERM_AT_S
    crm, gateway = f"http://127.0.0.1:{crm_port}", f"http://127.0.0.1:{gateway_port}"
    with Children(folder.absolute()) as children:
        try:
            policies = _start(children, folder.absolute(), policies, gateway_port, crm_port)
            print(
                LINES.format(
                    gateway=gateway,
                    crm=crm,
                    policies=policies,
                    ledger=folder.absolute() / "fencegate.db",
                    old=term,
                    new=term + 1,
                ),
                flush=True,
            )
            while not stop.wait(0.5):
                children.require_running()
        except ChildFailed as error:
            print(f"fencegate: {error}", flush=True)
            return 1
    return 0
