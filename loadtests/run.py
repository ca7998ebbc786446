"""The load test: sandbox CRM, gateway and locust, then what the CRM itself saw.

    python -m loadtests.run [--users 32] [--run-time 20s] [--report var/load/report.html]

Exit code 1 if an answer had another verdict than it must have, or if the CRM's own journal
shows a duplicate or misses an effect that was confirmed to a caller.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from gateway.demo.processes import ROOT, ChildFailed, Children, python
from gateway.demo.stage import Stage, Times

STOP_TIMEOUT_S = 10
COLUMNS = ("requests", "failures", "per_second", "p50_ms", "p95_ms", "p99_ms")


def run_locust(stage: Stage, *, users: int, run_time: str, html: Path) -> dict[str, Any]:
    """Run locust in a process of its own (it patches the interpreter) and read its report."""
    report = stage.folder / "locust.json"
    command = python(
        *("-m", "locust", "-f", str(ROOT / "loadtests" / "locustfile.py"), "--headless"),
        *("--users", str(users), "--spawn-rate", str(users), "--run-time", run_time),
        *("--stop-timeout", str(STOP_TIMEOUT_S), "--host", stage.gateway_url),
        *("--html", str(html), "--only-summary", "--loglevel", "WARNING"),
    )
    log = stage.folder / "locust.log"
    with log.open("wb") as output:
        subprocess.run(
            command,
            cwd=ROOT,
            env={
                **os.environ,
                "FENCEGATE_LOAD_TOKEN": stage.worker.token,
                "FENCEGATE_LOAD_FUNCTION": stage.function,
                "FENCEGATE_LOAD_REPORT": str(report),
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,  # 1 only says that there were failures; the report says which
        )
    if not report.exists():
        raise ChildFailed(f"locust left no report; its last lines:\n{log.read_text()[-3000:]}")
    content: dict[str, Any] = json.loads(report.read_bytes())
    return content


def crm_summary(stage: Stage) -> dict[str, Any]:
    with urllib.request.urlopen(f"{stage.crm_url}/_sandbox/summary", timeout=30) as answer:
        summary: dict[str, Any] = json.load(answer)
    return summary


def table(report: dict[str, Any]) -> list[str]:
    """Write locust's numbers and the verdicts for people."""
    lines = [f"{'':<16}" + "".join(f"{name:>12}" for name in COLUMNS)]
    for name, row in [*report["rows"].items(), ("all", report["total"])]:
        lines.append(f"{name:<16}" + "".join(f"{row[column]:>12.0f}" for column in COLUMNS))
    lines += ["", "verdicts"]
    lines += [f"{count:>10}  {verdict}" for verdict, count in report["verdicts"].items()]
    return lines


def faults(report: dict[str, Any], crm: dict[str, Any]) -> list[str]:
    """Say what was off, by the answers and by the CRM's own record."""
    found = [f"unexpected: {what} ({count} x)" for what, count in report["unexpected"].items()]
    if report["total"]["failures"] and not found:
        found.append(f"{report['total']['failures']} requests failed")
    if not report["total"]["requests"]:
        found.append("no request was sent")
    found += [
        f"duplicate at the CRM: intent {one['intent']} in entries {one['entries']}"
        for one in crm["duplicates"]
    ]
    if crm["applied"] < report["applied_at_least"]:
        found.append(
            f"the CRM did {crm['applied']} changes, "
            f"but {report['applied_at_least']} were answered as done or unknown-but-done"
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=32)
    parser.add_argument("--run-time", default="20s")
    parser.add_argument("--report", type=Path, default=ROOT / "var" / "load" / "report.html")
    given = parser.parse_args()
    html = given.report.resolve()
    html.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=html.parent) as name:
        stage = Stage(
            Path(name), function="load", leadership="unit", times=Times(timeout="30s", settle="5s")
        )
        try:
            with Children(stage.folder) as children:
                stage.start_both(children)
                report = run_locust(stage, users=given.users, run_time=given.run_time, html=html)
                children.require_running()
                crm = crm_summary(stage)
        except ChildFailed as error:
            print(error, file=sys.stderr)
            return 1
    print("\n".join(table(report)))
    print(
        f"\nthe CRM: {crm['requests']} requests, {crm['applied']} effects, "
        f"{len(crm['duplicates'])} duplicates; report in {html}"
    )
    wrong = faults(report, crm)
    for line in wrong[:20]:
        print(f"!! {line}")
    print("FAILED" if wrong else "passed: every verdict as it must be, no duplicate at the CRM")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
