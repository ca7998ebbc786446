"""Who commands here, and under which key: carried by context variables.

Transports ask `current()` and `fence_headers()`; the code in between knows nothing of it.

Keys are made from the work alone, so that a retry, a restarted worker and a successor make the
same key for the same effect: `function/unit/item/step#n`. No clock, no chance, no holder, no
term. `n` counts confirmed effects of one step within an item; a retry inside an SDK, a corrected
422 and a call without answer keep their key. Two writes of one step at the same moment share a
key, and the gateway refuses the second: give them steps of their own.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

from gateway.client.errors import (
    FencegateError,
    FenceMissing,
    GatewayUnreachable,
    LeadershipLost,
    Malformed,
    NotInCommand,
    StaleTerm,
    error_for,
)
from gateway.core import errors as core_errors
from gateway.core.ids import parse_name

MAX_KEY_CHARS: Final = 255
READS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# what stands in a key as it is; quotes and backslashes would have to be escaped in the header
_PLAIN: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '%"\\')
_PART: Final = _PLAIN.replace("/", "").replace("#", "")
# Refusals that prove the effect done. `key-reused` may say `Fence-Outcome: confirmed` too, but
# of another request: a next number then would send the same effect a second time.
_DONE: Final = frozenset({"duplicate", "result-unavailable"})


class Proof(Protocol):
    """What a transport has to know of a leadership."""

    @property
    def url(self) -> str:
        """Where the gateway is."""

    @property
    def token(self) -> str | None:
        """The gateway token of the worker."""

    def check(self) -> None:
        """Raise LeadershipLost without current proof. Cheap, and safe from any thread."""

    def refuted(self, error: FencegateError) -> None:
        """Take note that the gateway refused a command of this leadership."""


class StepCounter:
    """Numbers the writes of one item. Safe from any thread."""

    def __init__(self, function: str, unit: str = "", item: str = "") -> None:
        self._prefix = f"{function}/{unit}/{item}/"
        self._nameless = not unit and not item
        self._next: dict[str, int] = {}
        self._lock = threading.Lock()

    def key(self, step: str) -> str:
        """Return the key of the next write of `step`: the same until it is confirmed.

        Raises FenceMissing without unit and item: the key would be the same tomorrow, and
        tomorrow's work would be taken for today's.
        """
        if self._nameless:
            raise FenceMissing(
                message=f"no key can be made for {step!r}: neither unit nor item says which work "
                "it is; enter `with leadership.item(...)`, or give a key from leadership.key(...)"
            )
        with self._lock:
            n = self._next.get(step, 1)
        return _bounded(self._prefix, quote(step, safe=_PLAIN), f"#{n}")

    def confirmed(self, step: str, key: str | None = None) -> None:
        """Go on to the next number of `step`; not a second time for the same `key`."""
        with self._lock:
            n = self._next.get(step, 1)
            if key is None or key.endswith(f"#{n}"):
                self._next[step] = n + 1

    def counted(self) -> dict[str, int]:
        """Return the next number of each step that has moved on."""
        with self._lock:
            return dict(self._next)

    def resume(self, counted: Mapping[str, int]) -> None:
        """Go on with the numbers that `counted` once told, of the same item."""
        with self._lock:
            self._next.update(counted)


def _bounded(prefix: str, step: str, number: str) -> str:
    """Return a key that fits. Its number stays readable; a digest stands for what is cut."""
    key = f"{prefix}{step}{number}"
    if len(key) <= MAX_KEY_CHARS:
        return key
    room = MAX_KEY_CHARS - len(prefix) - len(number)
    digest = hashlib.sha256(step.encode("ascii")).hexdigest()[:32]
    if room >= len(digest) + 1:
        return f"{prefix}{digest}~{step[: room - len(digest) - 1]}{number}"
    whole = hashlib.sha256(f"{prefix}{step}".encode("ascii")).hexdigest()
    return f"sha256:{whole}{number}"


def business_key(function: str, unit: str, parts: tuple[str | int, ...]) -> str:
    """Return a key from the words of the business, as `refund` and the refund's id.

    Never equal to a numbered key: `#` does not stand in its parts.
    """
    if not parts or not all(str(part) for part in parts):
        raise Malformed(
            message=f"the key's parts are {parts!r}; give at least one, none of them empty"
        )
    words = "/".join(quote(str(part), safe=_PART) for part in parts)
    return _bounded(f"{function}/{unit}//", words, "")


@dataclass(frozen=True, slots=True)
class Fence:
    """The leadership under which the current code acts, and the work that it acts on."""

    function: str
    unit: str
    term: int
    holder: str
    leadership: Proof
    steps: StepCounter
    item: str | None = None
    step: str | None = None
    key: str | None = None

    def step_for(self, method: str, destination: str, target: str) -> str:
        """Return the step in force, or one made of method, destination and path."""
        if self.step is not None:
            return self.step
        path = target.partition("#")[0].partition("?")[0]
        return f"{method.upper()}:{destination}:{path}"

    def key_for(self, method: str, destination: str, target: str) -> str:
        if self.key is not None:
            return self.key
        return self.steps.key(self.step_for(method, destination, target))

    def take_answer(
        self,
        method: str,
        destination: str,
        target: str,
        key: str | None,
        status: int,
        headers: Mapping[str, str],
        body: bytes = b"",
    ) -> FencegateError | None:
        """Learn from the answer to a command: for every transport, once per answer.

        `key` is the Idempotency-Key header as it was sent, None on a read; `body` is needed
        only of application/problem+json. Returns the error to raise if the answer is not the
        destination's: a problem of the gateway, or the words of something in between.
        """
        if key is not None and self.key is None and proves_done(headers):
            self.steps.confirmed(self.step_for(method, destination, target), unquoted(key))
        fields = {name.lower(): value for name, value in headers.items()}
        error = error_for(status, headers, body)
        if isinstance(error, NotInCommand):
            self.leadership.refuted(error)
        elif fields.get("fence-after-dispatch") == "superseded":
            self.leadership.refuted(StaleTerm(message="done; a newer leader took over meanwhile"))
        elif error is None and "fence-verdict" not in fields:
            error = GatewayUnreachable(
                message=f"{method} {destination}:{target} was answered {status} by something else "
                "than the gateway; send the same request with the same key again"
            )
        return error


def proves_done(headers: Mapping[str, str]) -> bool:
    """Say whether an answer's headers prove the effect of this very request confirmed."""
    fields = {name.lower(): value for name, value in headers.items()}
    if fields.get("fence-outcome") != "confirmed":
        return False
    verdict, _, reason = fields.get("fence-verdict", "").partition(";")
    return verdict.strip() != "refused" or reason.strip().removeprefix("reason=") in _DONE


