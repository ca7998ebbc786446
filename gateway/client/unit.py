"""A unit of work in the hands of its leader, and items in the hands of whoever claimed them.

    unit = await leadership.open_unit("report:2026-10-02", items=["lead-1", "lead-2"])
    for item in await unit.claim(limit=10, ttl_s=60):
        with item:                       # keys of its own: function/unit/item/step#n
            await item.effect("POST", "crm", "/contacts", json=item.data)
            await item.checkpoint({"page": 2})
        await item.done({"contacts": 1})
    await unit.complete({"contacts": 2})

Nothing of it lives here alone: a successor opens the same unit and goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from gateway.client.context import Fence, StepCounter, checked_name, current, entered
from gateway.client.effects import EffectAnswer, EffectRequest, narrowed, send_command
from gateway.client.errors import ItemUnknown, Malformed, NotClaimed, Problem
from gateway.client.unit_calls import ItemTold, Speaker, UnitCalls, UnitTold

if TYPE_CHECKING:
    from gateway.client.effects import Commander
    from gateway.client.leadership import Leadership

CLAIM_S: Final = 60.0
_PAGE: Final = 500
_BITE: Final = 5_000
_SAVED, _STEPS = "saved", "steps"


class _Entering:
    """Puts a fence in force for a `with` block; blocks may be nested."""

    fence: Fence

    def __init__(self) -> None:
        self._entered: list[AbstractContextManager[Fence]] = []

    def __enter__(self) -> Fence:
        block = entered(self.fence)
        fence = block.__enter__()
        self._entered.append(block)
        return fence

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered.pop().__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an item: `done`, `failed` or `uncertain`. `attempt` is that of its claim."""

    item: str
    state: str
    attempt: int
    result: Any = None
    reason: str | None = None

    def said(self) -> dict[str, Any]:
        return {
            "item": self.item, "state": self.state, "attempt": self.attempt,
            "result": self.result, "reason": self.reason,
        }  # fmt: skip


class ClaimedItem(_Entering):
    """One item, for as long as it is claimed. `data` is from the manifest; `saved` is what the
    last checkpoint kept, by whichever worker, None if there is none."""

    def __init__(
        self, commander: Commander, fence: Fence, calls: UnitCalls, told: ItemTold
    ) -> None:
        super().__init__()
        self.id = told.item
        self.data = told.data
        self.attempt = told.attempt
        self.version = told.checkpoint_version
        self.saved, counted = _unpacked(told.checkpoint)
        self.commander = commander
        steps = StepCounter(fence.function, fence.unit, told.item)
        steps.resume(counted)
        self.fence = replace(fence, item=told.item, steps=steps, step=None, key=None)
        self._calls = calls

    def __repr__(self) -> str:
        return f"<item {self.id!r} of {self.fence.unit!r}, attempt {self.attempt}>"

    @contextmanager
    def step(self, name: str) -> Iterator[Fence]:
        """Name what the writes in this block do, where method and path do not tell them apart."""
        with entered(narrowed(self.fence_here(), step=name)) as fence:
            yield fence

    def fence_here(self) -> Fence:
        """Return the fence in force if it is this item's, else its own."""
        here = current()
        return here if here is not None and here.steps is self.fence.steps else self.fence

    async def effect(
        self,
        method: str,
        destination: str,
        path: str,
        *,
        json: Any = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        step: str | None = None,
        key: str | None = None,
        wait_s: int | None = None,
        patience_s: float = 0.0,
        timeout_s: float | None = None,
    ) -> EffectAnswer:
        """As `Leadership.effect`, for this item."""
        asked = EffectRequest.made(method, destination, path, json, body, headers, wait_s)
        fence = narrowed(self.fence_here(), step=step, key=key)
        return await send_command(self.commander, fence, asked, patience_s, timeout_s)

    async def checkpoint(self, data: Any) -> None:
        """Keep `data` for whoever goes on with the item, with the numbers of its steps: their
        keys go on where they are.

        Raises NotClaimed if somebody else has the item by now, VersionConflict if two write.
        """
        kept = {_SAVED: data, _STEPS: self.fence.steps.counted()}
        self.version = await self._calls.checkpoint(self.id, self.version, kept)
        self.saved = data

    async def done(self, result: Any = None) -> None:
        """Report that it is done. Raises NotClaimed if somebody else has it by now."""
        await self._say(Result(self.id, "done", self.attempt, result))

    async def failed(self, reason: str, result: Any = None) -> None:
        """Report that it is done with, in vain."""
        await self._say(Result(self.id, "failed", self.attempt, result, reason))

    async def uncertain(self, reason: str) -> None:
        """Report that nobody knows: it is not handed out again before that is settled."""
        await self._say(Result(self.id, "uncertain", self.attempt, None, reason))

    async def _say(self, result: Result) -> None:
        turned = await self._calls.report([result.said()])
        if self.id in turned:
            raise turned_away(self.id, turned[self.id])


