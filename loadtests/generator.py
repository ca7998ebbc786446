"""A cheap closed-loop load generator: raw sockets on uvloop, a fresh key for every request.

    python -m loadtests.generator --url http://127.0.0.1:8080/d/crm/notes --connections 64 \
        --seconds 5 --method POST --body-bytes 300 --header "Fence-Term: 1"

Each connection sends its next request when it has the whole answer to the last. One JSON object
on standard output says what came of it. Ended by `--seconds`, or by `--requests` answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

from loadtests.http_bytes import message_end

KEY_PLACE = b"{key}"
GIVE_UP_S = 30.0


@dataclass(slots=True)
class Tally:
    """What came back, and how long it took in nanoseconds."""

    statuses: Counter[int] = field(default_factory=Counter)
    latencies_ns: list[int] = field(default_factory=list)
    broken: int = 0

    def report(self, elapsed_s: float) -> dict[str, Any]:
        times = sorted(self.latencies_ns)
        good = sum(count for status, count in self.statuses.items() if 200 <= status < 300)
        return {
            "requests": len(times),
            "per_second": len(times) / elapsed_s if elapsed_s else 0.0,
            "p50_us": percentile(times, 0.50) / 1000,
            "p99_us": percentile(times, 0.99) / 1000,
            "max_us": (times[-1] if times else 0) / 1000,
            "not_2xx": len(times) - good,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "broken_connections": self.broken,
        }


def percentile(ordered: list[int], share: float) -> float:
    """Return the value below which `share` of the ordered values lie; 0 for none."""
    if not ordered:
        return 0.0
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])


@dataclass(slots=True)
class Run:
    """One run's target and end. `left` is how many requests may still be started."""

    host: str
    port: int
    before_key: bytes
    after_key: bytes
    left: int
    tally: Tally = field(default_factory=Tally)
    open: int = 0
    over: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)
    dice: random.Random = field(default_factory=random.Random)

    def request(self) -> bytes:
        return b"%b%032x%b" % (self.before_key, self.dice.getrandbits(128), self.after_key)

    def closed(self) -> None:
        self.open -= 1
        if self.open == 0:
            self.done.set()


class Caller(asyncio.Protocol):
    """One connection: send, wait for the whole answer, send again."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._held = bytearray()
        self._sent_at_ns = 0
        self._waiting = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because uvloop registers its transports nowhere.
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        run, transport = self._run, self._transport
        assert transport is not None
        if run.over or run.left == 0:
            transport.close()
            return
        run.left -= 1
        self._waiting = True
        self._sent_at_ns = time.perf_counter_ns()
        transport.write(run.request())

    def data_received(self, data: bytes) -> None:
        held = self._held
        held += data
        end = message_end(held)
        if end < 0:
            return
        tally = self._run.tally
        tally.latencies_ns.append(time.perf_counter_ns() - self._sent_at_ns)
        tally.statuses[int(held[9:12])] += 1
        del held[:end]
        self._waiting = False
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        run = self._run
        if not self._waiting:
            run.closed()
            return
        run.tally.broken += 1
        if run.over or run.tally.broken > 1000:
            run.closed()
            return
        asyncio.get_running_loop().call_soon(_connect_again, run)


def _connect_again(run: Run) -> None:
    task = asyncio.get_running_loop().create_task(_connect(run))
    task.add_done_callback(lambda done: run.closed() if done.exception() else None)


async def _connect(run: Run) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: Caller(run), run.host, run.port)


async def drive(run: Run, *, connections: int, seconds: float | None) -> dict[str, Any]:
    """Run until the time is up or the requests are used up, then report."""
    run.open = connections
    started_s = time.perf_counter()
    await asyncio.gather(*(_connect(run) for _ in range(connections)))
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, setattr, run, "over", True)
    limit_s = None if seconds is None else seconds + GIVE_UP_S
    try:
        async with asyncio.timeout(limit_s):
            await run.done.wait()
    except TimeoutError:
        run.tally.broken += run.open
    return run.tally.report(time.perf_counter() - started_s)


def build(
    url: str, *, method: str, headers: list[str], body_bytes: int, requests: int | None
) -> Run:
    """Return a run against `url`. Every request names its key in `Idempotency-Key`."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    body = b""
    if body_bytes:
        start = b'{"text":"'
        body = start + b"x" * (body_bytes - len(start) - 2) + b'"}'
        headers = [*headers, "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}", *headers]
    head = "\r\n".join(lines).encode() + b"\r\nIdempotency-Key: "
    return Run(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 80,
        before_key=head,
        after_key=b"\r\n\r\n" + body,
        left=-1 if requests is None else requests,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--method", default="POST")
    parser.add_argument("--body-bytes", type=int, default=0)
    parser.add_argument("--header", action="append", default=[])
    given = parser.parse_args()
    if (given.seconds is None) == (given.requests is None):
        parser.error("give one of --seconds and --requests")
    run = build(
        given.url,
        method=given.method,
        headers=given.header,
        body_bytes=given.body_bytes,
        requests=given.requests,
    )
    print(json.dumps(uvloop.run(drive(run, connections=given.connections, seconds=given.seconds))))


if __name__ == "__main__":
    main()
