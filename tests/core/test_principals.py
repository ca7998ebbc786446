"""Who is calling, and what they may touch. Leadership gives no permission."""

from __future__ import annotations

from gateway.core.principals import DEV, Principal, Role

WORKER = Principal("ana", frozenset({Role.WORKER}), frozenset({"report"}), frozenset({"crm"}), 100)


def test_a_principal_uses_the_functions_and_destinations_on_its_list():
    assert WORKER.may_use("report")
    assert not WORKER.may_use("sweep")
    assert WORKER.may_reach("crm")
    assert not WORKER.may_reach("erp")


def test_no_list_is_all_and_an_empty_one_is_none():
    nothing = Principal("bo", frozenset(), frozenset(), frozenset())

    assert DEV.may_use("report")
    assert DEV.may_reach("crm")
    assert not nothing.may_use("report")
    assert not nothing.may_reach("crm")


def test_a_principal_has_the_roles_it_was_given():
    assert WORKER.is_a(Role.WORKER)
    assert WORKER.is_a(Role.OPERATOR, Role.WORKER)
    assert not WORKER.is_a(Role.OPERATOR, Role.VIEWER)
    assert all(DEV.is_a(role) for role in Role)


def test_a_principal_lives_up_to_its_expiry():
    assert WORKER.live(99)
    assert not WORKER.live(100)
    assert DEV.live(2**60)
