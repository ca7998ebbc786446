"""Problems of the gateway become errors; answers of a destination never do."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from gateway.client import errors
from gateway.client.errors import LeadershipLost, error_for, is_retryable
from gateway.wire.problem import PROBLEMS, render

PROBLEM = "application/problem+json"


def told(slug: str, **headers: str) -> errors.FencegateError | None:
    rendered = render(slug, facts={"effect_id": "e-1"})
    return error_for(rendered.status, dict(rendered.headers) | headers, rendered.body)


@pytest.mark.parametrize("slug", sorted(PROBLEMS))
def test_every_problem_becomes_an_error_that_says_the_same(slug: str):
    error = told(slug, **{"Fence-Verdict": f"refused; reason={slug}"})

    problem = PROBLEMS[slug]
    assert error is not None
    assert (error.slug, error.status, error.effect) == (slug, problem.status, problem.effect)
    assert error.safe_to_retry_same_key is problem.same_key
    assert error.facts["effect_id"] == "e-1"
    assert problem.detail in str(error)


@pytest.mark.parametrize("slug", sorted(PROBLEMS))
def test_what_the_gateway_calls_worth_retrying_is_retryable(slug: str):
    error = told(slug)

    assert error is not None
    if type(error) is not errors.Refused:
        assert is_retryable(error) is PROBLEMS[slug].retry or slug == "not-preferred"


@pytest.mark.parametrize(
    ("slug", "kind"),
    [
        ("stale-term", errors.StaleTerm), ("term-never-issued", errors.TermNeverIssued),
        ("not-holder", errors.NotHolder), ("lease-expired", errors.LeaseExpired),
        ("leader-draining", errors.LeaderDraining), ("key-reused", errors.KeyReused),
        ("in-flight", errors.InFlight), ("outcome-unknown", errors.OutcomeUnknown),
        ("effect-abandoned", errors.EffectAbandoned), ("duplicate", errors.Duplicate),
        ("result-unavailable", errors.Duplicate),
        ("predecessor-in-flight", errors.PredecessorInFlight),
        ("ledger-unavailable", errors.LedgerUnavailable), ("fence-missing", errors.FenceMissing),
        ("forbidden", errors.Forbidden), ("function-unknown", errors.Forbidden),
        ("route-refused", errors.RouteRefused), ("malformed", errors.Malformed),
        ("destination-unreachable", errors.DestinationUnreachable),
        ("lease-held", errors.LeaseHeld), ("lease-gone", errors.LeaseGone),
        ("not-eligible", errors.NotEligible), ("not-preferred", errors.NotPreferred),
        ("body-too-large", errors.Refused),
    ],
)  # fmt: skip
def test_each_refusal_has_its_type(slug: str, kind: type[Exception]):
    assert type(told(slug)) is kind


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        # a destination may speak problem+json, and may even name one of our problems
        ({"Content-Type": PROBLEM, "Fence-Verdict": "forwarded"}, {"type": "/problems/stale-term"}),
        ({"Content-Type": PROBLEM, "Fence-Verdict": "replayed"}, {"type": "/problems/in-flight"}),
        ({"Content-Type": PROBLEM, "Fence-Verdict": "would-refuse; reason=stale-term"},
         {"type": "/problems/stale-term"}),
        ({"Content-Type": PROBLEM}, {"type": "https://crm.example/errors/stale-term"}),
        ({"Content-Type": PROBLEM}, {"type": "about:blank"}),
        ({"Content-Type": PROBLEM}, ["/problems/stale-term"]),
        ({"Content-Type": "application/json"}, {"type": "/problems/stale-term"}),
        ({"Content-Type": "application/json", "Fence-Verdict": "refused; reason=stale-term"}, {}),
        ({}, {"type": "/problems/stale-term"}),
    ],
)  # fmt: skip
def test_an_answer_of_the_destination_is_never_an_error(headers: dict[str, str], content: Any):
    assert error_for(412, headers, json.dumps(content).encode()) is None


def test_the_verdict_names_the_problem_where_the_body_was_lost():
    error = error_for(
        412, {"content-type": PROBLEM, "fence-verdict": "refused; reason=stale-term"}, b"\xff{"
    )

    assert type(error) is errors.StaleTerm


def test_how_long_to_wait_is_taken_from_milliseconds_seconds_or_the_header():
    def wait_s(members: dict[str, Any], **headers: str) -> float | None:
        body = json.dumps({"type": "/problems/busy"} | members).encode()
        error = error_for(503, {"Content-Type": PROBLEM} | headers, body)
        assert error is not None
        return error.retry_after_s

    assert wait_s({"retry_after_ms": 1500, "retry_after_s": 2}) == 1.5
    assert wait_s({"retry_after_s": 2}) == 2
    assert wait_s({}, **{"Retry-After": "7"}) == 7
    assert wait_s({}, **{"Retry-After": "Mon, 30 Nov 2026 00:00:00 GMT"}) is None


def test_only_errors_of_ours_are_retryable():
    assert not is_retryable(TimeoutError())
    assert not is_retryable(LeadershipLost())
    assert is_retryable(errors.GatewayUnreachable())


def test_what_was_never_sent_has_no_effect_and_what_got_no_answer_an_unknown_one():
    assert errors.NotReached().effect == "none"
    assert errors.GatewayUnreachable().effect == "unknown"
    assert LeadershipLost().effect == "none"


@pytest.mark.parametrize(
    "error", [told("outcome-unknown"), LeadershipLost(message="gone", reason="margin")]
)
def test_errors_cross_process_borders_whole(error: errors.FencegateError):
    back = pickle.loads(pickle.dumps(error))

    assert (type(back), str(back), back.facts) == (type(error), str(error), error.facts)
    assert getattr(back, "reason", None) == getattr(error, "reason", None)
