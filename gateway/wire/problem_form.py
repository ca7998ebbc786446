"""The form of a problem: what the tables say of each way in which the gateway says no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

EffectWord: TypeAlias = Literal["none", "confirmed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One way of saying no.

    `same_key`: once what `detail` says is done, the request may be sent again under its key.
    `retry`: the very same request, sent again later, may do better; nothing else is retried.
    `also`: other statuses that an answer may carry (a release is not a command).
    """

    status: int
    title: str
    detail: str
    page: str
    effect: EffectWord = "none"
    same_key: bool = False
    retry: bool = False
    retry_after_s: int | None = None
    also: tuple[int, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
