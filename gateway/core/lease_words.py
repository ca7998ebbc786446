"""The words of leases: how they end, how they are shown, and the times that a policy sets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Ended(StrEnum):
    """How a lease came to its end."""

    RELEASED = "released"  # its holder gave it back
    EXPIRED = "expired"  # nobody renewed it in time
    DRAINED = "drained"  # stepped down, and nothing is in flight any more
    HANDED_OFF = "handed-off"  # the next term went to a named candidate
    SUPERSEDED = "superseded"  # the same worker, started again, took a new term


GIVEN_BACK: Final = frozenset({Ended.RELEASED, Ended.DRAINED})
"""Ends that the holder wanted."""


class LeaseState(StrEnum):
    """How a lease is shown."""

    CANDIDATE = "candidate"  # never granted
    ACQUIRED = "leader-acquired"  # not renewed yet
    RENEWING = "leader-renewing"
    UNCERTAIN = "leader-uncertain"  # nearer to its expiry than the margin
    LOST = "leader-lost"  # ended


class LeaseRefusal(StrEnum):
    """Why a verb was turned away."""

    LEASE_HELD = "lease-held"
    NOT_ELIGIBLE = "not-eligible"
    NOT_PREFERRED = "not-preferred"
    LEASE_GONE = "lease-gone"
    NOT_HOLDER = "not-holder"


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """A function's lease times. A better candidate is waited for `prefer_for_ms` after a scope
    has become free; a candidate that has not reported for `fresh_for_ms` counts as gone."""

    ttl_ms: int = 20_000
    renew_every_ms: int = 5_000
    margin_ms: int = 3_000
    prefer_for_ms: int = 5_000
    fresh_for_ms: int = 13_000
