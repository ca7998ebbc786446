"""Several gateway processes on one database, behind a load balancer: the stage for them."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from gateway.demo.office import quiet_port
from gateway.demo.processes import Child, wait_for_port
from gateway.store.postgres import Where
from gateway.store.postgres_source import PostgresSource
from gateway.store.queries import Reader
from tests.scenarios.stage import Stage

BALANCER = """
global
    log stderr format raw daemon notice
defaults
    mode http
    # A request that may have been sent is never sent to another gateway: only the caller may.
    retries 0
    option httpchk GET /readyz
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    timeout queue 2s
frontend callers
    bind 127.0.0.1:%(port)d
    default_backend gateways
backend gateways
    balance roundrobin
    default-server check inter 100ms fall 1 rise 1
%(servers)s
"""


def balancer() -> str | None:
    """Return where HAProxy is; None where it is not installed."""
    return shutil.which("haproxy") or next(
        (str(path) for path in (Path("/usr/sbin/haproxy"),) if path.exists()), None
    )


@dataclass
class Fleet(Stage):
    """Gateways that keep their ports from start to start. `port` is where callers ask."""

    url: str = ""
    gateways: dict[int, Child] = field(default_factory=dict)

    async def open(self, count: int, *, timeout: str = "3s") -> None:
        """Start the CRM and `count` gateways; callers ask the first one."""
        await self.start_crm()
        self.write_policies(timeout=timeout)
        ports: set[int] = set()
        while len(ports) < count:
            ports.add(quiet_port())
        await asyncio.gather(*(self.start_one(port) for port in ports))
        self.port = min(ports)

    async def balance(self, program: str) -> None:
        """Put HAProxy in front of the gateways; callers ask it from now on."""
        servers = [f"    server gateway-{port} 127.0.0.1:{port}" for port in self.gateways]
        self.port = quiet_port()
        config = self.folder / "haproxy.cfg"
        config.write_text(BALANCER % {"port": self.port, "servers": "\n".join(servers)})
        self.children.start("haproxy", [program, "-db", "-f", str(config)])
        await self.until_ready()

    async def start_one(self, port: int) -> None:
        file = self.folder / f"gateway-{port}.port"
        file.unlink(missing_ok=True)
        words = ("--ledger", self.url, "--listen", f"127.0.0.1:{port}", "--port-file", str(file))
        child = self.launch(*words, name=f"gateway-{port}")
        self.gateways[port] = child
        await asyncio.to_thread(wait_for_port, child, file)

    async def kill_one(self, port: int) -> None:
        await asyncio.to_thread(self.gateways[port].kill)

    async def reader(self) -> Reader:
        return Reader(await PostgresSource.open(Where(self.url)))
