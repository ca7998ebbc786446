"""What fencing costs, beside a bare pass-through, in the same run.

    python -m loadtests.bench [--seconds 4] [--repeats 3] [--quick] [--folder var/bench]

Targets are interleaved, each repeat measures all of them, medians are shown; ratios are taken
within a repeat first. The server under test has one core, load and destination share another.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.demo.processes import ROOT, ChildFailed, Children, python, wait_for_port
from gateway.demo.stage import DESTINATION, Stage, Times
from loadtests.driver import Driver, Target, choose

CONNECTIONS = (1, 64)
WARM_UP_S = 0.5
COMMITS = 400
MEASURES = ("per_second", "p50_us", "p99_us")
DIRECT, APPLICATION, SERVER = "direct to destination", "bare Application", "bare web.Server"
WRITES, READS = "fenced writes", "fenced reads"


@dataclass(frozen=True, slots=True)
class Cores:
    """Which core the server under test has, and which the load and the destination share."""

    server: int | None
    load: int | None

    @classmethod
    def found(cls) -> Cores:
        if not hasattr(os, "sched_getaffinity"):
            return cls(None, None)
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores[0], cores[1]) if len(cores) > 1 else cls(None, None)

    def __str__(self) -> str:
        if self.server is None:
            return "nothing pinned (one core, or no affinity on this system)"
        return f"server under test on core {self.server}, load and destination on core {self.load}"


@dataclass(slots=True)
class Results:
    """Every report, by target and number of connections, in order of repeats."""

    reports: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict)
    commits_us: list[float] = field(default_factory=list)

    def add(self, name: str, connections: int, report: dict[str, Any]) -> None:
        self.reports.setdefault((name, connections), []).append(report)

    def median(self, name: str, connections: int, measure: str) -> float:
        return statistics.median(it[measure] for it in self.reports[name, connections])

    def paired(self, of: str, to: str, connections: int, measure: str) -> list[tuple[float, float]]:
        one, other = self.reports[of, connections], self.reports[to, connections]
        return [(a[measure], b[measure]) for a, b in zip(one, other, strict=True)]

    def ratio(self, of: str, to: str, connections: int) -> float:
        """Return requests per second of one target over the other's: median of the repeats."""
        pairs = self.paired(of, to, connections, "per_second")
        return statistics.median(a / b if b else 0.0 for a, b in pairs)

    def added_us(self, of: str, to: str, measure: str, connections: int = 1) -> float:
        """Return what one target takes longer than the other."""
        return statistics.median(a - b for a, b in self.paired(of, to, connections, measure))

    def not_good(self) -> int:
        reports = [report for reports in self.reports.values() for report in reports]
        return sum(it["not_2xx"] + it["broken_connections"] for it in reports)


def commit_us(folder: Path, commits: int = COMMITS) -> float:
    """Return the median of one single-row commit, WAL and synchronous=FULL, in microseconds."""
    path = folder / "single-row.db"
    times_ns = []
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE IF NOT EXISTS row (n INTEGER PRIMARY KEY, text TEXT)")
        for _ in range(commits):
            started_ns = time.perf_counter_ns()
            database.execute("INSERT INTO row (text) VALUES (?)", ("x" * 100,))
            times_ns.append(time.perf_counter_ns() - started_ns)
    return statistics.median(times_ns) / 1000


def own_commit_us(folder: Path, cores: Cores) -> float:
    """Measure `commit_us` on the core that the gateway writes from."""
    before = os.sched_getaffinity(0) if cores.server is not None else set()
    if cores.server is not None:
        os.sched_setaffinity(0, {cores.server})
    try:
        return commit_us(folder)
    finally:
        if before:
            os.sched_setaffinity(0, before)


@contextmanager
def servers(folder: Path, cores: Cores) -> Iterator[list[Target]]:
    """Start destination, pass-throughs and gateway; give what can be measured on them."""
    with Children(folder) as children:

        def started(name: str, core: int | None, *command: str) -> str:
            port_file = folder / f"{name}.port"
            arguments = python("-m", *command, "--port-file", str(port_file))
            child = children.start(name, arguments, core=core)
            return f"http://127.0.0.1:{wait_for_port(child, port_file)}"

        upstream = started("destination", cores.load, "loadtests.upstream")
        bare = ("loadtests.passthrough", "--upstream", upstream, "--flavour")
        application = started("application", cores.server, *bare, "application")
        server = started("server", cores.server, *bare, "server")
        stage = Stage(folder, times=Times(timeout="30s", settle="5s", barrier_wait="10s"))
        stage.write_files(upstream)
        stage.start_gateway(children, core=cores.server)
        # One request for all, to the byte but for the path: a proxy pays for every field that it
        # reads and passes on, so a bare one that gets fewer of them has less to do.
        sent = fields(stage)
        yield [
            Target(DIRECT, f"{upstream}/notes", headers=sent),
            Target(APPLICATION, f"{application}/notes", headers=sent),
            Target(SERVER, f"{server}/notes", headers=sent),
            *fenced(stage, sent),
        ]
        children.require_running()


