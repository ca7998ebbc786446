"""Who may lead, and who should: the same everywhere, whatever order the reports came in."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.candidates import (
    Candidate,
    CoolOff,
    Eligibility,
    Upgrades,
    Version,
    VersionRange,
    cooling,
    is_fresh,
    rank,
    why_not,
    worker_name,
)
from gateway.core.errors import Malformed

NOW = 1_000_000
FRESH_FOR = 13_000
THREE_IN_TEN = CoolOff(losses=3, within_ms=10_000, lasts_ms=5_000)

ASCENDING = [
    "2025.12", "2026.9", "2026.10-1", "2026.10-alpha", "2026.10-alpha.1", "2026.10b2", "2026.10rc2",
    "2026.10-rc10", "2026.10", "2026.10.0.1", "2026.10.0.2-hotfix", "2026.10.1rc1",
    "2026.10.1", "2026.10.2", "2026.11", "2027-rc1", "2027",
]  # fmt: skip
SAME = [
    ("2026.10", "2026.10.0"),
    ("2026.10", "v2026.10"),
    ("2026.10", "2026.010"),
    ("2026.10+a1b2c3", "2026.10"),
    ("2026.10-rc1", "2026.10rc1"),
    ("2026.10-rc.1", "2026.10.RC1"),
    ("0", "0.0.0"),
]
UNREADABLE = [
    "", "latest", "2026.x", "2026..10", "2026.10.", "-1", "2026.10-", "2026.10 ", "\uff11.2",
    "2026.10hotfix", "2026.1ox", "2026.10-rc_1", "1.2.3.4.5.6.7.8.9", "1" * 10,
    "1-" + "a" * 100, "2026.10\n", "1-\u212a",
]  # fmt: skip


def candidate(holder: str = "worker-a#1", **changes) -> Candidate:
    return replace(Candidate(holder, "p", "2026.10", "br", reported_at_ms=NOW), **changes)


def ranked(*candidates: Candidate, **rules) -> list[str]:
    return [one.holder for one in rank(candidates, Eligibility(**rules), NOW, FRESH_FOR)]


def test_versions_have_their_order():
    assert [Version.parse(text) for text in ASCENDING] == sorted(map(Version.parse, ASCENDING))
    assert len(set(map(Version.parse, ASCENDING))) == len(ASCENDING)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_spellings_of_a_version_are_one(one, other):
    assert Version.parse(one) == Version.parse(other)


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_version_that_cannot_be_read_says_so_and_lies_in_no_range(text):
    with pytest.raises(Malformed, match="dotted numbers"):
        Version.parse(text)
    assert not VersionRange.parse("!=1").contains(text)


@pytest.mark.parametrize(
    ("text", "within", "without"),
    [
        (">=2026.10", ["2026.10", "2026.10.0", "2027"], ["2026.9", "2026.10-rc1", "2026.9.99"]),
        (">2026.10", ["2026.10.1", "2026.11rc1"], ["2026.10", "2026.10.0", "2026.10rc1"]),
        ("<=2026.10", ["2026.10", "2026.10-rc1", "2026.9"], ["2026.10.1"]),
        ("<2027", ["2026.12.31", "1"], ["2027", "2027.0", "2027-rc1", "2027.0.0-rc1", "2028"]),
        ("<2027-rc2", ["2027-rc1", "2026"], ["2027-rc2", "2027"]),
        (">=2026.10,<2027", ["2026.10", "2026.99"], ["2026.9", "2027", "2027rc1"]),
        (">= 2026.10 , < 2027", ["2026.10"], ["2027"]),
        ("==2026.10", ["2026.10", "v2026.10.0+a"], ["2026.10.1", "2026.10rc1"]),
        ("==2026.10.*", ["2026.10", "2026.10.7", "2026.10-rc1"], ["2026.1", "2026.100", "2026"]),
        ("==2026.0.*", ["2026", "2026.0.3"], ["2026.1"]),
        ("!=2026.10.3", ["2026.10.2", "2026.10.3rc1"], ["2026.10.3", "2026.10.3.0"]),
        (">=2026,!=2026.10.*", ["2026.9", "2026.11"], ["2026.10", "2026.10.5", "2025"]),
    ],
)
def test_a_range_has_the_versions_that_it_says(text, within, without):
    versions = VersionRange.parse(text)

    assert [one for one in within if not versions.contains(one)] == []
    assert [one for one in without if versions.contains(one)] == []
    assert str(versions) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no condition"),
        ("2026.10", "'2026.10' is no condition"),
        ("~=2026.10", "'~=2026.10' is no condition"),
        (">=2026.10,", "'' is no condition"),
        (">=latest", "'latest' cannot be read"),
        (">=2026.*", r"a \* stands at the end of == or !="),
        ("==2026.*.1", r"a \* stands at the end of == or !="),
        ("==2026.10*", r"a \* stands at the end of == or !="),
        (">=2027,<2026", "no version is in '>=2027,<2026'"),
        (">2026,<=2026", "no version is in"),
        (">=2027-rc1,<2027", "no version is in"),
        ("==2026,==2027", "no version is in"),
        ("==2026.10.*,>=2026.11", "no version is in"),
        ("==2026.10.*,<2026.9", "no version is in"),
        (">=" + "1" * 200, "a range of 202 characters is too long"),
    ],
)
def test_a_range_that_cannot_be_meant_is_malformed(text, said):
    with pytest.raises(Malformed, match=said):
        VersionRange.parse(text)


@pytest.mark.parametrize(
    ("changes", "rules", "reason"),
    [
        ({}, {}, None),
        ({"version": "", "region": ""}, {}, None),
        ({}, {"versions": ">=2026.10", "regions": {"br", "us"}}, None),
        ({"ready": False}, {}, "'worker-a#1' reports ready: false"),
        (
            {"version": "2026.9"},
            {"versions": ">=2026.10"},
            "'worker-a#1' runs version '2026.9', and the function wants '>=2026.10'",
        ),
        (
            {"version": ""},
            {"versions": ">=2026.10"},
            "'worker-a#1' reports no version, and the function wants '>=2026.10'",
        ),
        (
            {"version": "main"},
            {"versions": ">=2026.10"},
            "'worker-a#1' reports the version 'main'; a version is dotted numbers, "
            "such as 2026.10.1 or 2026.10-rc1",
        ),
        (
            {"region": "eu"},
            {"regions": {"us", "br"}},
            "'worker-a#1' is in region 'eu', and the function wants br or us",
        ),
        (
            {"region": ""},
            {"regions": {"br"}},
            "'worker-a#1' reports no region, and the function wants br",
        ),
    ],
)
def test_a_candidate_that_may_not_lead_gets_one_sentence(changes, rules, reason):
    versions = VersionRange.parse(rules["versions"]) if "versions" in rules else None
    regions = frozenset(rules["regions"]) if "regions" in rules else None

    assert why_not(candidate(**changes), Eligibility(versions, regions)) == reason


def test_a_report_counts_until_it_is_no_longer_fresh():
    assert is_fresh(candidate(), NOW + FRESH_FOR - 1, FRESH_FOR)
    assert not is_fresh(candidate(), NOW + FRESH_FOR, FRESH_FOR)


def test_only_fresh_and_eligible_candidates_are_ranked():
    stale = candidate("b#1", reported_at_ms=NOW - FRESH_FOR)

    assert ranked(candidate("a#1", ready=False), stale, candidate("c#1")) == ["c#1"]
    assert ranked() == []


def test_each_rule_of_the_order_counts_only_where_those_before_it_are_even():
    hung = (NOW - 3, NOW - 2, NOW - 1)
    best = [
        candidate("z#1", version="2027"),  # preferred
        candidate("y#1", version="2027", priority=2),
        candidate("x#1", version="2026.10", priority=1),
        candidate("u#1", version="2026.11", priority=1),
        candidate("v#1", version="2026.11.0", priority=1),  # as old, and later in the alphabet
        candidate("t#1", version="main", priority=1),  # not readable: behind all that are
        candidate("a#1", priority=9, losses=hung),
    ]

    assert ranked(*reversed(best), preferred="z", cool_off=THREE_IN_TEN) == [
        one.holder for one in best
    ]


def test_upgrades_decide_whether_the_oldest_or_the_newest_leads():
    three = [candidate("a#1", version=""), candidate("b#1", version="2026.9"), candidate("c#1")]

    assert ranked(*three) == ["b#1", "c#1", "a#1"]
    assert ranked(*three, upgrades=Upgrades.NEWEST_FIRST) == ["c#1", "b#1", "a#1"]


def test_a_preference_is_for_a_worker_whatever_its_incarnation():
    assert ranked(candidate("a#1"), candidate("b#77"), preferred="b") == ["b#77", "a#1"]
    assert ranked(candidate("a#1"), candidate("bb#1"), preferred="b") == ["a#1", "bb#1"]
    assert worker_name("b") == "b"
    assert worker_name("b#7#8") == "b"


@pytest.mark.parametrize(
    ("losses", "left"),
    [
        ((), 0),
        ((NOW - 2, NOW - 1), 0),
        ((NOW - 10_000, NOW - 5_000, NOW), 5_000),
        ((NOW - 10_001, NOW - 5_000, NOW), 0),
        ((NOW - 5_000, NOW - 5_000, NOW - 4_999), 1),
        ((NOW - 5_002, NOW - 5_001, NOW - 5_000), 0),
        ((NOW - 4_000, NOW - 3_000, NOW - 2_000, NOW + 0), 5_000),
        ((NOW - 90_000, NOW - 4_000, NOW - 3_000, NOW - 2_000), 3_000),
    ],
)
def test_enough_losses_within_the_time_cool_a_candidate_off(losses, left):
    assert cooling(candidate(losses=losses), Eligibility(cool_off=THREE_IN_TEN), NOW) == left
    assert cooling(candidate(losses=losses), Eligibility(), NOW) == 0


def test_a_candidate_that_cools_off_leads_if_it_is_alone():
    assert ranked(candidate("a#1", losses=(NOW,)), cool_off=CoolOff(1, 1, 1)) == ["a#1"]


NUMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda n: ".".join(map(str, n)))
VERSIONS = st.builds(
    str.__add__, NUMBERS, st.sampled_from(["", "", "rc1", "-rc.2", "-rc10", "-1", ".dev0", "+b7"])
)
PARSED = VERSIONS.map(Version.parse)
HOLDERS = st.builds("{}#{}".format, st.sampled_from("abc"), st.integers(1, 3))
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        HOLDERS,
        st.just("p"),
        VERSIONS | st.sampled_from(["", "main"]),
        st.sampled_from(["", "br", "us"]),
        st.booleans(),
        st.integers(-1, 1),
        st.sampled_from([NOW - FRESH_FOR, NOW - FRESH_FOR + 1, NOW]),
        st.lists(st.integers(NOW - 20_000, NOW), max_size=4).map(tuple),
    ),
    max_size=6,
    unique_by=lambda one: one.holder,
)
RULES = st.builds(
    Eligibility,
    st.none() | st.sampled_from([">=1", "<2", "==1.*", "!=0"]).map(VersionRange.parse),
    st.none() | st.just(frozenset({"br"})),
    st.none() | st.sampled_from("abc"),
    st.sampled_from(Upgrades),
    st.none() | st.builds(CoolOff, st.integers(1, 3), st.just(10_000), st.just(5_000)),
)


@given(PARSED, PARSED, PARSED)
def test_the_order_of_versions_is_total(a, b, c):
    assert (a < b) + (a == b) + (a > b) == 1
    assert not (a <= b and b <= c) or a <= c
    assert (a <= b and b <= a) == (a == b)


@given(VERSIONS, VERSIONS)
def test_a_version_is_on_one_side_of_a_bound(version, bound):
    lower, least, equal = (
        VersionRange.parse(f"{operator}{bound}").contains(version) for operator in ("<", ">=", "==")
    )

    assert not (lower and least)
    assert not equal or least
    if Version.parse(bound).numbers != Version.parse(version).numbers:
        assert lower or least


@given(VERSIONS)
def test_what_comes_before_a_release_of_a_bound_is_neither_below_nor_above_it(bound):
    numbers = bound.partition("+")[0]
    if Version.parse(numbers).released:
        assert not VersionRange.parse(f"<{numbers}").contains(f"{numbers}-rc1")
        assert not VersionRange.parse(f">={numbers}").contains(f"{numbers}-rc1")


@given(CANDIDATES, RULES, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_reports(candidates, rules, chance):
    shuffled = chance.sample(candidates, len(candidates))

    assert rank(shuffled, rules, NOW, FRESH_FOR) == rank(candidates, rules, NOW, FRESH_FOR)


@given(CANDIDATES, RULES)
def test_everyone_who_may_lead_is_ranked_once_and_nobody_else(candidates, rules):
    best = rank(candidates, rules, NOW, FRESH_FOR)

    assert sorted(one.holder for one in best) == sorted(
        one.holder
        for one in candidates
        if is_fresh(one, NOW, FRESH_FOR) and why_not(one, rules) is None
    )


@given(CANDIDATES, RULES)
def test_the_order_of_two_does_not_depend_on_who_else_is_there(candidates, rules):
    best = rank(candidates, rules, NOW, FRESH_FOR)

    for one, other in pairwise(best):
        assert rank([other, one], rules, NOW, FRESH_FOR) == [one, other]


@given(CANDIDATES, RULES, st.integers(0, 60_000))
def test_a_preferred_candidate_that_is_stale_never_ranks_first(candidates, rules, since):
    best = rank(candidates, rules, NOW + since, FRESH_FOR)

    assert all(is_fresh(one, NOW + since, FRESH_FOR) for one in best)


@given(CANDIDATES, RULES)
def test_a_preferred_candidate_that_may_lead_and_does_not_cool_off_ranks_first(candidates, rules):
    best = rank(candidates, rules, NOW, FRESH_FOR)

    if any(
        worker_name(one.holder) == rules.preferred and not cooling(one, rules, NOW) for one in best
    ):
        assert worker_name(best[0].holder) == rules.preferred
