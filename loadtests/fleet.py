"""Throughput of one, two and three gateways on one PostgreSQL, beside SQLite and a bare proxy.

    python -m loadtests.fleet [--seconds 4] [--repeats 3] [--connections 64]

All in one run, interleaved, ratios within a repeat, medians. Nothing is pinned: gateways, server,
destination and load share the machine, so that more gateways than cores measure the sharing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from gateway.demo.processes import ROOT, Child, Children, python, wait_for_port
from gateway.demo.stage import DESTINATION, Stage, Times
from loadtests.bench import fields
from loadtests.driver import Driver, Target
from tests.postgres_server import Server, running_server

BARE, SQLITE = "bare Application", "1 gateway, SQLite"
GATEWAYS = (1, 2, 3)
POLICY = """\
destination: %(name)s
base_url: %(url)s
limits: {timeout: 30s, settle: 5s, barrier_wait: 10s, at_once: 256}
routes:
  - {match: "POST /notes", does: write, covers: "notes/new/{effect}"}
"""


@dataclass(slots=True)
class Group:
    """What is measured together: where the load goes, and whose processor time it takes."""

    name: str
    targets: Sequence[Target]
    pids: Sequence[int]
    rates: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)


def place(folder: Path, name: str, upstream: str, ledger_url: str = "") -> Stage:
    """Return a gateway's stage, with a policy whose writes are things of their own."""
    stage = Stage(folder / name, times=Times(timeout="30s"), ledger_url=ledger_url)
    stage.write_files(upstream)
    words = {"name": DESTINATION, "url": upstream}
    (stage.policies / f"{DESTINATION}.yaml").write_text(POLICY % words)
    return stage


def target_of(stage: Stage) -> Target:
    return Target("", f"{stage.gateway_url}/d/{DESTINATION}/notes", headers=fields(stage))


@contextmanager
def groups(folder: Path, server: Server) -> Iterator[tuple[list[Group], dict[str, int]]]:
    """Start everything; give what is measured, and the processes that all of it shares."""
    with Children(folder) as children:

        def started(name: str, *command: str) -> tuple[str, Child]:
            port_file = folder / f"{name}.port"
            child = children.start(name, python("-m", *command, "--port-file", str(port_file)))
            return f"http://127.0.0.1:{wait_for_port(child, port_file)}", child

        upstream, destination = started("destination", "loadtests.upstream")
        bare, proxy = started(
            "bare", "loadtests.passthrough", "--upstream", upstream, "--flavour", "application"
        )
        own = place(folder, "sqlite", upstream)
        made = [Group(SQLITE, [], [own.start_gateway(children).pid])]
        made[0].targets = [target_of(own)]
        sent = fields(own)
        made.insert(0, Group(BARE, [Target("", f"{bare}/notes", headers=sent)], [proxy.pid]))
        url = server.url(server.database())
        stages = [place(folder, f"postgres-{n}", upstream, url) for n in GATEWAYS]
        pids = [stage.start_gateway(children).pid for stage in stages]
        for count in GATEWAYS:
            targets = [target_of(stage) for stage in stages[:count]]
            made.append(Group(f"{count} gateway(s), PostgreSQL", targets, pids[:count]))
        assert server.process is not None
        yield made, {"destination": destination.pid, "database": server.process.pid}
        children.require_running()


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and its children, those that ended left out."""
    total = 0.0
    main = psutil.Process(pid)
    for process in [main, *main.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def measure(group: Group, shared: dict[str, int], connections: int, seconds: float) -> None:
    """Load all of a group's targets at once, and add up what comes of it."""
    each = max(1, connections // len(group.targets))
    watched = {"gateway": list(group.pids), **{name: [pid] for name, pid in shared.items()}}
    before = {name: sum(map(cpu_s, pids)) for name, pids in watched.items()}
    with ThreadPoolExecutor(len(group.targets)) as pool:
        reports = list(
            pool.map(
                lambda target: Driver().run(target, connections=each, seconds=seconds),
                group.targets,
            )
        )
    if any(report["not_2xx"] or report["broken_connections"] for report in reports):
        raise RuntimeError(f"{group.name}: not all answers were good: {reports}")
    done = sum(report["requests"] for report in reports)
    group.rates.append(sum(report["per_second"] for report in reports))
    group.p99_ms.append(max(report["p99_us"] for report in reports) / 1000)
    for name, pids in watched.items():
        spent_s = sum(map(cpu_s, pids)) - before[name]
        group.cpu_us.setdefault(name, []).append(spent_s / done * 1e6)


def rows(measured: Sequence[Group]) -> list[dict[str, Any]]:
    bare, sqlite = measured[0].rates, measured[1].rates

    def ratio(group: Group, to: list[float]) -> float:
        pairs = zip(group.rates, to, strict=True)
        return round(statistics.median(one / other for one, other in pairs), 3)

    return [
        {
            "name": group.name,
            "per_second": round(statistics.median(group.rates)),
            "p99_ms": round(statistics.median(group.p99_ms), 1),
            "to_bare": ratio(group, bare),
            "to_sqlite": ratio(group, sqlite),
            "cpu_us": {name: round(statistics.median(us)) for name, us in group.cpu_us.items()},
        }
        for group in measured
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    given = parser.parse_args()
    folder = ROOT / "var" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=folder) as name,
        running_server() as server,
        groups(Path(name), server) as (measured, shared),
    ):
        for group in measured:
            measure(group, shared, 8, 0.5)
            group.rates.clear()
            group.p99_ms.clear()
            group.cpu_us.clear()
        for repeat in range(given.repeats):
            for group in measured:
                measure(group, shared, given.connections, given.seconds)
                print(f"{repeat + 1}: {group.name}: {group.rates[-1]:.0f}/s", file=sys.stderr)
    told = rows(measured)
    print(f"{given.repeats} x {given.seconds:g} s, {given.connections} connections, nothing pinned")
    print(f"{'':<26} {'req/s':>7} {'p99 ms':>7} {'/bare':>6} {'/SQLite':>8}   CPU us a request")
    for row in told:
        cpu = ", ".join(f"{name} {us}" for name, us in row["cpu_us"].items())
        print(
            f"{row['name']:<26} {row['per_second']:>7} {row['p99_ms']:>7} {row['to_bare']:>6} "
            f"{row['to_sqlite']:>8}   {cpu}"
        )
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