_current: ContextVar[Fence | None] = ContextVar("fencegate_current", default=None)


def current() -> Fence | None:
    """Return the fence in force here, or None outside of a leadership."""
    return _current.get()


def fence_headers(method: str, destination: str, target: str) -> dict[str, str]:
    """Return the header fields of a command under the leadership in force.

    `target` is path and query at the destination. Raises LeadershipLost without current proof,
    before anything is sent.
    """
    fence = current()
    if fence is None:
        raise LeadershipLost(
            message=f"{method} {destination}:{target} was not sent: no leadership is in force "
            "here; enter `with leadership:` around it"
        )
    return headers_of(fence, method, destination, target)


def headers_of(fence: Fence, method: str, destination: str, target: str) -> dict[str, str]:
    """As `fence_headers`, for a fence at hand."""
    fence.leadership.check()
    headers = {
        "Fence-Function": fence.function,
        "Fence-Term": str(fence.term),
        "Fence-Holder": fence.holder,
    }
    if fence.unit:
        headers["Fence-Unit"] = fence.unit
    if fence.item is not None:
        headers["Fence-Item"] = fence.item
    if fence.leadership.token:
        headers["Fence-Authorization"] = f"Bearer {fence.leadership.token}"
    if method.upper() not in READS:
        headers["Idempotency-Key"] = quoted(fence.key_for(method, destination, target))
    return headers


def quoted(key: str) -> str:
    """Return `key` as an RFC 8941 string."""
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def unquoted(header: str) -> str:
    """Return the key that `quoted` wrote."""
    return re.sub(r"\\(.)", r"\1", header[1:-1]) if header.startswith('"') else header


def checked_name(what: str, text: str) -> str:
    """Return `text` if it has the form of a name. Raises Malformed."""
    try:
        return parse_name(what, text)
    except core_errors.Malformed as error:
        raise Malformed(message=str(error)) from None


@contextmanager
def entered(fence: Fence) -> Iterator[Fence]:
    """Put `fence` in force for a block, and for the tasks started in it."""
    mark = _current.set(fence)
    try:
        yield fence
    finally:
        _current.reset(mark)
