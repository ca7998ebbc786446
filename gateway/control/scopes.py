"""Whose function it is, and which scope is meant: what every path of leadership asks first."""

from __future__ import annotations

from gateway.control.panel import Panel
from gateway.control.turn import TurnedAway
from gateway.core.fence import Authority
from gateway.core.ids import Scope, parse_name
from gateway.core.policy import Function
from gateway.core.principals import Principal, Role


def leading(panel: Panel, principal: Principal, name: str) -> Function:
    """Return the function for a worker that would lead it, or an operator.

    Leadership gives no permission, and asking for it needs one.
    """
    if not principal.is_a(Role.WORKER, Role.OPERATOR):
        raise TurnedAway(
            "forbidden", f"Principal {principal.name!r} may look, and is no worker or operator."
        )
    if not principal.may_use(name):
        raise TurnedAway(
            "forbidden", f"Principal {principal.name!r} may not use function {name[:80]!r}."
        )
    function = panel.policies().functions.get(name)
    if function is None:
        raise TurnedAway(
            "function-unknown",
            f"No policy declares function {name[:80]!r}. GET /v1/functions lists those that there "
            "are; check the spelling, or ask the operator to declare it.",
        )
    return _leased(function)


def visible(panel: Panel, principal: Principal, name: str) -> Function:
    """Return the function if there is one that the principal may see."""
    function = panel.policies().functions.get(name)
    if function is None or not principal.may_use(name):
        raise TurnedAway(
            "not-found",
            f"There is no function {name[:80]!r} for you. GET /v1/functions lists those that there "
            "are.",
        )
    return function


def visible_leased(panel: Panel, principal: Principal, name: str) -> Function:
    return _leased(visible(panel, principal, name))


def _leased(function: Function) -> Function:
    if function.rules.authority is not Authority.LEASE:
        raise TurnedAway(
            "malformed",
            f"The terms of function {function.name!r} come from an authority outside "
            "('authority: external' in its policy), so there is no lease and no candidate here. "
            "Take the term from that authority.",
        )
    return function


def scope_of(function: Function, unit: str | None) -> Scope:
    """Return the scope that one leader leads: with a unit exactly where the policy says so."""
    if not function.per_unit:
        if unit is None:
            return Scope(function.name)
        raise TurnedAway(
            "malformed",
            f"unit is {unit[:80]!r}, but one leader leads all of {function.name!r} ('leadership: "
            "function' in its policy). Leave unit out.",
        )
    if unit is None:
        raise TurnedAway(
            "malformed",
            f"Each unit of {function.name!r} has a leader of its own ('leadership: unit' in its "
            "policy). Say which unit.",
        )
    return Scope(function.name, parse_name("unit", unit))
