"""Reconciliation, row by row, and what holds in every situation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core import reconcile
from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.guards import Guard
from gateway.core.probe import Verdict
from gateway.core.reconcile import OpenException, Probe, Resend, Settle, Unsolved, WaitUntil
from tests.core.reconcile_table import ROWS, Changes, mistakes, verdict
from tests.core.reconcile_world import TERM, World


@pytest.mark.parametrize(
    ("changes", "expected"),
    [pytest.param(changes, expected, id=name) for name, changes, expected in ROWS],
)
def test_the_next_step_is_as_the_table_says(changes: Changes, expected: str):
    assert verdict(reconcile, changes) == expected


def test_the_table_finds_no_mistake_in_reconciliation():
    assert mistakes(reconcile) == []


def test_no_two_rows_of_the_table_have_one_name():
    names = [name for name, _, _ in ROWS]

    assert len(set(names)) == len(names)


def test_every_reason_for_an_exception_is_tested():
    said = {step.removeprefix("exception ") for _, _, step in ROWS if "exception" in step}

    assert said == {reason.value for reason in Unsolved}


outcomes = st.sampled_from(["unknown", "unknown", "rejected", "no-effect"])
instants = st.integers(0, 400_000)


@st.composite
def attempts(draw: Any) -> tuple[Any, ...]:
    began = draw(instants)
    deadline = began + draw(st.integers(1, 60_000))
    seal = deadline + draw(st.integers(0, 10_000))
    ended = draw(st.none() | st.integers(began, deadline))
    reason = draw(st.sampled_from(["status-503", "rule-1", "rule-2", "key-busy", "key-misused"]))
    return began, deadline, seal, ended, draw(outcomes), reason, draw(st.integers(5, 9))


@st.composite
def worlds(draw: Any) -> World:
    verdicts = st.sampled_from([None, *(one.value for one in Verdict)])
    probes = st.tuples(instants, verdicts, st.integers(6, 7), st.sampled_from([None, True, False]))
    return World(
        guard=draw(st.sampled_from(list(Guard))).value,
        tries=tuple(draw(st.lists(attempts(), min_size=1, max_size=4))),
        probes=tuple(sorted(draw(st.lists(probes, max_size=5)), key=lambda one: one[0])),
        now_ms=draw(st.integers(0, 500_000)),
        live_term=draw(st.sampled_from([None, 6, TERM, 8])),
        overtaken=draw(st.booleans()),
        key_supported=draw(st.sampled_from([None, True, False])),
        look=draw(st.booleans()),
        if_still_missing=draw(st.sampled_from([None, "resend", "park"])),
        window_ms=draw(st.sampled_from([None, 300_000, 10_000_000])),
        at_once=draw(st.sampled_from([None, 1])),
        asks_support=draw(st.booleans()),
        exact=draw(st.booleans()),
        harmless=draw(st.booleans()),
    )


@given(worlds())
@settings(max_examples=1500, deadline=None, database=None)
def test_nothing_is_sent_or_denied_without_its_proof(world: World):
    step = reconcile.next_step(world.case(reconcile))

    unknown = [one for one in world.tries if one[4] == "unknown"]
    sealed_ms = max((one[2] for one in unknown), default=0)
    reasons = {one[5] for one in world.tries}
    match step:
        case Settle(Outcome.CONFIRMED, by):
            assert by is ResolvedBy.PROBE
            assert "found" in [one[1] for one in world.probes]
        case Settle(Outcome.NO_EFFECT, ResolvedBy.PROBE, probes, resend):
            first, second = probes
            assert first.started_at_ms >= sealed_ms + world.settle_ms
            assert second.started_at_ms - first.started_at_ms >= 1_000
            assert {first.term, second.term} == {world.term}
            assert first.verdict is second.verdict is Verdict.MISSING
            assert not world.overtaken
            assert not resend or not reasons & {"rule-2", "key-misused"}
            assert not resend or world.live_term is not None
        case Settle():
            assert not unknown
        case Resend(same_as):
            assert world.guard in ("native_key", "repeat", "version")
            assert not world.overtaken
            assert not reasons & {"rule-2", "key-misused"}
            assert world.live_term is not None
            assert world.live_term >= max(one[6] for one in world.tries)
            assert (same_as is not None) == (world.guard == "native_key")
            if world.guard != "native_key" or world.at_once == 1:
                assert world.now_ms >= sealed_ms
        case Probe():
            assert world.look
        case WaitUntil(at_ms):
            assert at_ms > world.now_ms
        case OpenException():
            assert unknown


@given(worlds(), st.sampled_from(["missing", "other", "error", "rejected"]))
@settings(max_examples=300, deadline=None, database=None)
def test_every_case_ends(world: World, answer: str):
    """A destination that always says the same: whatever it says, there is an end."""
    tries, probes, now = list(world.tries), list(world.probes), world.now_ms
    for _ in range(80):
        changes = {name: getattr(world, name) for name in world.__dataclass_fields__}
        changes |= {"tries": tuple(tries), "probes": tuple(probes), "now_ms": now}
        step = reconcile.next_step(World(**changes).case(reconcile))
        match step:
            case Settle() | OpenException():
                return
            case WaitUntil(at_ms):
                # nobody leads, and the hour is long: do not count it in five seconds
                now = now + 3_700_000 if at_ms == now + 5_000 else at_ms
            case Probe(not_before_ms):
                now = max(now, not_before_ms)
                probes.append((now, answer if answer != "rejected" else "missing", TERM, None))
            case Resend():
                outcome = "rejected" if answer == "rejected" else "unknown"
                tries.append((now, now + 10, now + 20, now + 5, outcome, "status-500", TERM))
    raise AssertionError(f"no end after 80 steps: {step}")
