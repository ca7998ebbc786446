"""Many candidates, each on the SDK with sockets of its own: run as a process of its own.

    python -m tests.scenarios.crowd '{"gateway": …, "function": …, "names": […], "version": …}'

What they ask the gateway and which of them leads is told in JSON lines on standard output,
with times of the boot clock. They never let go of a lease.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from gateway.client.calls import Gateway
from gateway.client.control import CandidateReport
from gateway.client.elector import Elector


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who they are."""

    gateway: str
    function: str
    names: list[str]
    version: str = "2026.10"


def tell(what: str, **facts: Any) -> None:
    at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    print(json.dumps({"what": what, "at_s": at_s, **facts}), flush=True)


def tell_all_calls() -> None:
    """Tell each request to the control plane as it is made."""
    control = Gateway.control

    async def told(
        gateway: Gateway, method: str, path: str, content: Any = None, *, timeout_s: float
    ) -> tuple[int, Any]:
        verb = path.rpartition("/")[2] if method == "POST" else method
        tell("asked", verb={"GET": "look", "PUT": "report"}.get(verb, verb))
        return await control(gateway, method, path, content, timeout_s=timeout_s)

    Gateway.control = told  # type: ignore[method-assign]


async def follow(crowd: Crowd, name: str) -> None:
    elector = Elector(
        crowd.gateway,
        function=crowd.function,
        worker=name,
        candidate=CandidateReport(version=crowd.version),
    )
    async with elector:
        async for leadership in elector:
            tell("leads", name=name, term=leadership.term)
            await leadership.wait_lost()
            tell("lost", name=name, term=leadership.term)


async def main(crowd: Crowd) -> None:
    tell_all_calls()
    async with asyncio.TaskGroup() as group:
        for name in crowd.names:
            _ = group.create_task(follow(crowd, name))


if __name__ == "__main__":
    asyncio.run(main(Crowd(**json.loads(sys.argv[1]))))
