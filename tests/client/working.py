"""Workers at work: how they come to lead, and what their callbacks were told."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.client.elector import Elector
from gateway.client.errors import LeadershipLost
from gateway.client.leadership import Leadership
from tests.client.hand_clock import HandClock


class Notes:
    """What a worker's callbacks were told, in order."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def on_start(self, leadership: Leadership) -> None:
        self.said.append(f"start {leadership.term}")

    async def on_lost(self, leadership: Leadership, error: LeadershipLost) -> None:
        self.said.append(f"lost {error.reason}")

    def on_uncertain(self, leadership: Leadership, error: Exception) -> None:
        self.said.append("uncertain")

    @property
    def hooks(self) -> dict[str, Any]:
        return {
            "on_start": self.on_start, "on_lost": self.on_lost, "on_uncertain": self.on_uncertain,
        }  # fmt: skip


async def led(elector: Elector, clock: HandClock) -> Leadership:
    following = asyncio.ensure_future(anext(elector))
    await clock.until(following.done)
    return following.result()


async def body(leadership: Leadership, notes: Notes, held: asyncio.Event | None = None) -> str:
    """Work until cancelled; say how it came out of the block."""
    async with leadership:
        try:
            await (held or asyncio.Event()).wait()
        except asyncio.CancelledError:
            notes.said.append("cancelled")
            raise
    return "went on"
