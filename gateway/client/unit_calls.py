"""The verbs of a unit of work, as its leader and its workers ask them.

Each may be asked again after a lost answer: the gateway then gives the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from gateway.client.context import checked_name
from gateway.client.errors import FencegateError, GatewayUnreachable, NotInCommand, is_retryable
from gateway.client.trust import Backoff

if TYPE_CHECKING:
    from gateway.client.effects import Commander

CALL_S: Final = 10.0
BULK_S: Final = 60.0
PATIENCE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class UnitTold:
    """A unit as the gateway told it. `items` counts them by state, and in `total`."""

    unit: str
    state: str
    digest: str
    items: Mapping[str, int]
    unknown_effects: int
    effects_in_flight: int
    checkpoint: str | None
    result: Any


@dataclass(frozen=True, slots=True)
class ItemTold:
    """An item as the gateway told it."""

    item: str
    state: str
    attempt: int
    worker: str | None = None
    remaining_ms: int = 0
    data: Any = None
    checkpoint: Any = None
    checkpoint_version: int = 0
    result: Any = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimTold:
    """What was claimed. `asked_s` is when, on the worker's clock: trust counts from there."""

    items: Sequence[ItemTold]
    waiting: Sequence[str]
    asked_s: float


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks to which unit, under which term."""

    function: str
    unit: str
    term: int
    holder: str
    fields: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        said = {
            "Fence-Function": self.function,
            "Fence-Term": str(self.term),
            "Fence-Holder": self.holder,
        }
        object.__setattr__(self, "fields", said)


class UnitCalls:
    """One unit at the gateway, for one speaker.

    `proven`: nothing is written without the commander's proof. A worker's reports need none: the
    gateway hears what was done under a claim that is over.
    """

    def __init__(self, commander: Commander, speaker: Speaker, *, proven: bool = True) -> None:
        self._commander = commander
        self._speaker = speaker
        self._proven = proven
        self._path = f"/v1/units/{quote(speaker.unit, safe='')}"

    async def create(self, plan: Mapping[str, Any]) -> tuple[bool, UnitTold]:
        """Create the unit; say whether it is new."""
        status, said, _ = await self._ask("PUT", "", plan, timeout_s=BULK_S)
        return status == 201, unit_from(said)

    async def claim(self, worker: str | None, limit: int, ttl_s: float) -> ClaimTold:
        asked: dict[str, Any] = {"limit": limit, "ttl_s": ttl_s}
        if worker is not None:
            asked["worker"] = worker
        _, said, asked_s = await self._ask("POST", "/claim", asked)
        return ClaimTold(
            items=[_item(one) for one in _members(said, "items")],
            waiting=[str(one) for one in _members(said, "waiting")],
            asked_s=asked_s,
        )

    async def checkpoint(self, item: str, version: int, data: Any) -> int:
        """Write the checkpoint that follows `version`; return its own."""
        path = f"/items/{quote(checked_name('an item', item), safe='')}/checkpoint"
        _, said, _ = await self._ask("PUT", path, data, {"If-Match": f'"{version}"'})
        return int(said["checkpoint_version"])

    async def report(self, results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Report; return why, by item, for those that were not taken."""
        _, said, _ = await self._ask("POST", "/report", {"results": results}, timeout_s=BULK_S)
        told = _members(said, "results")
        return {one["item"]: str(one["reason"]) for one in told if not one["taken"]}

    async def complete(self, digest: str | None, result: Any) -> UnitTold:
        body = {"manifest_digest": digest, "result": result}
        return unit_from((await self._ask("POST", "/complete", body))[1])

    async def abandon(self, reason: str) -> UnitTold:
        return unit_from((await self._ask("POST", "/abandon", {"reason": reason}))[1])

    async def look(self) -> UnitTold:
        return unit_from((await self._ask("GET", ""))[1])

    async def items(
        self, state: str | None, after: str | None, limit: int
    ) -> tuple[list[ItemTold], str | None]:
        """Return a page of items, and what `after` is for the next one."""
        asked = {"state": state, "after": after, "limit": str(limit)}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        _, said, _ = await self._ask("GET", f"/items?{query}")
        return [_item(one) for one in _members(said, "items")], said["next"]

    async def _ask(
        self,
        method: str,
        path: str,
        content: Any = None,
        fields: Mapping[str, str] | None = None,
        timeout_s: float = CALL_S,
    ) -> tuple[int, Any, float]:
        """Ask until it is answered, for PATIENCE_S at most and only while there is proof.

        Returns status, answer, and when the try that was answered was asked.
        """
        clock = self._commander.kit.clock
        give_up_s = clock.boot_s() + PATIENCE_S
        backoff = Backoff(self._commander.kit.chance)
        while True:
            asked_s = clock.boot_s()
            try:
                status, said = await self._once(method, path, content, fields or {}, timeout_s)
                return status, said, asked_s
            except FencegateError as error:
                await self._pause(error, backoff, give_up_s)

    async def _once(
        self, method: str, path: str, content: Any, fields: Mapping[str, str], timeout_s: float
    ) -> tuple[int, Any]:
        if self._proven and method != "GET":
            self._commander.check()
        try:
            return await self._commander.kit.leases.gateway.control(
                method, f"{self._path}{path}", content, timeout_s=timeout_s,
                fields={**self._speaker.fields, **fields},
            )  # fmt: skip
        except NotInCommand as error:
            self._commander.refuted(error)
            raise

    async def _pause(self, error: FencegateError, backoff: Backoff, give_up_s: float) -> None:
        """Wait before the next try; raise `error` if there is to be none."""
        clock = self._commander.kit.clock
        pause_s = max(error.retry_after_s or 0.0, backoff.next_s())
        if not is_retryable(error) or clock.boot_s() + pause_s > give_up_s:
            raise error
        await clock.sleep(pause_s)


def unit_from(said: Any) -> UnitTold:
    """Read a unit. Raises GatewayUnreachable for something else."""
    try:
        return UnitTold(
            unit=str(said["unit"]),
            state=str(said["state"]),
            digest=str(said["manifest_digest"]),
            items={str(name): int(count) for name, count in said["items"].items()},
            unknown_effects=int(said["unknown_effects"]),
            effects_in_flight=int(said["effects_in_flight"]),
            checkpoint=said["checkpoint"],
            result=said["result"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _no_unit(said, error) from error


def _item(said: Any) -> ItemTold:
    try:
        return ItemTold(
            item=str(said["item"]),
            state=str(said["state"]),
            attempt=int(said["attempt"]),
            worker=said["worker"],
            remaining_ms=int(said["remaining_ms"]),
            data=said["data"],
            checkpoint=said["checkpoint"],
            checkpoint_version=int(said["checkpoint_version"]),
            result=said["result"],
            reason=said["reason"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _no_unit(said, error) from error


def _members(said: Any, name: str) -> list[Any]:
    try:
        return list(said[name])
    except (KeyError, TypeError) as error:
        raise _no_unit(said, error) from error


def _no_unit(said: Any, error: Exception) -> GatewayUnreachable:
    return GatewayUnreachable(
        message=f"{str(said)[:200]!r} is not what a gateway says of units ({type(error).__name__} "
        f"{error}); check that the URL is the gateway's"
    )
