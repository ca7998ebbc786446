"""Commands through the gateway: one is sent under one key, as often as it takes."""

from __future__ import annotations

import json as json_words
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.client.calls import Answer, Headers
from gateway.client.context import Fence, Proof, checked_name, headers_of
from gateway.client.errors import (
    FencegateError,
    GatewayUnreachable,
    LeadershipLost,
    Malformed,
    is_retryable,
)
from gateway.client.trust import Backoff

if TYPE_CHECKING:
    from gateway.client.leadership import Kit, Leadership

_KEY: Final = re.compile(r"[ -~]{1,255}\Z")


@dataclass(frozen=True, slots=True)
class EffectAnswer:
    """The destination's answer to a command, and what the ledger says of it.

    `outcome` is confirmed, rejected or no-effect (None for a read). `superseded`: it is done,
    but a newer leader took over meanwhile.
    """

    status: int
    headers: Headers
    body: bytes
    outcome: str | None
    effect_id: str | None
    replayed: bool
    superseded: bool

    @classmethod
    def read(cls, answer: Answer) -> EffectAnswer:
        said = answer.headers
        return cls(
            status=answer.status,
            headers=said,
            body=answer.body,
            outcome=said.get("Fence-Outcome"),
            effect_id=said.get("Fence-Effect"),
            replayed=said.get("Idempotent-Replayed") == "true",
            superseded=said.get("Fence-After-Dispatch") == "superseded",
        )

    def json(self) -> Any:
        """Return the body read as JSON."""
        return json_words.loads(self.body)


@dataclass(frozen=True, slots=True)
class EffectRequest:
    """What is to be sent, without who sends it."""

    method: str
    destination: str
    path: str
    headers: dict[str, str]
    body: bytes | None

    @classmethod
    def made(
        cls,
        method: str,
        destination: str,
        path: str,
        json: Any,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        wait_s: int | None,
    ) -> EffectRequest:
        """Put a command together. Raises Malformed for `json` and `body` at once."""
        fields = dict(headers or {})
        if json is not None:
            if body is not None:
                raise Malformed(message="json and body are both given; give one of them")
            body = json_words.dumps(json).encode()
            if not any(name.lower() == "content-type" for name in fields):
                fields["Content-Type"] = "application/json"
        if wait_s is not None:
            fields["Prefer"] = f"wait={wait_s}"
        return cls(method.upper(), checked_name("a destination", destination), path, fields, body)


def checked_key(key: str) -> str:
    """Return `key` if it can be sent. Raises Malformed."""
    if not _KEY.match(key) or not key.strip():
        raise Malformed(
            message=f"the key is {key[:80]!r}; give 1 to 255 printable ASCII characters"
        )
    return key


def narrowed(fence: Fence, *, step: str | None = None, key: str | None = None) -> Fence:
    """Return `fence` for the writes of one step, or for the one write under `key`.

    Raises Malformed for an empty step, and for a key that cannot be sent.
    """
    if step is not None:
        if not step:
            raise Malformed(message="a step's name is ''; give one that says what it does")
        fence = replace(fence, step=step, key=None)
    return fence if key is None else replace(fence, key=checked_key(key))


class Commander(Proof, Protocol):
    """Who sends commands: a leader, or a worker that has claimed an item."""

    @property
    def kit(self) -> Kit:
        """Where the gateway is, and the clock and the dice to go by."""

    def commit(self) -> AbstractAsyncContextManager[None]:
        """A section that a loss does not cut in two."""


async def send_command(
    leadership: Commander,
    fence: Fence,
    asked: EffectRequest,
    patience_s: float,
    timeout_s: float | None,
) -> EffectAnswer:
    """Send `asked` until it is answered, for `patience_s` at most, always under one key.

    An error after a try without answer says `unknown` of the effect: that this try did nothing
    is no news of the one before.
    """
    kit = leadership.kit
    fenced = headers_of(fence, asked.method, asked.destination, asked.path)
    headers = {**asked.headers, **fenced}
    give_up_s = kit.clock.boot_s() + patience_s
    backoff = Backoff(kit.chance)
    unanswered = False
    while True:
        try:
            leadership.check()
            return await _send_once(leadership, fence, asked, headers, timeout_s or kit.effect_s)
        except FencegateError as error:
            error.unanswered = unanswered
            unanswered = error.effect == "unknown"
            if not is_retryable(error):
                raise
            pause_s = max(error.retry_after_s or 0.0, backoff.next_s())
            if kit.clock.boot_s() + pause_s > give_up_s:
                raise
        await kit.clock.sleep(pause_s)


async def _send_once(
    leadership: Commander,
    fence: Fence,
    asked: EffectRequest,
    headers: Mapping[str, str],
    timeout_s: float,
) -> EffectAnswer:
    answer: EffectAnswer | None = None
    try:
        async with leadership.commit():
            raw = await leadership.kit.leases.gateway.call(
                asked.method,
                f"/d/{asked.destination}{asked.path}",
                headers=headers,
                body=asked.body,
                timeout_s=timeout_s,
            )
            error = fence.take_answer(
                asked.method,
                asked.destination,
                asked.path,
                headers.get("Idempotency-Key"),
                raw.status,
                raw.headers,
                raw.body,
            )
            if error is not None:
                raise error
            answer = EffectAnswer.read(raw)
    except LeadershipLost as lost:
        lost.answer = answer
        raise
    if answer is None:  # cannot be: the block above answers or raises
        raise GatewayUnreachable
    return answer


class DestinationSession:
    """`Leadership.effect`, bound to one destination."""

    def __init__(self, leadership: Leadership, destination: str) -> None:
        self._leadership = leadership
        self.destination = destination

    async def request(self, method: str, path: str, **how: Any) -> EffectAnswer:
        """As `Leadership.effect`, with its keyword arguments."""
        return await self._leadership.effect(method, self.destination, path, **how)

    async def get(self, path: str, **how: Any) -> EffectAnswer:
        return await self.request("GET", path, **how)

    async def post(self, path: str, **how: Any) -> EffectAnswer:
        return await self.request("POST", path, **how)

    async def put(self, path: str, **how: Any) -> EffectAnswer:
        return await self.request("PUT", path, **how)

    async def patch(self, path: str, **how: Any) -> EffectAnswer:
        return await self.request("PATCH", path, **how)

    async def delete(self, path: str, **how: Any) -> EffectAnswer:
        return await self.request("DELETE", path, **how)
