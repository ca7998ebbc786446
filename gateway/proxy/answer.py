"""What the caller will get: made by the work on a request, written by the request's handler.

The two are apart because a caller that leaves must not touch the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.outbound.incoming import Incoming


@dataclass(slots=True)
class Answer:
    """An answer ready to be written.

    `body` is what is there already; `rest` is the destination's answer to relay behind it, if
    it goes on. `cut` says that the body was broken off at the destination: the caller's
    connection is aborted, never finished politely. `shareable` answers may be given to others
    that asked the same. `stream_id` names the attempt whose answer is being streamed, and
    `release` gives its slot back.
    """

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = b""
    rest: Incoming | None = None
    cut: bool = False
    shareable: bool = False
    decision: str = "refused"
    reason: str | None = None
    outcome: str | None = None
    effect_id: str | None = None
    attempt: int | None = None
    destination_status: int | None = None
    destination_s: float | None = None
    stream_id: tuple[str, int] | None = None
    release: Callable[[], None] | None = None
    extra: list[tuple[str, str]] = field(default_factory=list)

    @property
    def all_headers(self) -> list[tuple[str, str]]:
        return [*self.headers, *self.extra]
