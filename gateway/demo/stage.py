"""The folder, policies and tokens that one gateway and one sandbox CRM need, and both running.

The CRM's token is known to the CRM and, through the environment, to the gateway: a worker that
wants to write has no other way than through the fence.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.demo.processes import Child, Children, python, wait_for_port, wait_until_ready
from gateway.wire.principals_file import new_token, token_digest

FUNCTION = "relatorio-comercial-diario"
DESTINATION = "crm"
CRM_TOKEN_VARIABLE = "DEMO_CRM_TOKEN"

CRM_POLICY = """\
destination: {destination}
base_url: {base_url}
login: {{kind: bearer, token: "${{env:{variable}}}"}}
limits: {{timeout: {timeout}, settle: {settle}, barrier_wait: {barrier_wait}}}
routes:
  - {{match: "GET|HEAD /{{rest*}}", does: read}}
  - {{match: "POST|PUT|PATCH|DELETE /{{rest*}}", does: write}}
"""

FUNCTION_POLICY = """\
function: {function}
authority: external
leadership: {leadership}
"""


@dataclass(frozen=True, slots=True)
class Times:
    """How long the gateway waits, in the policy's own words. Short: people are watching."""

    timeout: str = "5s"
    settle: str = "1s"
    barrier_wait: str = "300ms"


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal of the gateway, with its token."""

    name: str
    role: str
    token: str = field(repr=False, default_factory=lambda: new_token()[0])

    def to_file(self) -> dict[str, object]:
        return {
            "name": self.name,
            "role": self.role,
            "token_sha256": token_digest(self.token),
            "functions": ["*"],
            "destinations": ["*"],
        }


@dataclass(slots=True)
class Stage:
    """Where a run's files lie. `crm_url` and `gateway_url` are set once both are running."""

    folder: Path
    function: str = FUNCTION
    leadership: str = "function"
    times: Times = Times()
    worker: Caller = field(default_factory=lambda: Caller("agents", "worker"))
    operator: Caller = field(default_factory=lambda: Caller("ana-ops", "operator"))
    crm_token: str = field(repr=False, default_factory=secrets.token_hex)
    crm_url: str = ""
    gateway_url: str = ""
    listen_port: int = 0  # 0: a free one at each start
    ledger_url: str = ""  # "": a file in the folder

    @property
    def ledger(self) -> str:
        return self.ledger_url or f"sqlite:///{(self.folder / 'ledger.db').resolve()}"

    @property
    def policies(self) -> Path:
        return self.folder / "policies"

    @property
    def environment(self) -> Mapping[str, str]:
        return {CRM_TOKEN_VARIABLE: self.crm_token}

    def write_files(self, base_url: str) -> None:
        """Write policies and principals for a destination at `base_url`."""
        self.policies.mkdir(parents=True, exist_ok=True)
        (self.policies / f"{DESTINATION}.yaml").write_text(
            CRM_POLICY.format(
                destination=DESTINATION,
                base_url=base_url,
                variable=CRM_TOKEN_VARIABLE,
                timeout=self.times.timeout,
                settle=self.times.settle,
                barrier_wait=self.times.barrier_wait,
            )
        )
        (self.policies / f"{self.function}.yaml").write_text(
            FUNCTION_POLICY.format(function=self.function, leadership=self.leadership)
        )
        principals = [self.worker.to_file(), self.operator.to_file()]
        # JSON is YAML, and needs no care with quoting.
        (self.folder / "principals.yaml").write_text(json.dumps({"principals": principals}))

    def start_crm(self, children: Children, *, journal: bool = True) -> Child:
        """Start the sandbox CRM; with `journal`, it writes down what it does in a file."""
        port_file = self.folder / "crm.port"
        port_file.unlink(missing_ok=True)
        kept = ["--file", str(self.folder / "crm.jsonl")] if journal else []
        command = ["-m", "gateway", "sandbox-crm", "--port", "0", "--port-file", str(port_file)]
        child = children.start("crm", python(*command, *kept, "--token", self.crm_token))
        self.crm_url = f"http://127.0.0.1:{wait_for_port(child, port_file)}"
        wait_until_ready(child, f"{self.crm_url}/_sandbox/health")
        return child

    def start_gateway(self, children: Children, *, core: int | None = None) -> Child:
        """Start the gateway on this stage's files and wait until it is ready."""
        port_file = self.folder / "gateway.port"
        port_file.unlink(missing_ok=True)
        child = children.start(
            "gateway",
            python(
                *("-m", "gateway", "serve"),
                *("--policies", str(self.policies)),
                *("--ledger", self.ledger),
                *("--listen", f"127.0.0.1:{self.listen_port}"),
                *("--port-file", str(port_file)),
                *("--principals", str(self.folder / "principals.yaml")),
            ),
            environment=self.environment,
            core=core,
        )
        self.gateway_url = f"http://127.0.0.1:{wait_for_port(child, port_file)}"
        wait_until_ready(child, f"{self.gateway_url}/readyz")
        return child

    def start_both(self, children: Children) -> None:
        """Start the sandbox CRM, then the gateway in front of it."""
        self.start_crm(children)
        self.write_files(self.crm_url)
        self.start_gateway(children)
