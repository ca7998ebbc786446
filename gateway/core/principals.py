"""Principals: who the bearer token says is calling, and what they may touch.

Leadership gives no permission. A leader that may not use a function or reach a destination is
refused like anybody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a principal is here for."""

    WORKER = "worker"  # sends effects, leads, reports on units
    OPERATOR = "operator"  # settles exceptions
    VIEWER = "viewer"  # reads


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller. `functions` or `destinations` None means all; `expires_at_ms` None never."""

    name: str
    roles: frozenset[Role]
    functions: frozenset[str] | None
    destinations: frozenset[str] | None
    expires_at_ms: int | None = None

    def is_a(self, *roles: Role) -> bool:
        """Whether the principal has one of `roles`."""
        return not self.roles.isdisjoint(roles)

    def may_use(self, function: str) -> bool:
        return self.functions is None or function in self.functions

    def may_reach(self, destination: str) -> bool:
        return self.destinations is None or destination in self.destinations

    def live(self, now_ms: int) -> bool:
        return self.expires_at_ms is None or now_ms < self.expires_at_ms


DEV: Final = Principal("dev", frozenset(Role), None, None)
"""Every caller of a gateway that runs with --dev, on loopback only."""
