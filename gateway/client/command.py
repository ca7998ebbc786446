"""One request on its way to a destination through the gateway: where it goes, what it carries,
and what its answer means. The transports for httpx, requests and aiohttp share it.

Three rules that are easy to break and cost an effect each:

- The key is the fence's, never the SDK's. Stripe's SDK makes a random `Idempotency-Key` for
  each call; as a key of the gateway it would let the same work through twice.
- An answer counts as received when its last byte is there. SDKs send again when a body breaks
  off, and a step that has moved on would send under the next key.
- A redirect does not count at all: what follows it may fail, and the caller then repeats the
  whole call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.client.context import Fence, current, headers_of
from gateway.client.errors import (
    PROBLEM_TYPE,
    FencegateError,
    FenceMissing,
    Malformed,
    RouteRefused,
    error_for,
)

URL_VARIABLE: Final = "FENCEGATE_URL"
TOKEN_VARIABLE: Final = "FENCEGATE_TOKEN"
KEY: Final = "Idempotency-Key"
_DEFAULT_PORTS: Final = {"https": ":443", "http": ":80"}
_FENCE: Final = frozenset(
    {"fence-function", "fence-unit", "fence-item", "fence-term", "fence-holder"}
)


@dataclass(frozen=True, slots=True)
class Command:
    """A request as it goes to the gateway. `dropped` are lower-case names of fields to leave
    out, `added` the fields to send."""

    method: str
    destination: str
    target: str
    url: str
    added: Mapping[str, str]
    dropped: frozenset[str]
    fence: Fence | None = None
    missing: FenceMissing | None = None

    def fields(self, given: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the header fields to send in place of `given`."""
        kept = [(name, value) for name, value in given if name.lower() not in self.dropped]
        return kept + list(self.added.items())

    def take_answer(
        self, status: int, headers: Mapping[str, str], body: bytes = b""
    ) -> FencegateError | None:
        """Learn from an answer that is here to its last byte; once per answer.

        Returns the error to raise if the answer is the gateway's own problem.
        """
        if self.fence is None:
            error = error_for(status, headers, body)
        else:
            key = None if 300 <= status < 400 else self.added.get(KEY)
            error = self.fence.take_answer(
                self.method, self.destination, self.target, key, status, headers, body
            )
        # the gateway says which header is missing; we know why
        return self.missing if self.missing and isinstance(error, FenceMissing) else error

    def when_whole(self, status: int, headers: Mapping[str, str]) -> Callable[[], None]:
        """Return what to call at the last byte of an answer of the destination."""

        def whole() -> None:
            self.take_answer(status, headers)

        return whole


def needs_reading(headers: Mapping[str, str]) -> bool:
    """Say whether the body must be read to know whose answer it is. What stands between may
    answer too, and without a verdict."""
    kind = headers.get("Content-Type") or ""
    ours = kind.partition(";")[0].strip().lower() == PROBLEM_TYPE
    return ours or headers.get("Fence-Verdict") is None


