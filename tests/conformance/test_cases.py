"""Exceptions and alerts in the ledger: opened once, decided by one person, told about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.ids import Scope
from gateway.store.case_records import Act, Action, CaseFilter, CaseRecord, NotActed, Opening
from tests.conformance.books import SEAL_MS, TERMS, Books, worker_of

HOUR_MS = 3_600_000


async def opened(store: Books, effect_id: str, **changes: Any) -> CaseRecord:
    given: dict[str, Any] = {
        "effect_id": effect_id, "scope": Scope("report"), "unit": "u-1", "item": None,
        "destination": "crm", "term": 7, "reason": "probes-failed", "detail": "Nobody knows.",
        "owner": "ops", "deadline_ms": HOUR_MS, "evidence": {"request": {"fingerprint": "ab"}},
    }  # fmt: skip
    return await store.ledger.open_case(Opening(**(given | changes)))


async def case(store: Books, case_id: str) -> CaseRecord:
    found = await (await store.ledger.reader()).case(case_id)
    assert found is not None
    return found


async def acted(
    store: Books, known: CaseRecord, action: str, by: str = "olga", **more: Any
) -> NotActed | None:
    version = more.pop("version", known.version)
    given = Act(
        case_id=known.id, action=Action(action), principal=by, reason="seen", version=version,
        **more,
    )  # fmt: skip
    return await store.ledger.act(given, known.effect_id)


async def an_exception(store: Books) -> CaseRecord:
    return await opened(store, await store.settled(Outcome.UNKNOWN))


async def kinds(store: Books) -> list[str]:
    return [one.kind for one in await store.transitions() if one.kind.startswith("exception-")]


def alerts(store: Books) -> list[tuple[str, dict[str, Any]]]:
    found = store.rows("SELECT kind, body FROM alert ORDER BY seq")
    return [(kind, json.loads(body)) for kind, body in found]


async def test_an_effect_has_one_open_exception(store: Books):
    effect_id = await store.settled(Outcome.UNKNOWN)

    first, again = await store.together(opened(store, effect_id), opened(store, effect_id))

    assert again == first
    assert await kinds(store) == ["exception-opened"]
    assert [kind for kind, _ in alerts(store)] == ["exception-opened"]
    assert await (await store.ledger.reader()).open_case_of([effect_id]) == {effect_id: first.id}


async def test_of_two_who_decide_at_once_the_first_is_taken_and_the_other_is_told(store: Books):
    known = await an_exception(store)
    store.clock.advance(ms=SEAL_MS)

    answers = await store.together(
        acted(store, known, "confirm", "olga"), acted(store, known, "not-applied", "otto")
    )

    assert answers == [None, NotActed.VERSION_CONFLICT]
    effect = await store.effect(known.effect_id or "")
    assert (effect.outcome, effect.resolved_by) == (Outcome.CONFIRMED, ResolvedBy.OPERATOR)
    now = await case(store, known.id)
    assert (now.closed_by, now.decision, now.version) == ("olga", "confirm", 2)
    (entry,) = await store.transitions("exception-decided")
    assert (entry.principal, entry.reason) == ("olga", "seen")
    assert (entry.detail or {})["action"] == "confirm"


@pytest.mark.parametrize("action", ["not-applied", "abandon"])
async def test_before_the_seal_nobody_can_rule_it_out(store: Books, action: str):
    known = await an_exception(store)
    store.clock.advance(ms=SEAL_MS - 1)

    assert await acted(store, known, action) is NotActed.BEFORE_SEAL
    assert await case(store, known.id) == known
    store.clock.advance(ms=1)
    assert await acted(store, known, action) is None


@pytest.mark.parametrize(
    ("action", "outcome", "next_time"),
    [
        ("confirm", Outcome.CONFIRMED, "replay"),
        ("not-applied", Outcome.NO_EFFECT, "admit"),
        ("abandon", Outcome.UNKNOWN, "effect-abandoned"),
        ("probe-again", Outcome.UNKNOWN, "outcome-unknown"),
    ],
)
async def test_a_decision_closes_the_exception(
    store: Books, action: str, outcome: Outcome, next_time: str
):
    known = await an_exception(store)
    store.clock.advance(ms=SEAL_MS)

    assert await acted(store, known, action) is None

    now = await case(store, known.id)
    assert (now.closed_at_ms, now.decision) == (store.ledger.clock.now_ms(), action)
    assert now.allowed == []
    assert (await store.effect(known.effect_id or "")).outcome is outcome
    assert await store.ask() == next_time
    assert await acted(store, now, "assign", owner="bo") is NotActed.CLOSED


async def test_probing_again_makes_the_effect_due_at_once(store: Books):
    known = await an_exception(store)
    reader = await store.ledger.reader()
    assert await reader.due(store.ledger.clock.now_ms(), 10) == []

    await acted(store, known, "probe-again")

    assert await reader.due(store.ledger.clock.now_ms(), 10) == [known.effect_id]


async def test_assigning_and_extending_leave_it_open(store: Books):
    known = await an_exception(store)

    assert await acted(store, known, "assign", owner="bo") is None
    assert await acted(store, known, "extend", deadline_ms=1) is NotActed.VERSION_CONFLICT
    store.clock.advance(ms=10)
    now = await case(store, known.id)
    assert await acted(store, now, "extend", deadline_ms=2 * HOUR_MS) is None

    now = await case(store, known.id)
    assert (now.owner, now.acknowledged_by, now.version) == ("bo", "olga", 3)
    assert now.deadline_at_ms == store.ledger.clock.now_ms() + 2 * HOUR_MS
    assert now.closed_at_ms is None


async def test_what_is_overdue_escalates_once_and_again_after_an_extension(store: Books):
    known = await an_exception(store)
    store.clock.advance(ms=HOUR_MS - 1)
    assert await store.ledger.escalate() == []
    store.clock.advance(ms=1)

    assert [one.id for one in await store.ledger.escalate()] == [known.id]
    assert await store.ledger.escalate() == []
    kind, told = alerts(store)[-1]
    assert kind == "exception-overdue"
    assert "ops has not decided" in told["says"]
    assert told["responsible"] == "ops"
    assert told["next_action"]
    assert "Nobody knows." in told["consequence"]

    await acted(store, await case(store, known.id), "extend", deadline_ms=HOUR_MS)
    assert await store.ledger.escalate() == []
    store.clock.advance(ms=HOUR_MS)
    assert len(await store.ledger.escalate()) == 1


@pytest.mark.parametrize("how", ["late answer", "resolve"])
async def test_what_is_settled_otherwise_needs_no_person(store: Books, how: str):
    known = await an_exception(store)
    effect_id = known.effect_id or ""
    reader = await store.ledger.reader()

    if how == "resolve":
        await store.resolve(effect_id, Outcome.CONFIRMED)
        by = "operator"
    else:
        await store.settle(effect_id, Outcome.CONFIRMED)
        assert (await reader.case_census(0)).to_escalate == 1
        await store.ledger.escalate()
        by = "gateway"

    now = await case(store, known.id)
    assert (now.closed_by, now.decision) == (by, "settled: confirmed")
    assert (await kinds(store))[-1] == "exception-closed"
    assert (await reader.case_census(0)).to_escalate == 0


async def test_what_was_rejected_too_often_is_tried_anew_once_somebody_extends(store: Books):
    effect_id = ""
    for n in range(2):
        effect_id = await store.settled(Outcome.REJECTED, body=f"{n}", max_attempts=2)
    known = await opened(store, effect_id, reason="attempts-exhausted")
    assert await store.ask(body="2", max_attempts=2) == "attempts-exhausted"
    await store.ledger.escalate()
    assert (await case(store, known.id)).closed_at_ms is None

    assert await acted(store, known, "confirm") is NotActed.NOT_ALLOWED
    assert await acted(store, known, "extend", deadline_ms=HOUR_MS) is None

    assert (await case(store, known.id)).decision == "extend"
    assert await store.ask(body="2", max_attempts=2) == "admit"


async def test_an_act_on_nothing_or_on_another_effects_exception_is_not_taken(store: Books):
    known = await an_exception(store)
    wrong = Act(case_id="nobody", action=Action.CONFIRM, principal="olga", reason="seen", version=1)

    assert await store.ledger.act(wrong, None) is NotActed.NOT_FOUND
    other = Act(case_id=known.id, action=Action.CONFIRM, principal="olga", reason="seen", version=1)
    assert await store.ledger.act(other, "e-404") is NotActed.NOT_FOUND


async def test_exceptions_are_listed_by_age_in_pages(store: Books):
    ids = []
    for n in range(5):
        function = "sweep" if n == 4 else "report"
        effect_id = await store.settled(Outcome.UNKNOWN, f"k-{n}")
        known = await opened(store, effect_id, scope=Scope(function), unit=f"u-{n}")
        ids.append(known.id)
        store.clock.advance(ms=1 if n % 2 else 0)  # some are of one instant
    reader = await store.ledger.reader()
    listed: list[str] = []
    cursor = None
    while page := await reader.cases(CaseFilter(limit=2, cursor=cursor)):
        listed += [one.id for one in page]
        cursor = page[-1].id

    assert listed == [
        one.id for one in sorted(await reader.cases(CaseFilter()), key=lambda c: c.opened_at_ms)
    ]
    assert sorted(listed) == sorted(ids)

    async def found(**words: Any) -> set[str]:
        return {one.id for one in await reader.cases(CaseFilter(**words))}

    assert await found(function="sweep") == {ids[4]}
    assert await found(unit="u-1") == {ids[1]}
    assert await found(closed=True) == set()
    assert await found(only_functions=frozenset({"sweep"})) == {ids[4]}
    assert await found(only_destinations=frozenset({"erp"})) == set()
    await acted(store, await case(store, ids[0]), "confirm")
    assert await found(closed=True) == {ids[0]}
    census = await reader.case_census(store.ledger.clock.now_ms() + HOUR_MS)
    assert (census.by_reason, census.overdue, census.to_escalate) == ({"probes-failed": 4}, 4, 4)
    assert (census.alerts_waiting, census.oldest_at_ms) == (5, store.ledger.clock.now_ms() - 2)


async def test_alerts_are_sent_in_order_of_birth_and_outlive_a_restart(store: Books):
    for n in range(3):
        await opened(store, await store.settled(Outcome.UNKNOWN, f"k-{n}"))
    await store.reopen()
    reader = await store.ledger.reader()
    now_ms = store.ledger.clock.now_ms()
    due = await reader.alerts_due(now_ms, 10)
    assert [one.seq for one in due] == sorted(one.seq for one in due)
    assert len({one.id for one in due}) == 3
    assert await reader.alerts_new(0, 10) == due

    await store.ledger.alert_sent(due[0].seq, "connect-refused", 500)
    await store.ledger.alert_sent(due[1].seq, None, 0)

    assert await reader.alerts_due(now_ms, 10) == due[2:]
    assert await reader.alerts_new(0, 10) == due[2:]
    again = await reader.alerts_due(now_ms + 500, 10)
    assert [(one.id, one.tries) for one in again] == [(due[0].id, 1), (due[2].id, 0)]


async def test_a_lease_that_expires_over_unfinished_effects_is_an_alert(store: Books):
    lease = await store.leads("ana#1")
    await store.settled(Outcome.UNKNOWN, term=lease.term, holder="ana#1")
    store.clock.advance(seconds=60)
    await store.lapse()

    told = dict(alerts(store))

    lost = told["leader-lost"]
    assert "ana#1 did not renew its lease in time" in lost["says"]
    assert "1 of its effects are unfinished" in lost["consequence"]
    assert lost["responsible"] == "ops-comercial"
    assert (lost["about"]["term"], lost["about"]["function"]) == (1, "report")


async def test_a_scope_that_nobody_may_lead_is_an_alert(store: Books):
    await store.leads("ana#1")
    for _ in range(4):
        store.clock.advance(seconds=60)
        await store.lapse()

    assert [kind for kind, _ in alerts(store)] == ["no-eligible-candidate"]


UNITS = ("may", "june", "july")


async def desert(store: Books, units: Sequence[str], apart_ms: int = 0) -> None:
    """Let somebody lead units and leave all of them behind, some later than others."""
    await store.report("ana#1")
    for unit in units:
        store.clock.advance(ms=apart_ms)
        await store.leads("ana#1", unit=unit)
    for _ in range(120):
        store.clock.advance(seconds=1)
        await store.lapse()


def deserted(told: tuple[str, dict[str, Any]]) -> tuple[str, str | None]:
    assert told[0] == "no-eligible-candidate"
    return told[1]["about"]["function"], told[1]["about"].get("unit")


@pytest.mark.parametrize("apart_ms", [0, 3000])
async def test_a_function_that_is_deserted_with_all_its_units_is_one_alert(
    store: Books, apart_ms: int
):
    await desert(store, UNITS, apart_ms)

    kept = await store.transitions("no-eligible-candidate")
    assert [deserted(each) for each in alerts(store)] == [("report", None)]
    assert sorted(one.unit for one in kept) == sorted(UNITS)


async def test_a_function_that_was_led_and_is_deserted_again_is_another_alert(store: Books):
    await desert(store, UNITS)

    await desert(store, ["may"])

    assert [deserted(each) for each in alerts(store)] == [("report", None)] * 2
    assert len(await store.transitions("no-eligible-candidate")) == len(UNITS) + 1


async def test_a_unit_that_is_deserted_while_another_is_led_is_named(store: Books):
    for unit in ("may", "june"):
        await store.leads("ana#1", unit=unit)
    for _ in range(60):  # it goes on with june, and does not report that it would lead more
        store.clock.advance(seconds=1)
        await store.renew("ana#1", 1, "june")
        await store.lapse()
    assert [deserted(each) for each in alerts(store)] == [("report", "may")]

    for _ in range(60):
        store.clock.advance(seconds=1)
        await store.lapse()

    assert [deserted(each) for each in alerts(store)][1:] == [("report", None)]


async def test_each_function_that_is_deserted_is_an_alert_of_its_own(store: Books):
    both = {"report": TERMS, "sweep": TERMS}
    for function in both:
        ask = worker_of("ana#1")
        scope = Scope(function, "may")
        await store.ledger.acquire(scope, ask, supersede=False, report=None, terms=TERMS)
    for _ in range(4):
        store.clock.advance(seconds=60)
        await store.ledger.lapse(both)

    assert sorted(deserted(each) for each in alerts(store)) == [("report", None), ("sweep", None)]
