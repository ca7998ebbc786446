"""The load balancer as it is shipped, in front of two stand-ins for gateways."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.demo.office import quiet_port
from gateway.demo.processes import Children
from tests.proxy.raw_caller import RawAnswer, ask, request
from tests.raw_destination import RawDestination, Received, answer

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deploy" / "haproxy.cfg"
PATIENCE_S = 5.0
ORDINARY = "inter 1s fastinter 500ms"
OFTEN = "inter 30ms fastinter 30ms"


@dataclass
class Balanced:
    """`port` is where callers ask."""

    port: int
    gateways: tuple[RawDestination, RawDestination]

    def asked(self) -> list[tuple[int, Received]]:
        """Return what reached a gateway, by its number; health checks left out."""
        return [
            (number, one)
            for number, gateway in enumerate(self.gateways, 1)
            for one in gateway.received
            if one.path not in ("/readyz", "/livez")
        ]

    async def until(self, number: int, path: str, status: int) -> None:
        """Let a gateway answer its check so, and wait until HAProxy has seen that twice."""
        gateway = self.gateways[number - 1]
        gateway.on(path, answer(status))
        seen = sum(one.path == path for one in gateway.received)
        await gateway.until(lambda: sum(one.path == path for one in gateway.received) >= seen + 2)

    async def ask(self, method: str, target: str, body: bytes | None = None) -> RawAnswer:
        return await ask(self.port, request(method, target, body=body), method)


def adapted(port: int, gateways: Iterable[int], checks: str) -> str:
    """Return the shipped text with this machine's addresses, and nothing else changed but how
    often health is asked for."""
    text = CONFIG.read_text("utf-8")
    changes = {"bind :8080": f"bind 127.0.0.1:{port}", ORDINARY: checks}
    changes |= {
        f"gateway-{number}:8080": f"127.0.0.1:{listens}"
        for number, listens in enumerate(gateways, 1)
    }
    for shipped, ours in changes.items():
        assert shipped in text, shipped
        text = text.replace(shipped, ours)
    return text


@asynccontextmanager
async def balanced(program: str, folder: Path, checks: str = OFTEN) -> AsyncIterator[Balanced]:
    async with RawDestination() as first, RawDestination() as second:
        port = quiet_port()
        config = folder / "haproxy.cfg"
        config.write_text(adapted(port, (first.port, second.port), checks), "utf-8")
        with Children(folder) as children:
            child = children.start("haproxy", [program, "-db", "-f", str(config)])
            await _until_open(port, child.process)
            made = Balanced(port, (first, second))
            if checks == OFTEN:
                for gateway in made.gateways:
                    await gateway.until_received(2)  # its two checks
            yield made
        for gateway in made.gateways:
            # A check that is still in the queue would be taken after the end; ours is behind it.
            with contextlib.suppress(OSError):
                await ask(gateway.port, request("GET", "/over"))


async def _until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            assert process.poll() is None, "HAProxy ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
