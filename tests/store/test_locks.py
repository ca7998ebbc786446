"""Which locks a batch takes follows from what its operations want, and is never raised later."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.effect import Outcome
from gateway.core.ids import Scope
from gateway.store.dialect import translate
from gateway.store.leases import Acquiring, Renewing
from gateway.store.locks import HOUSE, Locks, locks_for, place
from gateway.store.operations import Admission
from gateway.store.settling import Settling
from gateway.store.wanted import Wanted
from tests.conformance.books import LEASED, TERMS, proposal, settlement, worker_of

SCOPE = Scope("report")


def locks_of(*operations: Any, highest: int = 0) -> Locks:
    wanted = Wanted()
    for operation in operations:
        operation.wants(wanted)
    return locks_for(wanted, {SCOPE: highest})


def alone(locks: Locks, *name: str) -> bool | None:
    """Whether a place is taken alone, shared (False) or not at all (None)."""
    return dict(locks.places).get(place(name))


def test_an_admission_shares_its_scope_and_has_its_key_and_its_thing_alone():
    locks = locks_of(Admission(proposal("e-1", "k-1", term=7)), highest=7)

    assert (locks.shared, locks.exclusive, locks.leases) == ([SCOPE], [], [])
    assert alone(locks, *HOUSE) is False
    assert alone(locks, "scope", *SCOPE) is False
    assert alone(locks, "key", "crm", "report", "", "k-1") is True
    assert alone(locks, "thing", "crm", "crm /notes") is True


def test_a_term_above_the_highest_has_its_scope_alone_from_the_beginning():
    asking = [Admission(proposal(f"e-{term}", f"k-{term}", term=term)) for term in (7, 8)]

    locks = locks_of(*asking, highest=7)

    assert (locks.shared, locks.exclusive) == ([], [SCOPE])
    assert alone(locks, "scope", *SCOPE) is True


def test_where_terms_are_granted_an_admission_never_raises_one():
    locks = locks_of(Admission(proposal("e-1", "k-1", term=9, rules=LEASED)), highest=7)

    assert (locks.shared, locks.exclusive, locks.leases) == ([SCOPE], [], [])


def test_a_renewal_holds_the_leases_row_and_nothing_that_admissions_hold():
    locks = locks_of(Renewing(SCOPE, worker_of("ana#1", 7), TERMS))

    assert (locks.shared, locks.exclusive, locks.leases) == ([], [], [SCOPE])
    assert [exclusive for _, exclusive in locks.places] == [False]


def test_a_grant_has_its_scope_alone_and_holds_the_leases_row():
    locks = locks_of(
        Acquiring(SCOPE, worker_of("ana#1"), False, None, TERMS),
        Admission(proposal("e-1", "k-1", term=7, rules=LEASED)),
        highest=7,
    )

    assert (locks.shared, locks.exclusive, locks.leases) == ([], [SCOPE], [SCOPE])
    assert alone(locks, "scope", *SCOPE) is True


def test_settling_asks_for_no_scope():
    locks = locks_of(Settling(settlement("e-1", Outcome.CONFIRMED)))

    assert (locks.shared, locks.exclusive, locks.leases) == ([], [], [])


def test_places_are_taken_in_one_order_whatever_is_asked_first():
    asking = [Admission(proposal(f"e-{n}", f"k-{n}", covers=f"c-{n}")) for n in range(50)]

    places = locks_of(*asking).places

    assert places == sorted(places)
    assert places == locks_of(*reversed(asking)).places


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ? AND b = ?", "a = $1 AND b = $2"),
        ("a = ?2 AND b = ?1 AND c = ?2", "a = $2 AND b = $1 AND c = $2"),
        ("a = 'why?' AND b = ?", "a = 'why?' AND b = $1"),
        ("a = 'it''s ?' AND b = ?", "a = 'it''s ?' AND b = $1"),
        ("SET x = max(x, ?)", "SET x = greatest(x, $1)"),
        ("SELECT max(n) FROM t", "SELECT max(n) FROM t"),
        ("FROM t INDEXED BY i WHERE", "FROM t WHERE"),
        ("x IN ()", "x IN (NULL)"),
    ],
)
def test_what_only_sqlite_understands_is_said_otherwise(text: str, said: str):
    assert translate(text) == said
