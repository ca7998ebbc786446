"""Does the gateway's memory stay flat, and does its ledger stay quick to ask?

    python -m loadtests.memory [--requests 100000] [--folder var/memory]

Sends fenced writes over 64 connections, shows the gateway's resident memory after each tenth,
then times `fencegate effects ls` with filters on the ledger that this left.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from gateway.demo.processes import (
    ROOT,
    ChildFailed,
    Children,
    clean_environment,
    python,
    wait_for_port,
)
from gateway.demo.stage import DESTINATION, Stage, Times
from loadtests.bench import WRITES, Cores, fenced
from loadtests.driver import Driver

CONNECTIONS = 64
PARTS = 10
FLAT_SHARE = 0.10
FLAT_MIB = 16.0
MIB = 1024 * 1024


def is_flat(rss_mib: Sequence[float]) -> bool:
    """Tell whether memory stopped growing: the last two thirds gained little.

    Caches and arenas fill at first; a leak goes on.
    """
    settled = rss_mib[len(rss_mib) // 3 :]
    gained = settled[-1] - settled[0]
    return gained <= max(FLAT_MIB, FLAT_SHARE * settled[0])


def send_all(stage: Stage, gateway_pid: int, *, requests: int, core: int | None) -> list[float]:
    """Send `requests` writes in ten parts and return the memory after each."""
    target = next(one for one in fenced(stage) if one.name == WRITES)
    driver, process = Driver(core), psutil.Process(gateway_pid)
    rss_mib = [process.memory_info().rss / MIB]
    print(f"{'sent':>10} {'RSS MiB':>9} {'req/s':>8} {'p99 ms':>8} {'not 2xx':>8}")
    print(f"{0:>10} {rss_mib[0]:>9.1f}")
    for part in range(1, PARTS + 1):
        report = driver.run(target, connections=CONNECTIONS, requests=requests // PARTS)
        rss_mib.append(process.memory_info().rss / MIB)
        print(
            f"{part * (requests // PARTS):>10} {rss_mib[-1]:>9.1f} {report['per_second']:>8.0f} "
            f"{report['p99_us'] / 1000:>8.1f} {report['not_2xx']:>8}"
        )
    return rss_mib


def time_questions(stage: Stage) -> bool:
    """Time `fencegate effects ls` with some filters; return whether all of them worked."""
    listing = ("effects", "ls", "--ledger", stage.ledger)
    questions = (
        ("--version",),  # what starting the program costs
        (*listing, "--outcome", "unknown"),
        (*listing, "--outcome", "confirmed"),
        (*listing, "--function", stage.function, "--unit", "bench:1"),
        (*listing, "--destination", DESTINATION, "--term", "1"),
    )
    good = True
    for question in questions:
        command = python("-m", "gateway", *question)
        started_s = time.perf_counter()
        done = subprocess.run(
            command,
            env=clean_environment(),
            cwd=stage.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        took_s = time.perf_counter() - started_s
        good = good and done.returncode == 0
        failed = "" if done.returncode == 0 else f"  FAILED: {done.stderr.strip()[-300:]}"
        shown = " ".join(word for word in question if word not in ("--ledger", stage.ledger))
        print(f"{shown:<70} {took_s:>6.2f} s{failed}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "memory")
    given = parser.parse_args()
    cores = Cores.found()
    given.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=given.folder.resolve()) as name,
        Children(Path(name)) as children,
    ):
        stage = Stage(Path(name), times=Times(timeout="30s", settle="5s", barrier_wait="10s"))
        try:
            port_file = stage.folder / "destination.port"
            command = python("-m", "loadtests.upstream", "--port-file", str(port_file))
            upstream = children.start("destination", command, core=cores.load)
            stage.write_files(f"http://127.0.0.1:{wait_for_port(upstream, port_file)}")
            gateway = stage.start_gateway(children, core=cores.server)
            rss_mib = send_all(stage, gateway.pid, requests=given.requests, core=cores.load)
            children.require_running()
            flat = is_flat(rss_mib)
            print("flat" if flat else "NOT FLAT: memory grew to the end")
            good = time_questions(stage)
        except ChildFailed as error:
            print(error, file=sys.stderr)
            return 1
    return 0 if flat and good else 1


if __name__ == "__main__":
    sys.exit(main())
