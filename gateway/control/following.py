"""`GET /v1/leases`: who leads what, and the long poll by which followers hear of a change."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from gateway.control.lease_views import lease_out, live_lease, page_of_leases, terms_of
from gateway.control.panel import Heirs, Panel
from gateway.control.query import check_words, read_cursor, read_limit, read_number, read_seconds
from gateway.control.scopes import scope_of, visible_leased
from gateway.control.turn import TurnedAway, reply
from gateway.core.candidates import Candidate
from gateway.core.fence import Authority
from gateway.core.ids import MAX_TERM, Scope, parse_name
from gateway.core.lease import heirs
from gateway.core.policy import Function
from gateway.core.principals import Principal
from gateway.store.lease_records import CandidateRecord, FunctionTerms, LeaseRecord
from gateway.wire.leadership import LeaseOut, LeasePage

MAX_WAIT_S: Final = 30
_FOLLOW: Final = ("unit", "wait_s", "after_version", "holder")
_LIST: Final = ("function", "cursor", "limit")
_CURSOR: Final = re.compile(r"[^/]{1,200}/[^/]{0,200}\Z")
_APART_MS: Final = 50
"""So far apart ask those behind the best candidate."""
_SAME_FOR_MS: Final = 200


async def follow_lease(
    panel: Panel, request: web.BaseRequest, principal: Principal, name: str
) -> web.Response:
    """Show a lease. With `wait_s`, wait until its version is another than `after_version`.

    Without `after_version` any change from now on is waited for, so that a follower that
    knows no version yet does not ask in a circle.
    """
    function = visible_leased(panel, principal, name)
    query = request.query
    check_words(query, _FOLLOW)
    scope = scope_of(function, query.get("unit"))
    wait_s = min(read_seconds("wait_s", query.get("wait_s", "0")), MAX_WAIT_S)
    holder = parse_name("holder", query["holder"]) if "holder" in query else None
    known: int | None = None
    if "after_version" in query:
        known = read_number("after_version", query["after_version"], MAX_TERM)
    record = await _changed(panel, scope, known, wait_s)
    return reply(await _told(panel, record, terms_of(function), holder))


async def _changed(panel: Panel, scope: Scope, known: int | None, wait_s: float) -> LeaseRecord:
    """Return the scope's lease once its version is not `known`, or when the time is over.

    Not only a newer one: a ledger that was restored from a copy has older versions.
    """
    ledger = panel.ledger
    reader = await ledger.reader()
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    with ledger.bell.listen(scope) as rung:
        while True:
            rung.clear()
            record = await reader.lease(scope, ledger.clock.now_ms())
            if known is None:
                known = record.version
            left_s = until_s - loop.time()
            if record.version != known or left_s <= 0:
                return record
            if panel.closing.is_set():
                raise TurnedAway("draining")  # an answer now would be asked for again at once
            await first_of(rung, panel.closing, left_s)


async def first_of(one: asyncio.Event, other: asyncio.Event, timeout_s: float) -> None:
    """Wait until one of the events is set, or the time is over."""
    waiting = [asyncio.ensure_future(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


async def _told(
    panel: Panel, record: LeaseRecord, terms: FunctionTerms, holder: str | None
) -> LeaseOut:
    attempt_in_ms = None
    if live_lease(record) is None:
        found, ranked = await _heirs(panel, record, terms)
        attempt_in_ms = attempt_after_ms(record, found, ranked, terms, holder)
    return lease_out(record, terms.rules.margin_ms, counted=True, attempt_in_ms=attempt_in_ms)


async def _heirs(
    panel: Panel, record: LeaseRecord, terms: FunctionTerms
) -> tuple[Sequence[CandidateRecord], Sequence[Candidate]]:
    """Return a scope's candidates, and those who may lead next in their order.

    All followers of a scope are woken at once; they are told the same order, found once.
    """
    known = panel.heirs.get(record.scope)
    same = known is not None and known.version == record.version
    if known is not None and same and record.now_ms - known.at_ms < _SAME_FOR_MS:
        return known.found, known.ranked
    reader = await panel.ledger.reader()
    found = await reader.candidates(record.scope.function, record.now_ms)
    every = [one.candidate for one in found]
    ranked = heirs(record.lease, every, record.now_ms, terms.rules, terms.eligible)
    panel.heirs[record.scope] = Heirs(record.version, record.now_ms, found, ranked)
    return found, ranked


def attempt_after_ms(
    record: LeaseRecord,
    candidates: Sequence[CandidateRecord],
    ranked: Sequence[Candidate],
    terms: FunctionTerms,
    holder: str | None,
) -> int:
    """Return after how long `holder` should ask for a free lease.

    The best candidate asks at once. The others leave it the time for which the policy prefers
    it (an earlier request would be turned away), and then ask one after the other, so that
    many followers of one lease do not all ask in the same moment.
    """
    rules = terms.rules
    place = next((at for at, one in enumerate(ranked) if one.holder == holder), None)
    if place == 0:
        return 0
    jitter_ms = random.uniform(0, _APART_MS)
    if not ranked:  # nobody is preferred; who asks first leads
        return round(random.uniform(0, min(rules.prefer_for_ms, 20 * _APART_MS)))
    behind = len(ranked) if place is None else place
    own = next((one for one in candidates if one.candidate.holder == holder), None)
    free_since_ms = record.now_ms if own is None else own.since_ms
    if record.lease is not None:
        ended_at_ms = record.lease.ended_at_ms or record.lease.expires_at_ms
        free_since_ms = max(free_since_ms, ended_at_ms)
    left_ms = max(0, free_since_ms + rules.prefer_for_ms - record.now_ms)
    apart_ms = min(rules.prefer_for_ms * behind / len(ranked), _APART_MS * (behind - 1))
    return round(left_ms + apart_ms + jitter_ms)


async def list_leases(panel: Panel, request: web.BaseRequest, principal: Principal) -> web.Response:
    """List the leases of all scopes, those of functions that were never led included."""
    query = request.query
    check_words(query, _LIST)
    limit = read_limit(query, 100)
    cursor = read_cursor(query, _CURSOR)
    only = principal.functions
    if "function" in query:
        only = frozenset({query["function"]} if principal.may_use(query["function"]) else ())
    reader = await panel.ledger.reader()
    functions = panel.policies().functions
    records = with_unled(
        await reader.leases(only, panel.ledger.clock.now_ms()),
        [f for f in functions.values() if only is None or f.name in only],
        panel.ledger.clock.now_ms(),
    )
    page, more = page_of_leases(records, cursor, limit)
    items = [
        lease_out(
            record,
            terms_of(functions.get(record.scope.function)).rules.margin_ms,
            counted=True,
        )
        for record in page
    ]
    return reply(LeasePage(items=items, next=more))


def with_unled(
    records: Sequence[LeaseRecord], functions: Sequence[Function], now_ms: int
) -> list[LeaseRecord]:
    """Add those scopes of whole functions that nobody has led yet; return all in order."""
    led = {record.scope for record in records}
    unled = [
        LeaseRecord(
            scope=Scope(function.name),
            last_term=0,
            lease=None,
            version=0,
            transitions=0,
            now_ms=now_ms,
            in_flight=0,
        )
        for function in functions
        if function.rules.authority is Authority.LEASE
        and not function.per_unit
        and Scope(function.name) not in led
    ]
    return sorted([*records, *unled], key=lambda record: record.scope)