class Unit(_Entering):
    """A unit of work of this leadership. `created` says that it is new; an older one keeps its
    own manifest, of which `digest` is."""

    def __init__(
        self, leadership: Leadership, calls: UnitCalls, told: UnitTold, *, created: bool
    ) -> None:
        super().__init__()
        self.key = told.unit
        self.created = created
        self.digest = told.digest
        self.told = told
        self.fence = replace(
            leadership.fence,
            unit=told.unit,
            steps=StepCounter(leadership.function, told.unit),
            step=None,
            key=None,
        )
        self._leadership = leadership
        self._calls = calls

    def __repr__(self) -> str:
        return f"<unit {self.key!r} of {self._leadership.about}>"

    async def claim(self, limit: int = 1, ttl_s: float = CLAIM_S) -> list[ClaimedItem]:
        """Claim items for this leader itself, its own live ones first. None are left when the
        list is empty, or they wait for what became of their effects."""
        claim = await self._calls.claim(None, limit, ttl_s)
        return [
            ClaimedItem(self._leadership, self.fence, self._calls, told) for told in claim.items
        ]

    async def claim_for(self, worker: str, limit: int = 1, ttl_s: float = CLAIM_S) -> list[str]:
        """Hand items to another worker, by its holder's name; return which."""
        claim = await self._calls.claim(checked_name("a worker", worker), limit, ttl_s)
        return [told.item for told in claim.items]

    async def look(self) -> UnitTold:
        """Read how the unit stands."""
        self.told = await self._calls.look()
        return self.told

    async def items(self, state: str | None = None) -> AsyncIterator[ItemTold]:
        """Read all items in the manifest's order, or those in one state."""
        after: str | None = None
        while True:
            page, after = await self._calls.items(state, after, _PAGE)
            for told in page:
                yield told
            if after is None:
                return

    async def report(self, results: Sequence[Result]) -> dict[str, str]:
        """Report on many items; return why, by item, for those that were not taken.

        The leader may settle what any worker has left uncertain, by the attempt that it reads.
        """
        return await report_all(self._calls, results)

    async def complete(self, result: Any = None) -> UnitTold:
        """End the unit. Raises UnitUnfinished with the reasons while anything is open."""
        self.told = await self._calls.complete(self.digest, result)
        return self.told

    async def abandon(self, reason: str) -> UnitTold:
        """Give the unit up, with what is open of it."""
        self.told = await self._calls.abandon(reason)
        return self.told


async def open_unit(
    leadership: Leadership,
    key: str,
    manifest: Mapping[str, Any] | None,
    items: Iterable[str | Mapping[str, Any]] | None,
    about: Mapping[str, Any],
) -> Unit:
    """See `Leadership.open_unit`."""
    if manifest is not None and items is not None:
        raise Malformed(message="manifest and items are both given; give one of them")
    if manifest is None:
        manifest = {
            "items": [{"id": each} if isinstance(each, str) else dict(each) for each in items or ()]
        }
    unit = checked_name("a unit", key)
    if leadership.unit and unit != leadership.unit:
        raise Malformed(
            message=f"the unit is {unit!r}, and this leadership is of {leadership.about}; each "
            "unit has a leader of its own"
        )
    speaker = Speaker(leadership.function, unit, leadership.term, leadership.holder)
    calls = UnitCalls(leadership, speaker)
    plan = {"function": leadership.function, "manifest": manifest}
    plan |= {name: value for name, value in about.items() if value is not None}
    created, told = await calls.create(plan)
    return Unit(leadership, calls, told, created=created)


async def report_all(calls: UnitCalls, results: Sequence[Result]) -> dict[str, str]:
    turned: dict[str, str] = {}
    for first in range(0, len(results), _BITE):
        turned |= await calls.report([each.said() for each in results[first : first + _BITE]])
    return turned


def turned_away(item: str, slug: str) -> NotClaimed | ItemUnknown:
    """Return the error for a report that was not taken."""
    kind = ItemUnknown if slug == "item-unknown" else NotClaimed
    detail = f"the report on item {item!r} was not taken; leave the item"
    status = 404 if kind is ItemUnknown else 409
    return kind(Problem(slug=slug, status=status, title="Not taken", detail=detail, effect="none"))


def _unpacked(checkpoint: Any) -> tuple[Any, dict[str, int]]:
    """Return what a checkpoint kept, and the numbers of the steps if it has them."""
    if isinstance(checkpoint, dict) and set(checkpoint) == {_SAVED, _STEPS}:
        steps = checkpoint[_STEPS]
        if isinstance(steps, dict) and all(isinstance(n, int) for n in steps.values()):
            return checkpoint[_SAVED], steps
    return checkpoint, {}
