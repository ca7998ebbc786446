"""A function's words: who grants its terms, how long a lease lasts, and who may lead."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.candidates import CoolOff, Eligibility, Upgrades
from gateway.core.fence import Authority, Callers
from gateway.core.lease import LeaseRules
from gateway.core.policy import Function
from gateway.wire.policy_complaint import Sheet
from gateway.wire.policy_file import Loaded, load_policies
from gateway.wire.policy_function import (
    LONGEST_TTL_MS,
    SHORTEST_TTL_MS,
    build_function,
)

LEASED = "function: sweep\nauthority: lease\n"


def load(folder: Path, text: str) -> Loaded:
    (folder / "sweep.yaml").write_text(text)
    return load_policies(folder, env={})


def good(folder: Path, text: str) -> Function:
    loaded = load(folder, text)
    assert loaded.complaints == ()
    assert loaded.policies is not None
    return loaded.policies.functions["sweep"]


def build(**lease: str) -> tuple[Function | None, Sheet]:
    sheet = Sheet("sweep.yaml")
    data = {"function": "sweep", "authority": "lease", "lease": lease}
    return build_function(data, sheet, "sweep.yaml", "d"), sheet


def test_every_word_of_a_lease_arrives_where_the_house_looks_for_it(tmp_path):
    sweep = good(
        tmp_path,
        LEASED
        + "leadership: unit\ncallers: any\n"
        + "lease: {ttl: 30s, renew_every: 6s, margin: 4s}\n"
        + 'eligible: {versions: ">=2026.10", regions: [br-southeast, us], preferred: worker-a,\n'
        + "  upgrades: newest-first, cool_off: {losses: 3, within: 10m, lasts: 5m}}\n"
        + "exceptions: {owner: ops, deadline: 4h}\n",
    )

    assert (sweep.rules.authority, sweep.rules.callers) == (Authority.LEASE, Callers.ANY)
    assert (sweep.rules.max_term_jump, sweep.per_unit) == (None, True)
    assert sweep.lease == LeaseRules(30_000, 6_000, 4_000, prefer_for_ms=6_000, fresh_for_ms=16_000)
    assert str(sweep.eligible.versions) == ">=2026.10"
    assert sweep.eligible.regions == {"br-southeast", "us"}
    assert (sweep.eligible.preferred, sweep.eligible.upgrades) == (
        "worker-a",
        Upgrades.NEWEST_FIRST,
    )
    assert sweep.eligible.cool_off == CoolOff(3, 600_000, 300_000)
    assert (sweep.exceptions_owner, sweep.file) == ("ops", "sweep.yaml")


@pytest.mark.parametrize(
    ("words", "times"),
    [
        ("", (20_000, 5_000, 3_000, 5_000, 13_000)),
        ("lease: {}\n", (20_000, 5_000, 3_000, 5_000, 13_000)),
        ("lease: {ttl: 60s}\n", (60_000, 15_000, 9_000, 15_000, 39_000)),
        ("lease: {renew_every: 2s}\n", (20_000, 2_000, 3_000, 2_000, 7_000)),
        ("lease: {ttl: 1s, margin: 100ms}\n", (1_000, 250, 100, 250, 600)),
    ],
)
def test_times_that_are_left_out_follow_from_the_ttl(tmp_path, words, times):
    assert good(tmp_path, LEASED + words).lease == LeaseRules(*times)


def test_a_lease_asks_nothing_of_candidates_unless_told_to(tmp_path):
    assert good(tmp_path, LEASED).eligible == Eligibility()


def test_an_outside_authority_has_no_lease(tmp_path):
    sweep = good(tmp_path, "function: sweep\nauthority: external\nmax_term_jump: 9\n")

    assert sweep.lease is None
    assert (sweep.rules.authority, sweep.rules.max_term_jump) == (Authority.EXTERNAL, 9)


def test_losses_of_several_units_may_come_at_once(tmp_path):
    words = "eligible: {cool_off: {losses: 4, within: 10s, lasts: 5m}}\n"

    assert load(tmp_path, LEASED + words).policies is None
    assert good(tmp_path, LEASED + "leadership: unit\n" + words).eligible.cool_off is not None


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    text = LEASED + (
        "lease: {ttl: 10s, renew_every: 5s}\n"
        "max_term_jump: 3\n"
        "eligible: {regions: [br, br], cool_off: {losses: 9, within: 1s, lasts: 1s}}\n"
    )

    loaded = load(tmp_path, text)

    assert loaded.policies is None
    assert [one.line for one in loaded.complaints] == [3, 4, 5, 5]


def test_times_at_their_limits_are_refused_and_just_inside_are_not():
    # 2 * 1.1 * 5s + 3s = 14s
    assert build(ttl="14s", renew_every="5s", margin="3s")[0] is None
    assert build(ttl="14001ms", renew_every="5s", margin="3s")[0] is not None
    assert build(ttl="24h")[0] is not None
    assert build(ttl="86400001ms")[0] is None
    assert build(ttl="999ms", renew_every="100ms", margin="1ms")[0] is None
    assert build(ttl="1s", renew_every="99ms", margin="1ms")[0] is None
    assert build(ttl="1s", renew_every="100ms", margin="1ms")[0] is not None


@given(st.integers(SHORTEST_TTL_MS, LONGEST_TTL_MS))
def test_the_times_that_follow_from_a_ttl_always_fit(ttl):
    function, sheet = build(ttl=f"{ttl}ms")

    assert sheet.complaints == []
    assert function is not None


MS = st.integers(1, 200_000)


@given(MS, MS, MS)
def test_times_load_only_if_one_renewal_may_fail(ttl, renew_every, margin):
    function, sheet = build(ttl=f"{ttl}ms", renew_every=f"{renew_every}ms", margin=f"{margin}ms")

    needed = 2 * Fraction(11, 10) * renew_every + margin
    fit = ttl > needed and ttl >= 1_000 and renew_every >= 100
    assert (function is not None) == fit
    assert len(sheet.complaints) == (0 if fit else 1)
