"""Where the daily report is made: a gateway that grants the leases, and a CRM with opportunities.

The policy lets the leader and whoever has claimed an item command, takes units that are
registered, and names who gets the exceptions. Each note in the CRM is stamped by the gateway with
the effect's mark and the term that it was admitted under: the CRM's own record then says which
terms it has accepted, and the gateway can look for what it does not know.
"""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.core.errors import GatewayError
from gateway.demo.stage import CRM_TOKEN_VARIABLE, DESTINATION, Stage, Times

LOOKED_FOR: Final = """\
    guard: look_first
    look:
      request: GET /notes?fence_effect={effect}
      settle: 0s
      each: items
      found: {status: 200, same: {fence_effect: "{effect}"}}
      missing: {status: 200}
      if_still_missing: resend
"""
LEFT_TO_A_PERSON: Final = """\
    guard: none
"""
CRM_POLICY: Final = """\
destination: %(destination)s
base_url: %(base_url)s
checked: 2026-11-30
login: {kind: bearer, token: "${env:%(variable)s}"}
limits: {timeout: %(timeout)s, settle: %(settle)s, barrier_wait: %(barrier_wait)s}
routes:
  - {match: "GET|HEAD /{rest*}", does: read}
  - name: write a note
    match: POST /notes
    does: write
    covers: "notes/new/{effect}"
    stamp: {fence_effect: "{effect}", fence_term: "{term}"}
    result:
      - {when: {status: 201}, is: confirmed, take: {id: id}}
%(guard)s"""
FUNCTION_POLICY: Final = """\
function: %(function)s
authority: lease
leadership: function
lease: {ttl: %(ttl_ms)dms, renew_every: %(renew_ms)dms, margin: %(margin_ms)dms}
eligible: {versions: ">=2026.10", upgrades: oldest-first}
callers: leader-or-claimant
units: registered
exceptions: {owner: ops-comercial, deadline: 4h}
"""
TIMES: Final = Times(timeout="2s", settle="300ms", barrier_wait="2s")
STAGES: Final = ("proposal", "negotiation", "won")


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease's times: short, for somebody is waiting. Never copy them."""

    ttl_ms: int = 2500
    renew_ms: int = 500
    margin_ms: int = 400


@dataclass(slots=True)
class Office(Stage):
    """A stage with leases. `looks`: the gateway may look for a note whose answer was lost."""

    times: Times = TIMES
    lease: Lease = field(default_factory=Lease)
    looks: bool = True

    def write_files(self, base_url: str) -> None:
        """Write policies and principals; the gateway keeps its port from start to start."""
        Stage.write_files(self, base_url)
        words: dict[str, Any] = {
            "destination": DESTINATION,
            "base_url": base_url,
            "variable": CRM_TOKEN_VARIABLE,
            "timeout": self.times.timeout,
            "settle": self.times.settle,
            "barrier_wait": self.times.barrier_wait,
            "guard": LOOKED_FOR if self.looks else LEFT_TO_A_PERSON,
            "function": self.function,
            "ttl_ms": self.lease.ttl_ms,
            "renew_ms": self.lease.renew_ms,
            "margin_ms": self.lease.margin_ms,
        }
        (self.policies / f"{DESTINATION}.yaml").write_text(CRM_POLICY % words)
        (self.policies / f"{self.function}.yaml").write_text(FUNCTION_POLICY % words)
        self.listen_port = self.listen_port or quiet_port()


def opportunities(count: int) -> list[dict[str, Any]]:
    """Return what sales people left in the CRM: some in order, some not, always the same."""
    return [
        {
            "name": "" if n % 7 == 3 else f"opportunity {n}",
            "stage": STAGES[n % 3],
            "open": n % 5 != 0,
            "value": None if n % 11 == 5 else 1000 * n,
            "next_step": f"call on the {n % 28 + 1}th" if n % 2 else "",
        }
        for n in range(1, count + 1)
    ]


def quiet_port() -> int:
    """Return a free port below those that the system gives to outgoing connections.

    While nobody listens on a port of theirs, a connection to it may be given that very port as
    its own, and so reach itself.
    """
    lowest = 32768
    with suppress(OSError, ValueError):
        said = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii")
        lowest = int(said.split()[0])
    for port in random.sample(range(max(1025, lowest - 15_000), lowest), 200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise GatewayError(f"no free port was found below {lowest}")
