"""What a primary says of itself and its standbys, and what that puts at risk."""

from __future__ import annotations

import pytest

from gateway.store.risks import RiskKind, judge

NOBODY = (0, 0, 0, 0)


def told(
    commit: str = "on", names: str = "", counts: tuple[int, int, int, int] = NOBODY, *, fsync="on"
) -> list[tuple[RiskKind, str]]:
    found = judge((fsync, "on", commit, names, *counts, "fencegate"))
    return [(risk.kind, risk.text) for risk in found]


@pytest.mark.parametrize(
    ("commit", "names", "counts"),
    [
        ("on", "", NOBODY),
        ("local", "", NOBODY),  # there is nobody to wait for
        ("on", "*", (1, 0, 1, 0)),
        ("remote_apply", "ANY 1 (a, b)", (2, 0, 2, 0)),
        ("on", "FIRST 1 (a, b)", (2, 0, 1, 0)),
        ("on", "*", (0, 0, 0, 1)),  # away: every commit waits for it
        ("on", "*", (0, 1, 0, 0)),  # not to be seen, and waited for
    ],
)
def test_nothing_is_at_risk_where_commits_wait(commit: str, names: str, counts):
    assert told(commit, names, counts) == []


@pytest.mark.parametrize(
    ("commit", "names", "counts", "says"),
    [
        ("on", "", (1, 0, 0, 0), "none is synchronous"),
        ("on", "", (0, 0, 0, 1), "none is synchronous"),
        ("local", "*", (1, 0, 1, 0), "synchronous_commit = local"),
        ("on", "other", (1, 0, 0, 0), "names none of the standbys"),
        ("on", "", (0, 1, 0, 0), "GRANT pg_monitor TO fencegate"),
    ],
)
def test_a_standby_that_may_lack_a_commit_is_told_with_what_to_do(
    commit: str, names: str, counts, says: str
):
    ((kind, text),) = told(commit, names, counts)

    assert kind is RiskKind.STANDBY
    assert says in text


def test_a_server_that_does_not_write_to_its_disk_is_told_beside_its_standby():
    kinds = [kind for kind, _ in told("off", "", (1, 0, 0, 0), fsync="off")]

    assert kinds == [RiskKind.CRASH, RiskKind.CRASH, RiskKind.STANDBY]
