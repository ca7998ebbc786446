"""Functions in words and in facts: who grants their terms, how long, to whom, and who may act."""

from __future__ import annotations

from typing import Any, Final

from gateway.core.candidates import Eligibility, Upgrades
from gateway.core.fence import Callers
from gateway.core.lease import LeaseRules
from gateway.core.measures import show_duration
from gateway.core.policy import Function

_CALLERS: Final = {
    Callers.LEADER: "only the leader may act under its term",
    Callers.LEADER_OR_CLAIMANT: "the leader and those with a claim may act under its term",
    Callers.ANY: "anybody who names the leader's term may act under it",
}


def function_lines(one: Function) -> list[str]:
    return [
        f"function {one.name}",
        f"  file {one.file}",
        f"  digest {one.digest}",
        f"  authority {one.rules.authority}  one leader per "
        f"{'unit' if one.per_unit else 'function'}  callers {one.rules.callers}",
        *(f"  {sentence}" for sentence in leadership_words(one)),
        f"  exceptions go to {_exceptions_words(one)}",
    ]


def leadership_words(one: Function) -> list[str]:
    """Say how a leader comes to its term, and who else may act under it."""
    lines = [*_grant_words(one), _CALLERS[one.rules.callers]]
    if one.rules.registered_units:
        lines.append("effects are only for units that were created, with their manifest")
    return lines


def _grant_words(one: Function) -> list[str]:
    if one.lease is None:
        jump = one.rules.max_term_jump
        return [
            "terms come from an authority outside",
            f"a term may jump {'any distance' if jump is None else f'by at most {jump}'}",
        ]
    return [*_lease_words(one.lease), *_eligible_words(one.eligible)]


def _lease_words(lease: LeaseRules) -> list[str]:
    ttl, every, margin, prefer, fresh = (
        show_duration(each)
        for each in (
            lease.ttl_ms,
            lease.renew_every_ms,
            lease.margin_ms,
            lease.prefer_for_ms,
            lease.fresh_for_ms,
        )
    )
    return [
        f"terms come from the gateway: a lease of {ttl}, renewed every {every}",
        f"a leader that cannot renew stops {margin} before its lease expires; "
        "another leads only after that",
        f"a better candidate is waited for {prefer}; one that is silent for {fresh} counts as gone",
    ]


def _eligible_words(rules: Eligibility) -> list[str]:
    wants = []
    if rules.versions is not None:
        wants.append(f"with a version {rules.versions}")
    if rules.regions is not None:
        wants.append(f"in region {' or '.join(sorted(rules.regions))}")
    order = [f"{rules.preferred} before all others"] if rules.preferred is not None else []
    age = "newest" if rules.upgrades is Upgrades.NEWEST_FIRST else "oldest"
    order += ["the higher priority", f"the {age} version", "the name"]
    lines = [
        f"eligible is whoever is ready{''.join(f', {want}' for want in wants)}",
        f"of several: {', then '.join(order)}",
    ]
    if (rule := rules.cool_off) is not None:
        losses = "1 lease" if rule.losses == 1 else f"{rule.losses} leases"
        lines.append(
            f"a worker under which {losses} expired within {show_duration(rule.within_ms)} "
            f"ranks last for {show_duration(rule.lasts_ms)}"
        )
    return lines


def _exceptions_words(one: Function) -> str:
    if not one.exceptions_owner:
        return "nobody named"
    return f"{one.exceptions_owner} within {show_duration(one.exceptions_deadline_ms)}"


def function_facts(one: Function) -> dict[str, Any]:
    return {
        "function": one.name,
        "authority": one.rules.authority.value,
        "leadership": "unit" if one.per_unit else "function",
        "lease": None if one.lease is None else _lease_facts(one.lease),
        "eligible": None if one.lease is None else _eligible_facts(one.eligible),
        "callers": one.rules.callers.value,
        "units": "registered" if one.rules.registered_units else "free",
        "max_term_jump": one.rules.max_term_jump,
        "exceptions_owner": one.exceptions_owner or None,
        "exceptions_deadline_ms": one.exceptions_deadline_ms or None,
        "file": one.file,
        "digest": one.digest,
    }


def _lease_facts(lease: LeaseRules) -> dict[str, int]:
    return {
        "ttl_ms": lease.ttl_ms,
        "renew_every_ms": lease.renew_every_ms,
        "margin_ms": lease.margin_ms,
        "prefer_for_ms": lease.prefer_for_ms,
        "fresh_for_ms": lease.fresh_for_ms,
    }


def _eligible_facts(rules: Eligibility) -> dict[str, Any]:
    cool_off = rules.cool_off
    return {
        "versions": None if rules.versions is None else str(rules.versions),
        "regions": None if rules.regions is None else sorted(rules.regions),
        "preferred": rules.preferred,
        "upgrades": rules.upgrades.value,
        "cool_off": None
        if cool_off is None
        else {
            "losses": cool_off.losses,
            "within_ms": cool_off.within_ms,
            "lasts_ms": cool_off.lasts_ms,
        },
    }
