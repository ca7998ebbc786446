"""Locust users with the mixes that matter, each answer checked for the verdict it must have.

Started by `loadtests/run.py`, which tells it through the environment where the token is and
where to leave its report. Every user leads a scope of its own (a unit; `leadership: unit`), so
what each answer must be is known beforehand: anything else is a failure.

    FENCEGATE_LOAD_TOKEN    the worker's gateway token
    FENCEGATE_LOAD_REPORT   file for the numbers, as JSON
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
from collections import Counter
from pathlib import Path
from typing import Any

from locust import FastHttpUser, constant, events, tag, task
from locust.env import Environment

TOKEN = os.environ.get("FENCEGATE_LOAD_TOKEN", "")
REPORT = os.environ.get("FENCEGATE_LOAD_REPORT", "")
FUNCTION = os.environ.get("FENCEGATE_LOAD_FUNCTION", "load")
PERCENTILES = {"p50_ms": 0.50, "p95_ms": 0.95, "p99_ms": 0.99}

verdicts: Counter[str] = Counter()
unexpected: Counter[str] = Counter()
applied_at_least: Counter[str] = Counter()
numbers = itertools.count(1)


class Agent(FastHttpUser):
    """A leader of its own unit that writes, repeats itself, and is replaced now and then."""

    wait_time = constant(0)
    connection_timeout = 10.0
    network_timeout = 40.0

    def on_start(self) -> None:
        self.unit = f"unit-{next(numbers)}-{secrets.token_hex(4)}"
        self.term = 1
        self.last: tuple[str, bytes] | None = None

    def call(
        self,
        name: str,
        expected: tuple[int, str],
        *,
        key: str = "",
        body: bytes = b"",
        term: int | None = None,
        unit: str = "",
        path: str = "/notes",
        fault: str = "",
    ) -> bool:
        """Send one request; a verdict other than `expected` makes it a failure."""
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Fence-Function": FUNCTION,
            "Fence-Unit": unit or self.unit,
            "Fence-Term": str(term or self.term),
            "Fence-Holder": f"agent#{term or self.term}",
        }
        if key:
            headers |= {"Idempotency-Key": key, "X-Sandbox-Intent": key}
            headers["Content-Type"] = "application/json"
        if fault:
            headers["X-Sandbox-Fault"] = fault
        method = "POST" if key else "GET"
        with self.client.request(
            method,
            f"/d/crm{path}",
            name=name,
            headers=headers,
            data=body or None,
            catch_response=True,
            allow_redirects=False,
        ) as answer:
            found = (answer.status_code, (answer.headers or {}).get("Fence-Verdict", "none"))
            verdicts[found[1]] += 1
            if found == expected:
                answer.success()
                return True
            unexpected[f"{name}: {found[0]} {found[1]}"] += 1
            answer.failure(f"{found[0]} {found[1]}, expected {expected[0]} {expected[1]}")
            return False

    @task(6)
    @tag("write")
    def write(self) -> None:
        key = secrets.token_hex(16)
        body = json.dumps({"text": "next step is missing", "external_id": key}).encode()
        if self.call("write", (201, "forwarded"), key=key, body=body):
            applied_at_least["write"] += 1
            self.last = (key, body)

    @task(4)
    @tag("read")
    def read(self) -> None:
        self.call("read", (200, "forwarded"), path="/notes?limit=1")

    @task(2)
    @tag("replay")
    def replay(self) -> None:
        if self.last is not None:
            key, body = self.last
            self.call("replay", (201, "replayed"), key=key, body=body)

    @task(1)
    @tag("replay")
    def reuse_a_key(self) -> None:
        if self.last is not None:
            key, body = self.last
            refused = (422, "refused; reason=key-reused")
            self.call("key reused", refused, key=key, body=body.replace(b"next", b"last"))

    @task(1)
    @tag("stale")
    def be_replaced(self) -> None:
        """A newer leader writes; the older one comes back and must be refused."""
        self.term += 1
        self.write()
        stale = (412, "refused; reason=stale-term")
        key = secrets.token_hex(16)
        self.call("stale term", stale, key=key, body=b'{"text":"late"}', term=self.term - 1)

    @task(1)
    @tag("unknown")
    def lose_an_answer(self) -> None:
        """In a unit of its own: an unknown write holds a newer term back until its seal."""
        key, unit = secrets.token_hex(16), f"{self.unit}-lost"
        body = json.dumps({"text": "was it written?", "external_id": key}).encode()
        lost = (423, "forwarded; reason=outcome-unknown")
        asked = {"key": key, "body": body, "unit": unit, "term": 1}
        if self.call("answer lost", lost, fault="close-after", **asked):
            applied_at_least["answer lost"] += 1
        self.call("after unknown", (423, "refused; reason=outcome-unknown"), **asked)


def row_of(entry: Any) -> dict[str, float]:
    row = {name: entry.get_response_time_percentile(share) for name, share in PERCENTILES.items()}
    return {
        "requests": entry.num_requests,
        "failures": entry.num_failures,
        "per_second": entry.total_rps,
        **row,
    }


@events.quitting.add_listener
def leave_report(environment: Environment, **_: Any) -> None:
    """Write the numbers down for the program that started this one."""
    if not REPORT or environment.stats is None:
        return
    stats = environment.stats
    rows = {entry.name: row_of(entry) for entry in stats.entries.values()}
    content = {
        "rows": dict(sorted(rows.items())),
        "total": row_of(stats.total),
        "verdicts": dict(verdicts.most_common()),
        "unexpected": dict(unexpected.most_common()),
        "applied_at_least": sum(applied_at_least.values()),
    }
    Path(REPORT).write_text(json.dumps(content))
