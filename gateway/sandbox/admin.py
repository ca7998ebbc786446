"""/_sandbox/*: reading the journal, scripting faults, letting held requests go.

These paths are the sandbox's own. They need no token, never misbehave, and are not journalled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from gateway.sandbox.faults import (
    BadFault,
    Chaos,
    Holds,
    Script,
    Scripted,
    parse_duration,
    parse_fault,
)
from gateway.sandbox.journal import Journal, until

MATCH_WORDS = frozenset({"method", "path_prefix", "intent"})
LONGEST_WAIT_S = 60.0

Json = dict[str, Any]


def say(content: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


class Admin:
    """The handlers under /_sandbox."""

    def __init__(
        self, journal: Journal, script: Script, holds: Holds, clear: Callable[[], None]
    ) -> None:
        self._journal = journal
        self._script = script
        self._holds = holds
        self._clear = clear

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/_sandbox/health", self.health),
            web.get("/_sandbox/requests", self.requests),
            web.delete("/_sandbox/requests", self.clear),
            web.get("/_sandbox/summary", self.summary),
            web.get("/_sandbox/faults", self.faults),
            web.post("/_sandbox/faults", self.add_fault),
            web.delete("/_sandbox/faults", self.clear_faults),
            web.post("/_sandbox/chaos", self.set_chaos),
            web.delete("/_sandbox/chaos", self.clear_chaos),
            web.get("/_sandbox/holds", self.holds),
            web.post("/_sandbox/release/{name}", self.release),
            web.route("*", "/_sandbox/{rest:.*}", self.nothing_here),
        ]

    async def health(self, request: web.Request) -> web.Response:
        return say({"status": "ok"})

    async def nothing_here(self, request: web.Request) -> web.Response:
        return say({"error": f"the sandbox has no {request.method} {request.path}"}, 404)

    async def requests(self, request: web.Request) -> web.Response:
        """List entries above `since`; with `wait=5s`, first wait for there to be one."""
        try:
            since = int(request.query.get("since", "0"))
            applied = _flag(request.query.get("applied"))
            wait_s = _wait_s(request)
        except ValueError as wrong:
            return say({"error": str(wrong)}, 400)

        def found() -> bool:
            return next(self._journal.since(since, applied=applied), None) is not None

        await until(self._journal.bell, found, wait_s)
        entries = self._journal.since(since, applied=applied)
        return say([entry.to_json() for entry in entries])

    async def clear(self, request: web.Request) -> web.Response:
        self._clear()
        return web.Response(status=204)

    async def summary(self, request: web.Request) -> web.Response:
        return say(self._journal.summary())

    async def faults(self, request: web.Request) -> web.Response:
        return say(self._script.to_json())

    async def add_fault(self, request: web.Request) -> web.Response:
        try:
            self._script.queued.append(_scripted(await request.read()))
        except BadFault as wrong:
            return say({"error": str(wrong)}, 400)
        return say(self._script.to_json(), 201)

    async def clear_faults(self, request: web.Request) -> web.Response:
        self._script.clear()
        return web.Response(status=204)

    async def set_chaos(self, request: web.Request) -> web.Response:
        try:
            self._script.chaos = _chaos(await request.read())
        except BadFault as wrong:
            return say({"error": str(wrong)}, 400)
        return say(self._script.to_json(), 201)

    async def clear_chaos(self, request: web.Request) -> web.Response:
        self._script.chaos = None
        return web.Response(status=204)

    async def holds(self, request: web.Request) -> web.Response:
        """Show who waits; with `name` and `wait=5s`, first wait for that name to be waited on."""
        name = request.query.get("name")
        try:
            wait_s = _wait_s(request)
        except BadFault as wrong:
            return say({"error": str(wrong)}, 400)
        if name is not None:
            await until(self._holds.bell, lambda: name in self._holds.waiting(), wait_s)
        return say(self._holds.waiting())

    async def release(self, request: web.Request) -> web.Response:
        return say({"released": self._holds.release(request.match_info["name"])})


def _wait_s(request: web.Request) -> float:
    return min(parse_duration(request.query.get("wait", "0s")), LONGEST_WAIT_S)


def _flag(text: str | None) -> bool | None:
    if text not in {None, "true", "false"}:
        raise ValueError(f"applied is true or false, not {text!r}")
    return None if text is None else text == "true"


def _object(body: bytes) -> Json:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as wrong:
        raise BadFault(f"the body is not valid JSON: {wrong}") from wrong
    if not isinstance(content, dict):
        raise BadFault("the body must be a JSON object")
    return content


def _scripted(body: bytes) -> Scripted:
    content = _object(body)
    match, word, times = content.get("match", {}), content.get("fault"), content.get("times", 1)
    if unknown := sorted(content.keys() - {"match", "fault", "times"}):
        raise BadFault(f"unknown words {unknown}; known are match, fault and times")
    if not isinstance(match, dict) or not all(isinstance(text, str) for text in match.values()):
        raise BadFault(f"match must be an object of strings, not {match!r}")
    if unknown := sorted(match.keys() - MATCH_WORDS):
        raise BadFault(f"match knows {sorted(MATCH_WORDS)}, not {unknown}")
    if type(times) is not int or times < 1:
        raise BadFault(f"times must be a whole number from 1, not {times!r}")
    if not isinstance(word, str):
        raise BadFault(f"fault must be a word, not {word!r}")
    return Scripted(match, parse_fault(word), times)


def _chaos(body: bytes) -> Chaos:
    content = _object(body)
    seed, weights = content.get("seed", 0), content.get("weights")
    if type(seed) is not int:
        raise BadFault(f"seed must be a whole number, not {seed!r}")
    if not isinstance(weights, dict) or not weights:
        raise BadFault(f"weights must be an object of fault words, not {weights!r}")
    for word, weight in weights.items():
        if type(weight) not in {int, float} or not 0 <= weight <= 1e9:
            raise BadFault(f"the weight of {word!r} must be from 0 to 1e9, not {weight!r}")
    if not any(weights.values()):
        raise BadFault("one weight at least must be above 0")
    return Chaos(seed, weights)
