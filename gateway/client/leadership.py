"""A leadership in a worker's hands: proof, loss, the work under it.

Without current proof it commands nothing: `check` says no before the gateway is even asked. A
leadership that is lost stays lost; the next one has another term.

What happens at a loss, in this order: nothing new is admitted; the body of `async with` is
cancelled, as `asyncio.timeout` does it, unless something is being handed to the gateway
(`commit`): that ends first; `on_lost` is called.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, TypeAlias

from gateway.client.body import Body
from gateway.client.context import Fence, StepCounter, business_key, checked_name, current, entered
from gateway.client.control import Leases
from gateway.client.effects import (
    DestinationSession,
    EffectAnswer,
    EffectRequest,
    narrowed,
    send_command,
)
from gateway.client.errors import (
    FencegateError,
    LeaderDraining,
    LeadershipLost,
    NotEligible,
    NotInCommand,
)
from gateway.client.tasks import LOG, Tasks
from gateway.client.trust import Clock
from gateway.client.unit import Unit, open_unit

RELEASE_S: Final = 2.0
DRAIN_S: Final = 30.0
_GIVEN_BACK: Final = frozenset({"released", "stepped-down"})  # this worker's own doing
Callback: TypeAlias = Callable[..., Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Kit:
    """What an elector lends to its leaderships."""

    leases: Leases
    clock: Clock
    chance: random.Random
    tasks: Tasks = field(default_factory=Tasks)
    on_start: Callback | None = None
    on_lost: Callback | None = None
    on_uncertain: Callback | None = None
    effect_s: float = 90.0


class Leadership:
    """One term of one scope. Made by the elector, which renews it."""

    def __init__(self, kit: Kit, term: int, until_s: float) -> None:
        self.function = kit.leases.function
        self.unit = kit.leases.unit
        self.holder = kit.leases.holder
        self.term = term
        self.kit = kit
        self.fence = Fence(
            self.function, self.unit, term, self.holder, self, StepCounter(self.function, self.unit)
        )
        self.given_back = False  # the gateway knows that this term is over for us
        self._until_s = until_s
        self._renewed = False
        self._doubted = False
        self._stopping: str | None = None
        self._lost: LeadershipLost | None = None
        self._guard = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._body = Body()
        self._entered: AbstractContextManager[Fence] | None = None
        self.heartbeat: asyncio.Task[Any] | None = None

    def __repr__(self) -> str:
        return f"<Leadership of {self.about} as {self.holder}, {self.state}>"

    @property
    def about(self) -> str:
        scope = f"{self.function!r}, unit {self.unit!r}," if self.unit else f"{self.function!r}"
        return f"{scope} under term {self.term}"

    # -- proof

    @property
    def url(self) -> str:
        return self.kit.leases.gateway.url

    @property
    def token(self) -> str | None:
        return self.kit.leases.gateway.token

    @property
    def until_s(self) -> float:
        """Until when, on the kit's clock, there is proof."""
        return self._until_s

    @property
    def remaining_s(self) -> float:
        """For how long there is proof yet; 0 if there is none."""
        if self._lost is not None:
            return 0.0
        return max(0.0, self._until_s - self.kit.clock.boot_s())

    @property
    def lost(self) -> LeadershipLost | None:
        """How it was lost; None while it is not."""
        return self._lost

    @property
    def state(self) -> str:
        if self._lost is not None:
            return "leader-lost"
        if self._doubted:
            return "leader-uncertain"
        return "leader-renewing" if self._renewed else "leader-acquired"

    def check(self) -> None:
        """Raise LeadershipLost without current proof. Cheap, and safe from any thread."""
        if self._lost is None and self.kit.clock.boot_s() >= self._until_s:
            self.lose("margin", "its proof ran out before a renewal was answered")
        if self._lost is not None:
            raise self._loss()
        if self._stopping is not None:
            raise LeadershipLost(
                message=f"leadership of {self.about} is {self._stopping}; nothing new is started "
                "and nothing was sent",
                reason="stopping",
            )

    def proven(self, until_s: float) -> None:
        """A renewal was granted, in time."""
        self._until_s, self._renewed, self._doubted = until_s, True, False

    def doubt(self, error: Exception) -> None:
        """A renewal failed; the proof that there is still holds."""
        if self._lost is None and not self._doubted:
            self._doubted = True
            LOG.warning("leadership of %s is uncertain: %s", self.about, error)
            self.kit.tasks.tell(self.kit.on_uncertain, self, error)

    def refuted(self, error: FencegateError) -> None:
        """The gateway refused this leadership a command or a renewal; it knows better."""
        if isinstance(error, LeaderDraining):
            self._stopping = "stepping down"
            return
        self.given_back = True
        self.lose(error.slug or "superseded", str(error))

    def lose(self, reason: str, why: str) -> None:
        """End it, here and now, from any thread. The first reason stands."""
        with self._guard:
            if self._lost is not None:
                return
            what = "given back" if reason in _GIVEN_BACK else "lost"
            self._lost = LeadershipLost(
                message=f"leadership of {self.about} is {what} ({reason}): {why}", reason=reason
            )
        with suppress(RuntimeError):  # the loop is closed, and the body gone with it
            self._loop.call_soon_threadsafe(self._after_loss)

    def _after_loss(self) -> None:
        given_back = self._lost is not None and self._lost.reason in _GIVEN_BACK
        LOG.log(logging.INFO if given_back else logging.WARNING, "%s", self._lost)
        self._body.end()
        self._over.set()
        if self.heartbeat is not None:
            self.heartbeat.cancel()
        self.kit.tasks.tell(self.kit.on_lost, self, self._lost)

    def _loss(self) -> LeadershipLost:
        """Return the loss as a fresh error: one that is raised twice mixes its tracebacks."""
        lost = self._lost or LeadershipLost()
        return LeadershipLost(message=str(lost), reason=lost.reason)

    async def wait_lost(self) -> LeadershipLost:
        """Wait until it is lost."""
        await self._over.wait()
        return self._loss()

    # -- the body

    async def __aenter__(self) -> Leadership:
        if self._entered is not None:
            raise RuntimeError(f"leadership of {self.about} is entered twice; enter it once")
        self._entered = entered(self.fence)
        self._entered.__enter__()
        self._body.enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self._entered is not None:
            self._entered.__exit__(None, None, None)
        is_loss = self._body.leave(error) and self._lost is not None
        await self.finish("its body has ended")
        return is_loss

    @asynccontextmanager
    async def commit(self) -> AsyncIterator[None]:
        """A section that a loss does not cut in two: it ends, then the loss is raised.

        Keep it short: hand one thing over, and note that it was.
        """
        self.check()
        with self._body.committing():
            yield
        if self._lost is not None:
            raise self._loss()

    # -- the work

    def fence_here(self) -> Fence:
        """Return the fence in force if it is this leadership's, else its own."""
        here = current()
        return here if here is not None and here.leadership is self else self.fence

    async def open_unit(
        self,
        key: str,
        manifest: Mapping[str, Any] | None = None,
        *,
        items: Iterable[str | Mapping[str, Any]] | None = None,
        period_start: str | None = None,
        period_end: str | None = None,
        policy_version: str | None = None,
    ) -> Unit:
        """Create the unit of work `key`, or find it as an earlier leader left it.

        `items` are names, or {"id", "data"}; they stand for a manifest with nothing else. A
        unit that is there keeps its own manifest: see `Unit.created`.
        """
        about = {
            "period_start": period_start,
            "period_end": period_end,
            "policy_version": policy_version,
        }
        return await open_unit(self, key, manifest, items, about)

    @contextmanager
    def item(self, item: str) -> Iterator[Fence]:
        """Work on one item: its writes have keys of their own, the same for every worker."""
        self.check()
        name = checked_name("an item", item)
        here = self.fence_here()
        steps = StepCounter(self.function, here.unit, name)
        here = replace(here, item=name, steps=steps, step=None, key=None)
        with entered(here) as fence:
            yield fence

    @contextmanager
    def step(self, name: str) -> Iterator[Fence]:
        """Name what the writes in this block do, where method and path do not tell them apart."""
        with entered(narrowed(self.fence_here(), step=name)) as fence:
            yield fence

    def key(self, *parts: str | int) -> str:
        """Return a key from the words of the business: `key("refund", refund_id)`."""
        return business_key(self.function, self.fence_here().unit, parts)

    @contextmanager
    def keyed(self, key: str) -> Iterator[Fence]:
        """Send the one write in this block under `key`, whichever library sends it."""
        with entered(narrowed(self.fence_here(), key=key)) as fence:
            yield fence

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
        """Send one command through the gateway and return the destination's answer.

        `path` is percent-encoded and has its query. `wait_s` lets the gateway wait for an
        earlier attempt; `patience_s` is how long this side asks again, under the same key, after
        errors that are worth it. Raises the typed error of a refusal.
        """
        asked = EffectRequest.made(method, destination, path, json, body, headers, wait_s)
        fence = narrowed(self.fence_here(), step=step, key=key)
        return await send_command(self, fence, asked, patience_s, timeout_s)

    def session(self, destination: str) -> DestinationSession:
        """Return `effect` bound to one destination."""
        return DestinationSession(self, destination)

    # -- the end

    async def step_down(self, drain_s: float | None = None) -> None:
        """Start nothing new, let what is under way settle, and stop leading.

        If the gateway cannot be told, it stops all the same and the error is raised: the lease
        expires by itself.
        """
        self._stopping = "stepping down"
        try:
            await self.kit.leases.step_down(self.term, drain_s)
            self.given_back = True
        except NotInCommand as error:
            self.refuted(error)
        finally:
            await self._body.until_quiet(DRAIN_S if drain_s is None else drain_s)
            self.lose("stepped-down", "this worker stepped down")

    async def hand_off(self, to: str) -> None:
        """Let the holder `to` lead under the next term.

        Raises NotEligible, and leads on, if `to` may not lead or does not report itself.
        """
        self._stopping = "being handed off"
        await self._body.until_quiet(DRAIN_S)
        try:
            await self.kit.leases.hand_off(self.term, to)
        except NotEligible:
            self._stopping = None
            raise
        except NotInCommand as error:
            self.refuted(error)
            raise
        except BaseException:
            # whether it was done cannot be told, so this worker does not lead any more
            self.lose("handed-off", f"it was to be handed to {to}, and no answer came")
            raise
        self.given_back = True
        self.lose("handed-off", f"it was handed to {to}")

    async def release(self) -> None:
        """Stop leading at once. Raises GatewayUnreachable if the gateway could not be told;
        the lease expires by itself then."""
        await self._give_back("released", "this worker released it")

    async def finish(self, why: str) -> None:
        """As `release`, without a word if the gateway cannot be told."""
        try:
            await self._give_back("released", why)
        except FencegateError as error:
            LOG.warning("the lease of %s could not be released: %s", self.about, error)

    async def _give_back(self, reason: str, why: str) -> None:
        self.lose(reason, why)
        if self.given_back:
            return
        with suppress(NotInCommand):  # it is not ours any more, which is as good
            await self.kit.leases.release(self.term, RELEASE_S)
        self.given_back = True
