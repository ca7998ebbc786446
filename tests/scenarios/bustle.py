"""What a busy leader does: the work that all workers share, and letting go of it in every way.

Work items have numbers that go up with the time, so a new leader finds some of its predecessor's
last items to do again: the same intents under the same keys, from somebody who remembers nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from gateway.client.errors import FencegateError, LeadershipLost
from gateway.client.leadership import Leadership

ITEMS_A_SECOND: Final = 20
ITEMS_BACK: Final = 40
NOTES: Final = 3
AT_ONCE: Final = 3
CONTACT: Final = ("POST", "/contacts")


def marks(key: str, leadership: Leadership) -> dict[str, str]:
    """Header fields for the CRM's journal: which intent a request is of, and who sent it."""
    return {
        "X-Sandbox-Intent": key,
        "X-Sent-Under": str(leadership.term),
        "X-Sent-By": leadership.holder,
    }


class Bustle:
    """A busy leader's dice and doings."""

    def __init__(
        self, others: Sequence[str], dice: random.Random, tell: Callable[..., None]
    ) -> None:
        self._others = others
        self._dice = dice
        self._tell = tell

    async def lead(self, leadership: Leadership) -> None:
        """Work until this leadership is over; returning gives it back too."""
        while leadership.lost is None:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    _ = group.create_task(self._work(leadership, self._item()))
            try:
                if await self._lets_go(leadership):
                    return
            except FencegateError:  # the gateway is down, or says that this is over: look again
                await asyncio.sleep(0.05)

    def _item(self) -> int:
        return int(time.monotonic() * ITEMS_A_SECOND) - self._dice.randrange(ITEMS_BACK)

    async def _lets_go(self, leadership: Leadership) -> bool:
        throw = self._dice.random()
        if throw < 0.05:
            await leadership.release()
        elif throw < 0.08:
            await leadership.step_down(drain_s=0.3)
        elif throw < 0.15:
            await leadership.hand_off(self._dice.choice(self._others))
        return throw < 0.20

    async def _work(self, leadership: Leadership, n: int) -> None:
        """Do one item: what is sent depends on its number alone, never on who sends it.

        What is cut off is told too: its write may be under way, and the next one under its key
        says nothing of it.
        """
        method, path = ("PATCH", f"/notes/note-{n // 4 % NOTES + 1}") if n % 4 == 0 else CONTACT
        began_s = time.monotonic()
        key: str | None = None
        error: str | None = "cut off"
        effect = "unknown"
        try:
            with leadership.item(f"lead-{n}") as fence:
                key = fence.key_for(method, "crm", path)
                answer = await leadership.effect(
                    method,
                    "crm",
                    path,
                    json={"text": f"lead-{n}"},
                    headers=marks(key, leadership),
                    wait_s=1,
                    patience_s=self._dice.choice((0.0, 1.0)),
                )
            effect, error = "confirmed" if answer.outcome == "confirmed" else "none", None
        except LeadershipLost as lost:
            error = "LeadershipLost"
            effect = "not sent" if lost.answer is None and not lost.unanswered else lost.effect
        except FencegateError as refused:
            error, effect = refused.slug or type(refused).__name__, refused.effect
        finally:
            self._tell(
                "sent",
                key=key,
                term=leadership.term,
                holder=leadership.holder,
                began_s=began_s,
                effect=effect,
                error=error,
            )
