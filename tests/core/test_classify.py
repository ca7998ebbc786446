"""From what came back to what we know: the default table, and what rules change of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.core.classify import Meaning, Reply, Silence, classify, needs_body
from gateway.core.effect import Outcome
from gateway.core.jsonpath import Path
from gateway.core.match import Match
from gateway.core.policy import Destination, Does, Expect, Is, Route, Rule, SlowDown, Test
from gateway.core.template import RequestValues, Template

VALUES = RequestValues(parts={}, effect="m-1")

# The default outcomes of a write, as docs/http.md has them
CONFIRMED = {*range(200, 300), 303}
REJECTED = {
    400, 402, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 422, 423, 424, 426, 428,
    431, 451, 307, 308,
}  # fmt: skip
NO_EFFECT = {401, 403, 407, 421, 425, 429}


def by_the_table(status: int) -> Outcome:
    for statuses, outcome in (
        (CONFIRMED, Outcome.CONFIRMED),
        (REJECTED, Outcome.REJECTED),
        (NO_EFFECT, Outcome.NO_EFFECT),
    ):
        if status in statuses:
            return outcome
    return Outcome.UNKNOWN


def meaning(
    status: int,
    *rules: Rule,
    body: Any = None,
    json: Callable[[], Any] | None = None,
    slow_down: tuple[SlowDown, ...] = (),
    tried_before: bool = False,
    **headers: str,
) -> Meaning:
    route, destination = policy(rules, slow_down)
    fields = {name.replace("_", "-"): [value] for name, value in headers.items()}
    reply = Reply(status, fields, json or (lambda: body))
    return classify(reply, route, destination, VALUES, tried_before=tried_before)


def policy(
    rules: tuple[Rule, ...] = (), slow_down: tuple[SlowDown, ...] = ()
) -> tuple[Route, Destination]:
    route = Route(
        name="r", match=Match("", frozenset({"POST"}), ()), does=Does.WRITE, results=rules
    )
    destination = Destination(
        name="crm", scheme="http", host="h", port=1, prefix="", digest="", slow_down=slow_down
    )
    return route, destination


def on(*statuses: int) -> Test:
    return Test(status=frozenset(statuses))


def on_json(path: str, *values: Any) -> Test:
    return Test(json=((Path.parse(path), Expect(values=values)),))


def never_json() -> Any:
    raise ValueError("not JSON")


@pytest.mark.parametrize("status", range(200, 600))
def test_without_rules_the_status_means_what_the_design_says(status: int):
    assert meaning(status) == Meaning(by_the_table(status), f"status-{status}")


@pytest.mark.parametrize("status", [100, 101, 199, 600, 999])
def test_a_status_of_no_known_class_proves_nothing(status: int):
    assert meaning(status).outcome is Outcome.UNKNOWN


def test_the_columns_of_the_table_do_not_overlap():
    assert not CONFIRMED & REJECTED
    assert not CONFIRMED & NO_EFFECT
    assert not REJECTED & NO_EFFECT


def test_a_retry_after_makes_no_503_harmless_unless_the_route_says_so():
    vouched = Rule(
        Test(status=frozenset({503}), header=(("retry-after", Expect(present=True)),)), Is.NO_EFFECT
    )

    assert meaning(503, retry_after="5").outcome is Outcome.UNKNOWN
    assert meaning(503, vouched, retry_after="5").outcome is Outcome.NO_EFFECT
    assert meaning(503, vouched).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("tried_before", [False, True])
@pytest.mark.parametrize(("sent", "outcome"), [(True, Outcome.UNKNOWN), (False, Outcome.NO_EFFECT)])
def test_silence_proves_something_only_if_nothing_was_sent(
    sent: bool, outcome: Outcome, tried_before: bool
):
    # no rule speaks about silence, however wide it is
    route, destination = policy((Rule(Test(), Is.CONFIRMED),), (SlowDown(Test()),))

    silence = Silence(sent, "deadline")

    assert classify(silence, route, destination, VALUES, tried_before=tried_before) == Meaning(
        outcome, "deadline"
    )


@pytest.mark.parametrize(
    ("means", "outcome"),
    [
        (Is.CONFIRMED, Outcome.CONFIRMED),
        (Is.REJECTED, Outcome.REJECTED),
        (Is.NO_EFFECT, Outcome.NO_EFFECT),
        (Is.UNKNOWN, Outcome.UNKNOWN),
    ],
)
@pytest.mark.parametrize("status", [200, 404, 500])
def test_a_rule_comes_before_the_table(status: int, means: Is, outcome: Outcome):
    assert meaning(status, Rule(on(status), means)) == Meaning(outcome, "rule-1")


def test_the_first_rule_that_holds_speaks():
    rules = (
        Rule(on(201), Is.CONFIRMED),
        Rule(on_json("ok", True), Is.CONFIRMED),
        Rule(on(200), Is.REJECTED),
        Rule(on(200), Is.UNKNOWN),
    )

    assert meaning(200, *rules, body={"ok": True}) == Meaning(Outcome.CONFIRMED, "rule-2")
    assert meaning(200, *rules, body={"ok": "true"}) == Meaning(Outcome.REJECTED, "rule-3")
    assert meaning(404, *rules, body={}) == Meaning(Outcome.REJECTED, "status-404")


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_a_success_that_no_listed_result_matches_is_unknown(status: int):
    assert meaning(status, Rule(on(201), Is.CONFIRMED)) == Meaning(
        Outcome.UNKNOWN, "no-rule-matched"
    )


@pytest.mark.parametrize("status", [303, 307, 400, 429, 500])
def test_other_answers_that_no_listed_result_matches_mean_what_the_table_says(status: int):
    assert meaning(status, Rule(on(201), Is.CONFIRMED)).outcome is by_the_table(status)


def test_a_body_that_is_no_json_matches_no_rule_on_json():
    rule = Rule(on_json("ok", True), Is.CONFIRMED)

    assert meaning(200, rule, json=never_json) == Meaning(Outcome.UNKNOWN, "no-rule-matched")
    reply = Reply(200, {}, None)
    assert classify(reply, *policy((rule,)), VALUES).outcome is Outcome.UNKNOWN


def test_the_body_is_not_parsed_for_rules_that_do_not_read_it():
    parsed = []

    meaning(200, Rule(on(200), Is.CONFIRMED), json=lambda: parsed.append(1))
    meaning(200, json=lambda: parsed.append(1))

    assert parsed == []


def test_a_slow_down_proves_that_nothing_was_carried_out_and_comes_first():
    slow = (SlowDown(on_json("error", "throttled")), SlowDown(on(503)))

    said = meaning(200, Rule(Test(), Is.CONFIRMED), slow_down=slow, body={"error": "throttled"})
    assert said == Meaning(Outcome.NO_EFFECT, "slow-down")
    assert meaning(503, slow_down=slow, json=never_json).outcome is Outcome.NO_EFFECT
    assert meaning(500, slow_down=slow, body={"error": "x"}).outcome is Outcome.UNKNOWN


def test_already_there_is_our_own_echo_only_if_we_tried_before():
    rule = Rule(on(409), Is.CONFIRMED_IF_TRIED_BEFORE)

    assert meaning(409, rule, tried_before=True).outcome is Outcome.CONFIRMED
    assert meaning(409, rule, tried_before=False).outcome is Outcome.REJECTED
    assert meaning(409, tried_before=True).outcome is Outcome.REJECTED


def test_look_is_unknown_and_asks_for_a_probe():
    assert meaning(200, Rule(on(200), Is.LOOK)) == Meaning(Outcome.UNKNOWN, "rule-1", look=True)
    assert not meaning(200, Rule(on(200), Is.UNKNOWN)).look


@pytest.mark.parametrize("means", list(Is))
def test_a_rule_takes_what_it_names_and_raises_its_alarm(means: Is):
    take = (
        ("id", Path.parse("data.id")),
        ("first", Path.parse("all[*]")),
        ("none", Path.parse("data.none")),
        ("gone", Path.parse("data.gone")),
    )
    body = {"data": {"id": 7, "none": None}, "all": ["a", "b"]}

    said = meaning(200, Rule(on(200), means, take, alarm=True), body=body)

    assert said.take == {"id": 7, "first": "a", "none": None}
    assert said.alarm


def test_a_rule_takes_nothing_from_a_body_that_is_no_json():
    rule = Rule(on(200), Is.CONFIRMED, (("id", Path.parse("id")),))

    assert meaning(200, rule, json=never_json) == Meaning(Outcome.CONFIRMED, "rule-1")


@pytest.mark.parametrize(
    ("rules", "slow_down", "needed"),
    [
        ((), (), False),
        ((Rule(on(200), Is.CONFIRMED),), (SlowDown(on(429)),), False),
        ((Rule(on_json("a", 1), Is.CONFIRMED),), (), True),
        ((Rule(Test(same=((Path.parse("a"), Template.parse("{effect}")),)), Is.LOOK),), (), True),
        ((Rule(on(200), Is.CONFIRMED, (("id", Path.parse("id")),)),), (), True),
        ((), (SlowDown(on_json("a", 1)),), True),
    ],
)
def test_a_body_is_needed_where_something_reads_it(
    rules: tuple[Rule, ...], slow_down: tuple[SlowDown, ...], needed: bool
):
    assert needs_body(*policy(rules, slow_down)) is needed
