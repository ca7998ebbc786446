"""Asking a destination about an effect, over the wire and with its login."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Final

from gateway.core.classify import Reply, Silence
from gateway.core.dress import dress
from gateway.core.errors import Malformed
from gateway.core.probe import Failed, Finding, read_probe, render_look
from gateway.core.template import RequestValues
from gateway.outbound.exchange import Outgoing
from gateway.outbound.login import login_header
from gateway.proxy import keep
from gateway.proxy.house import House
from gateway.proxy.unsettled import Matter, values_of

LOOK_MAX_BYTES: Final = 4 * 1024 * 1024


async def ask(house: House, matter: Matter) -> tuple[int | None, Finding]:
    """Ask the destination once about an effect; return the status and what it proves."""
    look = matter.route.look
    if look is None:
        return None, Failed("the route has no look")
    values = values_of(matter.effect, matter.request, matter.route)
    try:
        first_ms = house.sent_at_ms(matter.effect.attempts[0].created_at_ms)
        asked = render_look(look, values, first_sent_ms=first_ms, probe=secrets.token_hex(8))
        condition = _condition(matter, values)
    except Malformed as error:
        return None, Failed(str(error))
    login = login_header(matter.destination.login)
    now_s = house.clock.boot_s()
    limits = matter.route.limits
    got = await house.outbound.send_once(
        matter.destination,
        Outgoing(
            method=asked.method,
            target=asked.target,
            headers=[*asked.headers, login] if login else asked.headers,
            deadline_s=now_s + limits.timeout_ms / 1000,
            body=asked.body,
            send_by_s=now_s + limits.connect_ms / 1000 + 1,
        ),
    )
    if isinstance(got, Silence):
        return None, Failed(got.reason)
    body = b"" if got.is_stream else await got.read(LOOK_MAX_BYTES)
    if not got.complete:
        got.abort()
        return got.status, Failed("the answer broke off, or is too long")
    reply = Reply(got.status, got.facts_headers, keep.json_of(got, body))
    values = replace(values, first_sent_s=first_ms // 1000)
    finding = read_probe(
        look, reply, values, slow_down=matter.destination.slow_down,
        version=matter.route.version, condition=condition,
    )  # fmt: skip
    return got.status, finding


def _condition(matter: Matter, values: RequestValues) -> str:
    if matter.route.version is None:
        return ""
    request = matter.request
    made = dress(
        matter.route,
        method=request.method,
        target=request.target,
        headers=list(values.headers.items()),
        body=request.body,
        values=values,
    )
    return made.condition
