"""A destination that speaks enough of four APIs, and fails as told.

It answers on a real socket. What it carries out is in `effects`; a fault says whether that
happens before the answer is lost, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

from tests.raw_destination import Behaviour, RawDestination, Received, Wire, answer, fin

JSON = ("Content-Type", "application/json; charset=utf-8")

CREATE = {
    "stripe": "/v1/customers",
    "slack": "/api/chat.postMessage",
    "salesforce": "/services/data/v59.0/sobjects/Contact/",
    "hubspot": "/crm/v3/objects/contacts",
}


class StandIn:
    """One vendor's API, on a RawDestination."""

    def __init__(self, vendor: str, wire: RawDestination) -> None:
        self.vendor = vendor
        self.wire = wire
        self.effects: list[dict[str, object]] = []
        wire.on(CREATE[vendor], self.carry_out)
        wire.default = self.read

    @property
    def writes(self) -> list[Received]:
        """The writes that arrived, carried out or not."""
        return [each for each in self.wire.received if each.path == CREATE[self.vendor]]

    def next(self, *behaviours: Behaviour) -> None:
        """Meet the next writes so; later ones are carried out."""
        self.wire.on(CREATE[self.vendor], *behaviours, self.carry_out)

    async def carry_out(self, request: Received, wire: Wire) -> None:
        status, said = self._act(request)
        await _say(status, said)(request, wire)

    async def lose_the_answer(self, request: Received, wire: Wire) -> None:
        """Carry it out, then hang up."""
        self._act(request)
        await fin(request, wire)

    async def fail_afterwards(self, request: Received, wire: Wire) -> None:
        """Carry it out, then answer 500."""
        self._act(request)
        await _say(500, {"error": {"message": "Something went wrong"}})(request, wire)

    async def turn_away(self, request: Received, wire: Wire) -> None:
        """Carry nothing out: 503, and come again."""
        await answer(503, b'{"message": "busy"}', [JSON, ("Retry-After", "0")])(request, wire)

    async def read(self, request: Received, wire: Wire) -> None:
        said: dict[str, object] = {"ok": True, "records": [], "totalSize": 0, "done": True}
        await _say(200, said | {"results": [], "total": 0})(request, wire)

    def _act(self, request: Received) -> tuple[int, dict[str, object]]:
        id_ = f"{self.vendor}-{len(self.effects) + 1}"
        if self.vendor == "stripe":
            fields: dict[str, object] = dict(parse_qsl(request.body.decode()))
            self.effects.append(fields)
            return 200, {"id": id_, "object": "customer", **fields}
        fields = json.loads(request.body)
        if self.vendor == "slack" and fields["channel"] == "C-GONE":
            return 200, {"ok": False, "error": "channel_not_found"}
        self.effects.append(fields)
        if self.vendor == "slack":
            return 200, {"ok": True, "channel": fields["channel"], "ts": id_}
        if self.vendor == "salesforce":
            return 201, {"id": id_, "success": True, "errors": []}
        times = {"createdAt": "2026-11-30T00:00:00Z", "updatedAt": "2026-11-30T00:00:00Z"}
        return 201, {"id": id_, "properties": fields["properties"], "archived": False, **times}


def _say(status: int, said: dict[str, object]) -> Callable[[Received, Wire], Awaitable[None]]:
    return answer(status, json.dumps(said).encode(), [JSON])
