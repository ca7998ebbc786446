"""Driving load at one URL from a process of its own: our generator, or wrk where that is faster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.demo.processes import ROOT, pinned_to, python

ENOUGH_PER_SECOND = 8_000
WRK_MARK = "FENCEGATE "

WRK_SCRIPT = """\
-- Every request names a fresh key; the report is one JSON object.
local threads = 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function init(args) math.randomseed(os.time() * 1000 + number); body = @BODY@ end
function request()
  local key = string.format("%08x%08x%08x%08x", math.random(0, 4294967295),
    math.random(0, 4294967295), math.random(0, 4294967295), math.random(0, 4294967295))
  return wrk.format("@METHOD@", nil, {@HEADERS@["Idempotency-Key"] = key}, body)
end
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '@MARK@{"requests": %d, "per_second": %f, "p50_us": %f, "p99_us": %f, "max_us": %f, ' ..
    '"not_2xx": %d, "broken_connections": %d}',
    summary.requests, summary.requests / (summary.duration / 1000000),
    latency:percentile(50), latency:percentile(99), latency.max, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured: where the requests go, and what they look like."""

    name: str
    url: str
    method: str = "POST"
    body_bytes: int = 300
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Driver:
    """Sends load from `core` (None: wherever the system likes)."""

    core: int | None = None
    with_wrk: bool = False

    @property
    def name(self) -> str:
        return "wrk with a Lua script" if self.with_wrk else "own generator"

    def run(
        self,
        target: Target,
        *,
        connections: int,
        seconds: float | None = None,
        requests: int | None = None,
    ) -> dict[str, Any]:
        """Run to the end and return the report."""
        if self.with_wrk and seconds is not None:
            return self._run_wrk(target, connections, seconds)
        command = ["-m", "loadtests.generator", "--url", target.url, "--method", target.method]
        command += ["--connections", str(connections), "--body-bytes", str(target.body_bytes)]
        for name, value in target.headers.items():
            command += ["--header", f"{name}: {value}"]
        ends = ("--seconds", seconds) if requests is None else ("--requests", requests)
        report: dict[str, Any] = json.loads(self._output(python(*command, *map(str, ends))))
        return report

    def _run_wrk(self, target: Target, connections: int, seconds: float) -> dict[str, Any]:
        command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s"]
        output = self._output([*command, "/dev/stdin", target.url], given=lua_script(target))
        found = re.search(re.escape(WRK_MARK) + r"(\{.*\})", output)
        if found is None:
            raise RuntimeError(f"wrk printed no report: {output[-500:]!r}")
        report: dict[str, Any] = json.loads(found[1])
        return report

    def _output(self, command: list[str], given: str = "") -> str:
        done = subprocess.run(
            command,
            cwd=ROOT,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=pinned_to(self.core),
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command[:3]} ended with {done.returncode}: {done.stderr[-800:]}")
        return done.stdout


def lua_script(target: Target) -> str:
    """Return the wrk script that sends what our generator would send."""
    headers = dict(target.headers)
    body = "nil"
    if target.body_bytes:
        headers["Content-Type"] = "application/json"
        start, end = '{"text":"', '"}'
        filler = target.body_bytes - len(start) - len(end)
        body = f"'{start}' .. string.rep('x', {filler}) .. '{end}'"
    listed = "".join(f"[{json.dumps(name)}] = {json.dumps(headers[name])}, " for name in headers)
    return (
        WRK_SCRIPT.replace("@BODY@", body)
        .replace("@METHOD@", target.method)
        .replace("@HEADERS@", listed)
        .replace("@MARK@", WRK_MARK)
    )


def choose(target: Target, core: int | None) -> Driver:
    """Return a driver that can outrun the servers under test, if there is one on this machine.

    Our own generator is preferred: it needs nothing installed and counts every status.
    """
    own = Driver(core)
    reached = own.run(target, connections=64, seconds=1.0)["per_second"]
    if reached >= ENOUGH_PER_SECOND or shutil.which("wrk") is None:
        return own
    return Driver(core, with_wrk=True)
