"""Carrying a change to its end, whether or not its caller waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from gateway.control.panel import Panel
from gateway.core.errors import StoreError

T = TypeVar("T")


async def carried_out(panel: Panel, change: Coroutine[Any, Any, T], name: str) -> T:
    """Carry a change out in a task of its own: a caller that leaves takes nothing back, and who
    asks again gets what was done."""

    async def to_its_end() -> T | StoreError:
        try:
            return await change
        except StoreError as error:  # the caller's to be told, not a task that failed unheard
            return error

    answer = await asyncio.shield(panel.tasks.start(to_its_end(), name))
    if isinstance(answer, StoreError):
        raise answer
    return answer