class Gate:
    """Knows where the gateway is, and which destination stands behind an origin.

    `destinations` maps an origin, or an origin and the path that the destination's `base_url`
    has, to the destination's name: `{"https://api.hubapi.com": "hubspot"}`. Without `gateway`
    and `token`, those of the leadership in force are used, or FENCEGATE_URL and FENCEGATE_TOKEN.

    `wait_s` asks the gateway to hold a repeated request until the first one is answered,
    rather than refuse it as `in-flight`.
    """

    def __init__(
        self,
        destinations: Mapping[str, str],
        *,
        gateway: str | None = None,
        token: str | None = None,
        wait_s: int | None = None,
    ) -> None:
        self._destinations: list[tuple[str, str, str]] = []
        for url, name in destinations.items():
            origin, path = split_url(url)
            self._destinations.append((origin, path.rstrip("/"), name))
        self._destinations.sort(key=lambda known: -len(known[1]))
        self._gateway = gateway
        self._token = token
        self._wait_s = wait_s

    def command(self, method: str, url: str, given: Mapping[str, str]) -> Command:
        """Return how a request to `url` with the header fields `given` goes to the gateway.

        Raises LeadershipLost where a leadership is in force without current proof, and
        RouteRefused for an origin that no destination is known for; nothing is sent then.
        """
        method = method.upper()
        fence = current()
        gateway = where_is(self._gateway)
        destination, target = self._destination(method, url, gateway)
        lower = {name.lower(): value for name, value in given.items()}
        added: dict[str, str] = {}
        dropped: set[str] = set()
        missing: FenceMissing | None = None
        if "fence-function" in lower:
            fence = None  # the caller says it all itself, its key too
        else:
            dropped |= _FENCE | {"idempotency-key"}
            if fence is not None:
                added, missing = _fenced(fence, method, destination, target)
        token = self._token
        if token is None and "Fence-Authorization" not in added:
            token = os.environ.get(TOKEN_VARIABLE)
        if token:
            added["Fence-Authorization"] = f"Bearer {token}"
        if "Fence-Authorization" in added:
            dropped |= {"authorization", "fence-authorization"}
        if self._wait_s is not None and KEY in added:
            asked = [lower["prefer"]] if "prefer" in lower else []
            added["Prefer"] = ", ".join([*asked, f"wait={self._wait_s}"])
            dropped.add("prefer")
        whole = f"{gateway}/d/{destination}{target}"
        return Command(
            method, destination, target, whole, added, frozenset(dropped), fence, missing
        )

    def _destination(self, method: str, url: str, gateway: str) -> tuple[str, str]:
        origin, target = split_url(url)
        for known, prefix, name in self._destinations:
            rest = target[len(prefix) :]
            if known == origin and target.startswith(prefix) and rest[:1] in ("", "/", "?"):
                return name, rest if rest.startswith("/") else f"/{rest}"
        own, path = split_url(gateway)
        doors = f"{path.rstrip('/')}/d/"
        if origin == own and target.startswith(doors):
            name, slash, rest = target[len(doors) :].partition("/")
            if slash and "?" not in name:
                return name, f"/{rest}"
        raise RouteRefused(
            message=f"{method} {origin} was not sent: no destination is given for it. Add it to "
            "`destinations`, or use a client of its own for what needs no fence"
        )


def where_is(gateway: str | None = None) -> str:
    """Return the gateway's URL. Raises Malformed if nobody says it."""
    fence = current()
    url = gateway or (fence and fence.leadership.url) or os.environ.get(URL_VARIABLE)
    if not url:
        raise Malformed(
            message="nothing was sent: nobody says where the gateway is; give `gateway=`, "
            f"set {URL_VARIABLE}, or call under a leadership"
        )
    return url.rstrip("/")


def door(gateway: str | None, destination: str) -> str:
    """Return the base URL of a destination at the gateway."""
    return f"{where_is(gateway)}/d/{destination}"


def _fenced(
    fence: Fence, method: str, destination: str, target: str
) -> tuple[dict[str, str], FenceMissing | None]:
    try:
        return headers_of(fence, method, destination, target), None
    except FenceMissing as missing:
        # It may be a read by POST, which needs no key. If it is not, the gateway refuses it.
        return headers_of(fence, "GET", destination, target), missing


def split_url(url: str) -> tuple[str, str]:
    """Return origin and target of a URL, the target as it stands. Raises Malformed."""
    scheme, found, rest = url.partition("://")
    scheme = scheme.lower()
    if not found or scheme not in _DEFAULT_PORTS:
        raise Malformed(message=f"{url[:80]!r} is not a URL; give it as https://host/path")
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    authority = rest[:end].rpartition("@")[2].lower().removesuffix(_DEFAULT_PORTS[scheme])
    target = rest[end:].partition("#")[0]
    return f"{scheme}://{authority}", target if target.startswith("/") else f"/{target}"
