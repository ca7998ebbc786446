"""How the tests here ask for something to be sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.clock import Clock, SystemClock
from gateway.core.classify import Silence
from gateway.core.policy import Connections, Destination, Limits
from gateway.outbound import Incoming, Outbound, Outgoing
from tests.raw_destination import RawDestination

CLOCK = SystemClock()


def to(crm: RawDestination, **changes: Any) -> Destination:
    """The destination's policy."""
    known: dict[str, Any] = {
        "name": "crm",
        "scheme": crm.url.partition(":")[0],
        "host": crm.host,
        "port": crm.port,
        "prefix": "",
        "digest": "d",
        "limits": Limits(connect_ms=3000),
    }
    return Destination(**known | changes)


def fresh(crm: RawDestination) -> Destination:
    return to(crm, connections=Connections.FRESH)


def write(
    method: str = "POST",
    target: str = "/notes",
    body: bytes | Path | None = b'{"n":1}',
    *,
    headers: list[tuple[str, str]] | None = None,
    deadline_s: float = 5.0,
    send_by_s: float = 5.0,
    clock: Clock = CLOCK,
) -> Outgoing:
    now_s = clock.boot_s()
    return Outgoing(
        method=method,
        target=target,
        headers=headers or [],
        body=body,
        deadline_s=now_s + deadline_s,
        send_by_s=now_s + send_by_s,
    )


def read(method: str = "GET", target: str = "/notes", **more: Any) -> Outgoing:
    outgoing = write(method, target, None, **more)
    outgoing.send_by_s = None
    return outgoing


async def whole(outbound: Outbound, destination: Destination, outgoing: Outgoing) -> bytes:
    """Send and read the answer to its end, which must come."""
    answer = await outbound.send_once(destination, outgoing)
    assert isinstance(answer, Incoming), answer
    body = await answer.read(1 << 30)
    assert answer.complete, answer.broken
    return body


async def silence(outbound: Outbound, destination: Destination, outgoing: Outgoing) -> Silence:
    answer = await outbound.send_once(destination, outgoing)
    assert isinstance(answer, Silence), answer.status
    assert answer.sent is outgoing.sent
    return answer
