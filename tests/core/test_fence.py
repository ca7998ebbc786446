"""The fence's order of precedence, row by row, and what holds in every situation."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core import fence
from gateway.core.effect import Outcome
from gateway.core.fence import Admit, Refusal, Refuse, Replay, Wait
from tests.core.fence_table import (
    EXTERNAL,
    EXTERNAL_ROWS,
    KEY,
    LEASE,
    LEASE_ROWS,
    NOW_MS,
    ROWS,
    TERM,
    Changes,
    World,
    mistakes,
    verdict,
    worst_wins,
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [pytest.param(changes, expected, id=name) for name, changes, expected in ROWS],
)
def test_the_fence_decides_as_the_table_says(changes: Changes, expected: str):
    assert verdict(fence, changes) == expected


def test_the_table_finds_no_mistake_in_the_fence():
    assert mistakes(fence) == []


def test_no_two_rows_of_the_table_have_one_name():
    names = [name for name, _, _ in ROWS]

    assert len(set(names)) == len(names)


def test_every_refusal_is_tested_in_its_order_of_precedence():
    order = list(Refusal)
    tables = [[Refusal(name) for name, _, _ in rows] for rows in (LEASE_ROWS, EXTERNAL_ROWS)]

    for table in tables:
        assert table == sorted(table, key=order.index)
    assert sorted(set(tables[0] + tables[1]), key=order.index) == order
    # the two authorities differ in their own rules alone
    assert set(tables[0]) ^ set(tables[1]) == {
        Refusal.TERM_NEVER_ISSUED,
        Refusal.NOT_HOLDER,
        Refusal.LEASE_EXPIRED,
        Refusal.LEADER_DRAINING,
        Refusal.TERM_JUMP,
        Refusal.TERM_CONTESTED,
    }


@pytest.mark.parametrize("rules", [LEASE, EXTERNAL], ids=["lease", "external"])
def test_of_all_rules_broken_at_once_the_worst_is_named(rules: list[tuple[str, Changes]]):
    always = {"authority": "lease" if rules is LEASE else "external"}
    for count in range(1, len(rules) + 1):
        for broken in combinations(rules, count):
            said = verdict(fence, always | worst_wins(broken))

            assert said == f"refuse {broken[0][0]}", [name for name, _ in broken]


@pytest.mark.parametrize("refusal", [name for name, _ in KEY])
def test_a_refusal_because_of_the_key_hands_over_the_effect_under_it(refusal: str):
    world = World(**dict(KEY)[refusal])

    decision = fence.decide(world.attempt(fence), world.view(fence))

    assert isinstance(decision, Refuse)
    assert decision.prior == world.view(fence).prior


def test_a_refusal_for_another_reason_says_nothing_of_the_effect():
    world = World(prior="rejected", draining=True)

    decision = fence.decide(world.attempt(fence), world.view(fence))

    assert decision == Refuse(Refusal.LEADER_DRAINING)


@given(
    st.builds(
        World,
        authority=st.sampled_from(list(fence.Authority)),
        callers=st.sampled_from(list(fence.Callers)),
        term=st.integers(1, 9),
        holder=st.sampled_from(["ana#1", "bo#1"]),
        body=st.sampled_from([b"the request", b"another request"]),
        on_duplicate=st.sampled_from(list(fence.OnDuplicate)),
        max_term_jump=st.none() | st.integers(0, 3),
        registered_units=st.booleans(),
        highest_term=st.integers(0, 9),
        seen_holder=st.sampled_from([None, "ana#1", "bo#1"]),
        last_term=st.integers(0, 9),
        granted_to=st.sampled_from([None, "ana#1", "bo#1"]),
        is_grantee=st.booleans(),
        expires_at_ms=st.integers(NOW_MS - 1, NOW_MS + 1),
        draining=st.booleans(),
        has_claim=st.booleans(),
        unit=st.sampled_from([None, "open", "closed"]),
        prior=st.sampled_from([None, "in-flight", "abandoned", *Outcome]),
        rejected=st.integers(18, 21),
        open=st.lists(
            st.tuples(
                st.sampled_from(["e-0", "e-9"]),
                st.integers(1, 9),
                st.integers(NOW_MS - 1, NOW_MS + 1),
            ),
            max_size=2,
        ).map(tuple),
    )
)
@settings(max_examples=400, deadline=None, database=None)
def test_no_situation_lets_through_what_the_promises_forbid(world: World):
    decision = fence.decide(world.attempt(fence), world.view(fence))

    higher = world.term > world.highest_term
    if world.term < world.highest_term:
        assert decision == Refuse(Refusal.STALE_TERM)
    assert decision.raises_term in (False, higher)
    if isinstance(decision, Admit | Replay | Wait):
        assert decision.raises_term is higher
        if world.authority == "lease":
            assert world.term <= world.last_term
            assert world.holder == world.granted_to or world.callers != "leader"
            if world.holder == world.granted_to:
                assert world.is_grantee or world.callers == "any"
    if isinstance(decision, Admit | Wait):
        assert world.prior in (None, "rejected", "no-effect")
        assert world.unit != "closed"
        if world.authority == "lease":
            assert world.granted_to is not None
            assert world.expires_at_ms > NOW_MS
    unsealed = [one for one in world.open if one[1] < world.term and one[2] > NOW_MS]
    if isinstance(decision, Admit):
        assert not unsealed
    if isinstance(decision, Wait):
        assert unsealed
    if isinstance(decision, Replay):
        assert world.prior == "confirmed"
        assert world.body == b"the request"


@given(st.integers(0, TERM), st.integers(TERM, 2**53 - 1))
@settings(max_examples=50, deadline=None, database=None)
def test_the_live_leader_is_always_heard_with_a_fresh_key(highest_term: int, last_term: int):
    world = World(highest_term=highest_term, last_term=last_term)

    decision = fence.decide(world.attempt(fence), world.view(fence))

    assert decision == Admit(1, raises_term=highest_term < TERM)
