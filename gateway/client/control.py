"""The lease verbs, as a worker asks them, and a lease as it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from gateway.client.calls import Gateway
from gateway.client.errors import GatewayUnreachable

CALL_S: Final = 5.0
MAX_WAIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class CandidateReport:
    """What a worker says of itself; the function's policy decides what it is worth."""

    version: str = ""
    region: str = ""
    ready: bool = True
    priority: int = 0


@dataclass(frozen=True, slots=True)
class LeaseTold:
    """A lease as the gateway told it. `holder` is None while nobody leads."""

    holder: str | None
    term: int
    version: int
    duration_ms: int
    remaining_ms: int
    state: str
    attempt_in_ms: int | None = None


def lease_from(said: Any) -> LeaseTold:
    """Read a lease. Raises GatewayUnreachable for something else: nothing is trusted then."""
    try:
        holder, attempt_in_ms = said["holder"], said.get("attempt_in_ms")
        return LeaseTold(
            holder=None if holder is None else str(holder),
            term=int(said["term"]),
            version=int(said["version"]),
            duration_ms=int(said["duration_ms"] or 0),
            remaining_ms=int(said["remaining_ms"]),
            state=str(said["state"]),
            attempt_in_ms=None if attempt_in_ms is None else int(attempt_in_ms),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GatewayUnreachable(
            message=f"{str(said)[:200]!r} is no lease ({type(error).__name__} {error}); check "
            "that the URL is the gateway's"
        ) from error


class Leases:
    """The lease of one scope, at the gateway, for one holder."""

    def __init__(self, gateway: Gateway, function: str, unit: str, holder: str) -> None:
        self.gateway = gateway
        self.function = function
        self.unit = unit
        self.holder = holder
        self._path = f"/v1/leases/{quote(function, safe='')}"
        self._candidate = f"/v1/candidates/{quote(function, safe='')}/{quote(holder, safe='')}"

    async def acquire(self, *, supersede: bool, candidate: CandidateReport) -> LeaseTold:
        more = {"candidate": asdict(candidate)} | ({"supersede": True} if supersede else {})
        return lease_from(await self._verb("acquire", more, CALL_S))

    async def renew(self, term: int, timeout_s: float) -> LeaseTold:
        return lease_from(await self._verb("renew", {"term": term}, timeout_s))

    async def release(self, term: int, timeout_s: float = CALL_S) -> None:
        await self._verb("release", {"term": term}, timeout_s)

    async def step_down(self, term: int, drain_s: float | None) -> None:
        more = {} if drain_s is None else {"drain_s": drain_s}
        await self._verb("step-down", {"term": term, **more}, CALL_S)

    async def hand_off(self, term: int, to: str) -> None:
        await self._verb("hand-off", {"term": term, "to": to}, CALL_S)

    async def look(self, after_version: int | None, wait_s: float) -> LeaseTold:
        """Read the lease: at once if it has changed since, else after `wait_s` at most."""
        asked: dict[str, str] = {"holder": self.holder}
        if self.unit:
            asked["unit"] = self.unit
        if after_version is not None:
            asked |= {
                "wait_s": f"{min(wait_s, MAX_WAIT_S):.3f}",
                "after_version": f"{after_version}",
            }
        _, said = await self.gateway.control(
            "GET", f"{self._path}?{urlencode(asked)}", timeout_s=wait_s + CALL_S
        )
        return lease_from(said)

    async def report(self, candidate: CandidateReport) -> float:
        """Report as a candidate; return for how many seconds the report is fresh."""
        _, said = await self.gateway.control(
            "PUT", self._candidate, asdict(candidate), timeout_s=CALL_S
        )
        fresh_for_ms = said.get("fresh_for_ms") if isinstance(said, Mapping) else None
        return fresh_for_ms / 1000 if isinstance(fresh_for_ms, int | float) else 0.0

    async def withdraw(self, timeout_s: float) -> None:
        await self.gateway.control("DELETE", self._candidate, timeout_s=timeout_s)

    async def _verb(self, verb: str, more: dict[str, Any], timeout_s: float) -> Any:
        content = {"holder": self.holder, **({"unit": self.unit} if self.unit else {}), **more}
        _, said = await self.gateway.control(
            "POST", f"{self._path}/{verb}", content, timeout_s=timeout_s
        )
        return said
