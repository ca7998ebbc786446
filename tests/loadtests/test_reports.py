"""What the load tests make of their numbers."""

from __future__ import annotations

import json

from loadtests import run
from loadtests.bench import (
    APPLICATION,
    DIRECT,
    READS,
    SERVER,
    WRITES,
    Cores,
    Results,
    commit_us,
    summarise,
    table,
)
from loadtests.memory import is_flat

ROW = {
    "requests": 10,
    "failures": 0,
    "per_second": 5.0,
    "p50_ms": 1,
    "p95_ms": 2,
    "p99_ms": 3,
}
REPORT = {
    "rows": {"write": ROW},
    "total": ROW,
    "verdicts": {"forwarded": 10},
    "unexpected": {},
    "applied_at_least": 10,
}
CRM = {"requests": 10, "applied": 10, "duplicates": []}


def report(per_second: float, p50_us: float) -> dict[str, float]:
    return {
        "per_second": per_second,
        "p50_us": p50_us,
        "p99_us": p50_us * 2,
        "not_2xx": 0,
        "broken_connections": 0,
    }


def test_ratios_are_taken_within_a_repeat_before_their_median():
    results = Results(commits_us=[200.0])
    for speed in (1.0, 4.0, 2.0):  # the machine drifts; the ratio does not
        for connections in (1, 64):
            for name, share, p50_us in (
                (DIRECT, 10.0, 100.0),
                (APPLICATION, 1.0, 300.0),
                (SERVER, 1.25, 250.0),
                (WRITES, 0.5, 650.0),
                (READS, 1.0, 400.0),
            ):
                results.add(name, connections, report(1000 * speed * share, p50_us))

    summary = summarise(results)

    assert summary["fenced_to_application_at_64"] == 0.5
    assert summary["fenced_to_server_at_64"] == 0.4
    assert summary["overhead_p50_us"] == 550.0
    assert summary["overhead_p99_us"] == 1100.0
    assert summary["added_over_commit"] == 2.0
    assert summary["not_good"] == 0
    assert any(f"{WRITES} @64" in line for line in table(summary))
    json.dumps(summary)


def test_a_single_row_commit_is_measured_on_a_real_file(tmp_path):
    assert commit_us(tmp_path, commits=5) > 0


def test_what_was_pinned_is_said():
    assert "core 3" in str(Cores(server=3, load=4))
    assert "nothing pinned" in str(Cores(None, None))


def test_a_run_as_expected_has_no_faults():
    assert run.faults(REPORT, CRM) == []
    assert any("forwarded" in line for line in run.table(REPORT))


def test_a_duplicate_at_the_crm_fails_the_run():
    twice = {**CRM, "duplicates": [{"intent": "k1", "entries": [3, 9]}]}

    assert run.faults(REPORT, twice) == ["duplicate at the CRM: intent k1 in entries [3, 9]"]


def test_an_unexpected_verdict_fails_the_run():
    surprised = {**REPORT, "unexpected": {"write: 503 refused; reason=busy": 4}}

    assert run.faults(surprised, CRM) == ["unexpected: write: 503 refused; reason=busy (4 x)"]


def test_an_effect_that_the_crm_does_not_know_fails_the_run():
    assert "the CRM did 9 changes" in run.faults(REPORT, {**CRM, "applied": 9})[0]


def test_a_run_that_sent_nothing_fails():
    empty = {**REPORT, "total": {**ROW, "requests": 0}, "applied_at_least": 0}

    assert run.faults(empty, CRM) == ["no request was sent"]


def test_memory_that_fills_caches_and_then_stays_is_flat():
    assert is_flat([60, 90, 110, 118, 119, 120, 120, 121, 120, 121, 122])


def test_memory_that_grows_to_the_end_is_not_flat():
    assert not is_flat([60 + 10 * part for part in range(11)])
