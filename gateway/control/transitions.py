"""`GET /v1/transitions`: the journal, in pages or as a stream of events.

A stream follows the journal from commit to commit. It ends in order when the gateway stops, when
what the caller may see has changed, and when the ledger cannot be read; the caller comes back
with `Last-Event-ID` and misses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aiohttp import web

from gateway.control.following import first_of
from gateway.control.lease_views import transition_out
from gateway.control.panel import Panel
from gateway.control.query import check_words, read_limit, read_number
from gateway.control.turn import TurnedAway, reply
from gateway.core.errors import StoreError
from gateway.core.ids import MAX_TERM
from gateway.core.principals import Principal
from gateway.store.lease_records import TransitionFilter, TransitionRecord
from gateway.store.queries import Reader
from gateway.web.errors import incident
from gateway.wire.leadership import TransitionPage

EVENTS: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0
STALLED_S: Final = 15.0
"""How long a caller may leave unread what is sent to it."""
_TOGETHER_S: Final = 0.02
"""What is journalled at nearly the same time is read at once, for every stream that there is."""
_WORDS: Final = ("function", "unit", "after", "limit")


async def list_transitions(
    panel: Panel, request: web.BaseRequest, principal: Principal
) -> web.Response:
    """Return a page of transitions, oldest first."""
    wanted = parse_filter(request, principal)
    reader = await panel.ledger.reader()
    found = await reader.transitions(replace(wanted, limit=wanted.limit + 1))
    page = found[: wanted.limit]
    shown = await _seen(reader, principal, page)
    more = str(page[-1].id) if len(found) > wanted.limit else None
    return reply(TransitionPage(items=[transition_out(one) for one in shown], next=more))


def wants_events(request: web.BaseRequest) -> bool:
    ranges = ",".join(request.headers.getall("Accept", ())).split(",")
    asked = {each.partition(";")[0].strip().lower() for each in ranges}
    return request.method == "GET" and EVENTS in asked


async def stream_transitions(
    panel: Panel, request: web.BaseRequest, principal: Principal, headers: dict[str, str]
) -> web.StreamResponse:
    """Send transitions as they are committed. Without an id to go on behind: from now on."""
    wanted = parse_filter(request, principal)
    if "limit" in request.query:
        raise TurnedAway("malformed", "limit is for pages; a stream goes on. Leave limit out.")
    if panel.closing.is_set():
        raise TurnedAway("draining")
    reader = await panel.ledger.reader()
    resumed = request.headers.get("Last-Event-ID")
    if resumed is not None:
        wanted = replace(wanted, after=read_number("Last-Event-ID", resumed, MAX_TERM))
    elif "after" not in request.query:
        wanted = replace(wanted, after=await latest_id(reader))
    stream = _Stream(panel, request, principal, wanted)
    response = web.StreamResponse(
        headers={
            "Content-Type": EVENTS,
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",  # or a reverse proxy would keep events back
            **headers,
        }
    )
    await response.prepare(request)
    return await stream.run(reader, response)


class _Stream:
    """One caller's stream of events."""

    def __init__(
        self,
        panel: Panel,
        request: web.BaseRequest,
        principal: Principal,
        wanted: TransitionFilter,
    ) -> None:
        self._panel = panel
        self._request = request
        self._principal = principal
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._sent_s = self._loop.time()

    async def run(self, reader: Reader, response: web.StreamResponse) -> web.StreamResponse:
        """Send events until the end. The head is gone, so nothing can become a problem now."""
        try:
            await self._follow(reader, response)
            await response.write_eof()
        except TimeoutError:
            self._cut()
        except StoreError:  # told in the log by the ledger's own watch; the caller comes back
            await response.write_eof()
        except ConnectionResetError:
            raise
        except Exception as error:  # the answer has begun: it can only be cut, and told here
            incident(error, self._panel.log, effect="none", path=self._request.path)
            self._cut()
        return response

    def _cut(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    async def _follow(self, reader: Reader, response: web.StreamResponse) -> None:
        panel = self._panel
        await self._send(response, b"retry: 2000\n\n")
        with panel.ledger.bell.listen() as rung:
            while not panel.closing.is_set() and self._still_known():
                rung.clear()
                if await self._send_next(reader, response):
                    continue
                left_s = self._sent_s + HEARTBEAT_S - self._loop.time()
                if left_s <= 0:
                    await self._send(response, b": still here\n\n")
                    continue
                await first_of(rung, panel.closing, left_s)
                if rung.is_set():
                    await asyncio.sleep(_TOGETHER_S)

    def _still_known(self) -> bool:
        """Whether the token is still good, and for the same rights."""
        panel = self._panel
        now_ms = panel.clock.wall_ms()
        now = panel.authenticator.authenticate(self._request.raw_headers, now_ms)
        return now == self._principal

    async def _send_next(self, reader: Reader, response: web.StreamResponse) -> bool:
        """Send what is new; return whether there may be more at once."""
        records = await reader.transitions(self._wanted)
        if not records:
            return False
        shown = await _seen(reader, self._principal, records)
        if shown:
            await self._send(response, b"".join(event(record) for record in shown))
        self._wanted = replace(self._wanted, after=records[-1].id)
        return len(records) == self._wanted.limit

    async def _send(self, response: web.StreamResponse, data: bytes) -> None:
        async with asyncio.timeout(STALLED_S):
            await response.write(data)
        self._sent_s = self._loop.time()


def event(record: TransitionRecord) -> bytes:
    data = transition_out(record).model_dump_json()
    return f"id: {record.id}\nevent: {record.kind}\ndata: {data}\n\n".encode()


async def _seen(
    reader: Reader, principal: Principal, records: Sequence[TransitionRecord]
) -> Sequence[TransitionRecord]:
    """Leave out what is about effects at destinations that the principal may not reach."""
    if principal.destinations is None:
        return records
    seen = []
    for record in records:
        if record.effect_id is not None:
            effect = await reader.effect(record.effect_id)
            if effect is None or not principal.may_reach(effect.destination):
                continue
        seen.append(record)
    return seen


async def latest_id(reader: Reader) -> int:
    """Return the id of the latest transition, 0 if there is none."""

    async def behind(after: int) -> int | None:
        found = await reader.transitions(TransitionFilter(after=after, limit=1))
        return found[0].id if found else None

    known, step = 0, 1
    while (found := await behind(known + step - 1)) is not None:
        known, step = found, step * 2
    while step:  # nothing is behind known + step - 1
        step //= 2
        while step and (found := await behind(known + step - 1)) is not None:
            known = found
    return known


def parse_filter(request: web.BaseRequest, principal: Principal) -> TransitionFilter:
    """Return the filter that the query says, within what the principal may see."""
    query = request.query
    check_words(query, _WORDS)
    return TransitionFilter(
        function=query.get("function"),
        unit=query.get("unit"),
        after=read_number("after", query.get("after", "0"), MAX_TERM),
        limit=read_limit(query, 100),
        only_functions=principal.functions,
    )
