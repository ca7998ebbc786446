"""Every problem of the data plane: its status, what a client has to know, and that nothing
more was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.wire.problem import PROBLEMS
from tests.house import Got
from tests.proxy.provoking import PROVOKED, Stage
from tests.proxy.setting import OpenHouse
from tests.raw_destination import RawDestination

OF_LEASES = {
    "term-never-issued", "not-holder", "lease-expired", "leader-draining", "unit-unknown",
    "unit-closed", "lease-held", "lease-gone", "effect-abandoned",
}  # fmt: skip
OF_THE_CONTROL_PLANE = {
    "not-found", "version-conflict", "too-early", "not-eligible", "not-preferred", "not-claimed",
    "item-unknown", "unit-taken", "unit-unfinished",
}  # fmt: skip

AFTER_ADMISSION = {"destination-unreachable", "internal"}
"""These are ours, and yet the fence let the request through."""

EFFECTS = {
    "outcome-unknown": "unknown", "in-flight": "unknown", "duplicate": "confirmed",
    "key-reused": "confirmed", "result-unavailable": "confirmed",
}  # fmt: skip
OUTCOMES = {
    "outcome-unknown": "unknown", "duplicate": "confirmed", "key-reused": "confirmed",
    "result-unavailable": "confirmed", "attempts-exhausted": "rejected",
    "destination-unreachable": "no-effect", "internal": "no-effect",
}  # fmt: skip
HIGHEST = {
    "stale-term": "8", "predecessor-in-flight": "8", "term-contested": "7", "term-jump": "7",
    "key-reused": "7", "in-flight": "7", "outcome-unknown": "7", "duplicate": "7",
    "result-unavailable": "7", "attempts-exhausted": "7", "destination-unreachable": "7",
    "internal": "7",
}  # fmt: skip
FACTS: dict[str, dict[str, Any]] = {
    "stale-term": {"term": 7, "highest_term": 8},
    "term-contested": {"term": 7, "highest_term": 7},
    "term-jump": {"term": 1008, "highest_term": 7},
    "fence-missing": {"missing": ["Fence-Function", "Fence-Term", "Fence-Holder"]},
    "function-unknown": {"function": "other"},
    "forbidden": {"function": "relatorio"},
    "body-too-large": {"limit_bytes": 1024},
    "method-unsupported": {"method": "TRACE"},
    "expectation-failed": {"expect": "magic"},
    "not-implemented": {"upgrade": "h2c"},
    "attempts-exhausted": {"attempts": 2},
    "result-unavailable": {
        "destination_status": 201, "answer": "over-cap", "location": "/notes/1",
    },
    "busy": {"at_once": 1},
    "ledger-unavailable": {"reason": "the disk is full"},
    "destination-unreachable": {"reason": "connect-refused"},
}  # fmt: skip


@pytest.fixture
async def stage(
    open_house: OpenHouse, crm: RawDestination, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Stage]:
    stage = Stage(open_house, crm, monkeypatch, tmp_path)
    yield stage
    await stage.finish()


def test_every_problem_of_the_data_plane_is_provoked_here() -> None:
    assert set(PROVOKED) == set(PROBLEMS) - OF_LEASES - OF_THE_CONTROL_PLANE


@pytest.mark.parametrize("slug", PROVOKED)
async def test_a_problem_says_what_a_client_has_to_know(stage: Stage, slug: str) -> None:
    problem = PROBLEMS[slug]

    got = await PROVOKED[slug](stage)

    assert (got.status, got.problem) == (problem.status, slug)
    assert stage.arrived == 0
    check_headers(got, slug)
    check_body(got, slug)


def check_headers(got: Got, slug: str) -> None:
    problem = PROBLEMS[slug]
    verdict = "forwarded" if slug in AFTER_ADMISSION else "refused"
    assert got.headers["Fence-Verdict"] == f"{verdict}; reason={slug}"
    assert got.headers["Cache-Control"] == "no-store"
    assert got.headers["Fence-Request-Id"]
    assert got.headers.get("Fence-Outcome") == OUTCOMES.get(slug)
    assert got.headers.get("Fence-Term") == HIGHEST.get(slug)
    assert got.headers.get("X-Should-Retry") == (None if problem.retry else "false")
    waits = problem.retry_after_s is not None
    assert ("Retry-After" in got.headers) is waits
    assert not waits or int(got.headers["Retry-After"]) >= 1
    assert ("Fence-Effect" in got.headers) is (slug in OUTCOMES or slug == "in-flight")
    assert ("Allow" in got.headers) is (got.status == 405)
    assert ("WWW-Authenticate" in got.headers) is (got.status == 401)
    assert "Idempotent-Replayed" not in got.headers


def check_body(got: Got, slug: str) -> None:
    body = got.json
    problem = PROBLEMS[slug]
    assert body["type"] == f"/problems/{slug}"
    assert (body["title"], body["status"]) == (problem.title, problem.status)
    assert body["detail"]
    assert body["effect"] == EFFECTS.get(slug, "none")
    assert body["safe_to_retry_same_key"] is (problem.same_key or slug == "internal")
    for name, value in FACTS.get(slug, {}).items():
        assert body[name] == value, name
    if "Fence-Effect" in got.headers:
        assert body["effect_id"] == got.headers["Fence-Effect"]
    if "Retry-After" in got.headers:
        assert str(body["retry_after_s"]) == got.headers["Retry-After"]


async def test_an_incident_has_an_id_and_says_nothing_of_the_error(stage: Stage) -> None:
    got = await PROVOKED["internal"](stage)

    assert got.json["incident"].startswith("inc-")
    assert b"nobody thought" not in got.body


async def test_a_refused_route_says_why(stage: Stage) -> None:
    got = await PROVOKED["route-refused"](stage)

    assert "a person deletes accounts" in got.json["detail"]


async def test_a_refusal_leaves_what_is_under_way_alone(stage: Stage) -> None:
    await PROVOKED["predecessor-in-flight"](stage)

    assert [got.status for got in await stage.finish()] == [200]
