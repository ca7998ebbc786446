"""Problems: one table, complete, with the statuses of the contract."""

import json

import pytest

from gateway.core.fence import Refusal
from gateway.wire.problem import PROBLEMS, problem_index, problem_page, render

CONTRACT = {
    400: {"malformed", "bad-target"},
    401: {"unauthenticated"},
    403: {"forbidden", "function-unknown", "route-refused"},
    404: {"destination-unknown", "not-found", "item-unknown"},
    405: {"method-unsupported"},
    409: {
        *("in-flight", "duplicate", "result-unavailable", "effect-abandoned"),
        *("attempts-exhausted", "lease-held", "version-conflict", "too-early"),
        *("not-eligible", "not-preferred", "not-claimed", "unit-taken", "unit-unfinished"),
    },
    410: {"lease-gone"},
    412: {
        *("stale-term", "term-never-issued", "lease-expired", "not-holder", "leader-draining"),
        *("term-contested", "term-jump", "unit-closed", "unit-unknown"),
    },
    413: {"body-too-large"},
    417: {"expectation-failed"},
    422: {"key-reused"},
    423: {"outcome-unknown"},
    425: {"early-data"},
    428: {"fence-missing"},
    500: {"internal"},
    501: {"not-implemented"},
    502: {"destination-unreachable"},
    503: {"predecessor-in-flight", "busy", "draining", "ledger-unavailable"},
    505: {"http-version-unsupported"},
}


def body_of(rendered):
    return json.loads(rendered.body)


def test_every_status_is_the_contracts():
    by_status = {}
    for slug, problem in PROBLEMS.items():
        by_status.setdefault(problem.status, set()).add(slug)

    assert by_status == CONTRACT


def test_every_refusal_of_the_fence_has_a_problem():
    assert {refusal.slug for refusal in Refusal} <= set(PROBLEMS)


@pytest.mark.parametrize("slug", PROBLEMS)
def test_what_must_not_be_retried_tells_automatic_retries_so(slug):
    problem = PROBLEMS[slug]

    for status in (problem.status, *problem.also):
        headers = dict(render(slug, status=status).headers)
        retried_by_sdks = status in (408, 409, 425, 429) or status >= 500
        if retried_by_sdks and not problem.retry:
            assert headers["X-Should-Retry"] == "false"
        if problem.retry:
            assert problem.same_key
            assert "X-Should-Retry" not in headers


def test_503_promises_that_nothing_was_sent_and_says_when_to_come_back():
    for slug, problem in PROBLEMS.items():
        if problem.status in (502, 503):
            assert problem.effect == "none", slug
            assert problem.retry_after_s, slug


@pytest.mark.parametrize("slug", ["outcome-unknown", "effect-abandoned"])
def test_an_unknown_effect_warns_against_another_key(slug):
    body = body_of(render(slug, facts={"effect_id": "01h"}))

    assert body["effect"] == "unknown"
    assert body["safe_to_retry_same_key"] is False
    assert "Do not retry" in body["detail"]
    assert "another key" in body["detail"]
    assert body["effect_id"] == "01h"


def test_a_problem_carries_its_members_and_facts():
    rendered = render("stale-term", instance="/v1/effects/1", facts={"term": 6, "unit": None})

    assert dict(rendered.headers)["Content-Type"] == "application/problem+json"
    assert rendered.status == 412
    assert body_of(rendered) == {
        "type": "/problems/stale-term",
        "title": PROBLEMS["stale-term"].title,
        "status": 412,
        "detail": PROBLEMS["stale-term"].detail,
        "effect": "none",
        "safe_to_retry_same_key": False,
        "instance": "/v1/effects/1",
        "term": 6,
    }


def test_a_fact_cannot_take_the_place_of_a_standard_member():
    body = body_of(render("malformed", facts={"status": 200, "type": "x"}))

    assert (body["status"], body["type"]) == (400, "/problems/malformed")


def test_what_the_caller_knows_better_replaces_the_table():
    body = body_of(
        render("internal", detail="Nothing left.", effect="none", safe_to_retry_same_key=True)
    )

    assert (body["detail"], body["effect"]) == ("Nothing left.", "none")
    assert body["safe_to_retry_same_key"] is True


@pytest.mark.parametrize(("given_s", "said"), [(0, 1), (0.2, 1), (4.1, 5), (None, 2)])
def test_retry_after_is_whole_seconds_in_header_and_member(given_s, said):
    rendered = render("in-flight", retry_after_s=given_s)

    assert dict(rendered.headers)["Retry-After"] == str(said)
    assert body_of(rendered)["retry_after_s"] == said


def test_releasing_as_another_holder_is_a_conflict():
    rendered = render("not-holder", status=409)

    assert (rendered.status, body_of(rendered)["status"]) == (409, 409)
    with pytest.raises(ValueError, match="not-holder"):
        render("not-holder", status=410)


def test_a_problem_is_told_whatever_the_caller_sent():
    rendered = render("malformed", detail="value \udcff", facts={"term": 2**80})

    assert body_of(rendered)["term"] == 2**80


def test_unauthenticated_says_how_to_authenticate():
    assert dict(render("unauthenticated").headers)["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("slug", PROBLEMS)
def test_every_problem_has_a_page_without_foreign_resources(slug):
    page = problem_page(slug)

    assert slug in page
    assert "What to do" in page
    assert "src=" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert f'href="/problems/{slug}"' in problem_index()


def test_an_unknown_problem_has_no_page():
    with pytest.raises(KeyError):
        problem_page("<script>")