def fields(stage: Stage) -> dict[str, str]:
    """Return the token and the fence that every request carries."""
    return {
        "Authorization": f"Bearer {stage.worker.token}",
        "Fence-Function": stage.function,
        "Fence-Unit": "bench:1",
        "Fence-Term": "1",
        "Fence-Holder": "bench#1",
    }


def fenced(stage: Stage, sent: dict[str, str]) -> list[Target]:
    """Return the fenced write and read of `stage`'s running gateway."""
    url = f"{stage.gateway_url}/d/{DESTINATION}/notes"
    return [
        Target(WRITES, url, headers=sent),
        Target(READS, url, method="GET", body_bytes=0, headers=sent),
    ]


def measure(
    targets: list[Target],
    driver: Driver,
    folder: Path,
    cores: Cores,
    *,
    seconds: float,
    repeats: int,
) -> Results:
    """Measure all targets, interleaved, `repeats` times."""
    results = Results()
    for target in targets:
        driver.run(target, connections=8, seconds=WARM_UP_S)
    for repeat in range(repeats):
        results.commits_us.append(own_commit_us(folder, cores))
        for connections in CONNECTIONS:
            for target in targets:
                report = driver.run(target, connections=connections, seconds=seconds)
                results.add(target.name, connections, report)
                note = f"repeat {repeat + 1}/{repeats}: {target.name}, {connections} connections"
                print(f"{note}: {report['per_second']:.0f}/s", file=sys.stderr)
    return results


def summarise(results: Results) -> dict[str, Any]:
    """Return the numbers that the table and the JSON line show."""
    commit = statistics.median(results.commits_us)
    overhead_us = results.added_us(WRITES, DIRECT, "p50_us")
    added_us = results.added_us(WRITES, SERVER, "p50_us")
    return {
        "targets": {
            f"{name} @{connections}": {
                measured: round(results.median(name, connections, measured), 1)
                for measured in MEASURES
            }
            for name, connections in results.reports
        },
        "overhead_p50_us": round(overhead_us, 1),
        "overhead_p99_us": round(results.added_us(WRITES, DIRECT, "p99_us"), 1),
        "overhead_p50_us_at_64": round(results.added_us(WRITES, DIRECT, "p50_us", 64), 1),
        "overhead_p99_us_at_64": round(results.added_us(WRITES, DIRECT, "p99_us", 64), 1),
        "fenced_to_application_at_64": round(results.ratio(WRITES, APPLICATION, 64), 3),
        "fenced_to_server_at_64": round(results.ratio(WRITES, SERVER, 64), 3),
        "reads_to_server_at_64": round(results.ratio(READS, SERVER, 64), 3),
        "commit_us": round(commit, 1),
        "added_us": round(added_us, 1),
        "added_over_commit": round(added_us / commit, 2),
        "overhead_over_commit": round(overhead_us / commit, 2),
        "not_good": results.not_good(),
    }


def table(summary: dict[str, Any]) -> list[str]:
    """Write `summary` for people."""
    lines = [f"{'':<32} {'req/s':>9} {'p50 ms':>9} {'p99 ms':>9}"]
    for name, row in summary["targets"].items():
        p50, p99 = row["p50_us"] / 1000, row["p99_us"] / 1000
        lines.append(f"{name:<32} {row['per_second']:>9.0f} {p50:>9.3f} {p99:>9.3f}")
    rows = [
        ("overhead, gateway minus destination, 1 connection", "overhead_p50_us", "us p50"),
        ("", "overhead_p99_us", "us p99"),
        ("overhead, gateway minus destination, 64 connections", "overhead_p50_us_at_64", "us p50"),
        ("", "overhead_p99_us_at_64", "us p99"),
        ("fenced writes / bare Application, 64 connections", "fenced_to_application_at_64", ""),
        ("fenced writes / bare web.Server, 64 connections", "fenced_to_server_at_64", ""),
        ("fenced reads / bare web.Server, 64 connections", "reads_to_server_at_64", ""),
        ("one single-row SQLite FULL commit", "commit_us", "us"),
        ("fencing adds to bare web.Server, 1 connection, p50", "added_us", "us"),
        ("added median at 1 connection / single-row commit", "added_over_commit", ""),
        ("overhead p50 at 1 connection / single-row commit", "overhead_over_commit", ""),
        ("answers other than 2xx, and broken connections", "not_good", ""),
    ]
    return [*lines, "", *(f"{text:<52} {summary[key]:>10} {unit}" for text, key, unit in rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one repeat of one second each")
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "bench")
    given = parser.parse_args()
    seconds, repeats = (1.0, 1) if given.quick else (given.seconds, given.repeats)
    cores = Cores.found()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder.resolve()) as name:
        folder = Path(name)
        try:
            with servers(folder, cores) as targets:
                driver = choose(targets[0], cores.load)
                results = measure(targets, driver, folder, cores, seconds=seconds, repeats=repeats)
        except ChildFailed as error:
            print(error, file=sys.stderr)
            return 1
    summary = summarise(results)
    print(f"{cores}; {driver.name}; {repeats} x {seconds:g} s, medians; SQLite FULL; POST 300 B")
    print("\n".join(table(summary)))
    print(json.dumps({**summary, "pinned": str(cores), "load": driver.name}))
    return 1 if summary["not_good"] else 0


if __name__ == "__main__":
    sys.exit(main())
