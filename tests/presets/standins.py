"""Stripe and HubSpot, as far as an unknown outcome needs them, on a real socket."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from tests.raw_destination import Received, Wire, answer, fin

JSON = ("Content-Type", "application/json")


async def say(request: Received, wire: Wire, status: int, body: Any, *fields: Any) -> None:
    await answer(status, json.dumps(body).encode(), [JSON, *fields])(request, wire)


@dataclass
class Stripe:
    """Keeps the first answer under each key, and refuses the key of another request."""

    objects: list[dict[str, str]] = field(default_factory=list)
    declines: bool = False
    loses: list[str] = field(default_factory=list)
    """What becomes of the next writes: `answer` (carried out, then silence)."""
    kept: dict[str, tuple[bytes, int, Any]] = field(default_factory=dict)

    async def __call__(self, request: Received, wire: Wire) -> None:
        key = request.header("Idempotency-Key")
        if key is None:
            await say(request, wire, 400, {"error": {"type": "no key in the test"}})
            return
        if key in self.kept:
            body, status, said = self.kept[key]
            if body != request.body:
                await say(request, wire, 400, {"error": {"type": "idempotency_error"}})
                return
            await say(request, wire, status, said, ("Idempotent-Replayed", "true"))
            return
        status, said = self._act(request)
        self.kept[key] = (request.body, status, said)
        if self.loses and self.loses.pop(0) == "answer":
            await fin(request, wire)
            return
        await say(request, wire, status, said)

    def _act(self, request: Received) -> tuple[int, Any]:
        if self.declines:
            return 402, {"error": {"type": "card_error", "code": "card_declined"}}
        self.objects.append(dict(parse_qsl(request.body.decode())))
        return 200, {"id": f"cus_{len(self.objects)}", "object": "customer"}


@dataclass
class HubSpot:
    """Records with two unique properties: the e-mail, and our mark."""

    records: list[dict[str, str]] = field(default_factory=list)
    loses: list[str] = field(default_factory=list)
    """What becomes of the next writes: `answer` (carried out, then silence), or `request`."""

    async def __call__(self, request: Received, wire: Wire) -> None:
        if request.method == "GET":
            await self._read(request, wire)
            return
        lost = self.loses.pop(0) if self.loses else ""
        if lost == "request":
            await fin(request, wire)
            return
        given: dict[str, str] = json.loads(request.body)["properties"]
        for number, record in enumerate(self.records, start=6001):
            if record["email"] == given["email"]:
                text = f"Contact already exists. Existing ID: {number}"
                said = {"status": "error", "message": text, "category": "CONFLICT"}
                await say(request, wire, 409, said)
                return
            assert record["fence_effect"] != given["fence_effect"], "two records with one mark"
        self.records.append(given)
        if lost == "answer":
            await fin(request, wire)
            return
        await say(request, wire, 201, self._shown(len(self.records) - 1))

    async def _read(self, request: Received, wire: Wire) -> None:
        path, _, query = request.target.partition("?")
        assert dict(parse_qsl(query))["idProperty"] == "fence_effect"
        mark = unquote(path.rpartition("/")[2])
        for at, record in enumerate(self.records):
            if record["fence_effect"] == mark:
                await say(request, wire, 200, self._shown(at))
                return
        await say(request, wire, 404, {"status": "error", "category": "OBJECT_NOT_FOUND"})

    def _shown(self, at: int) -> dict[str, Any]:
        return {"id": str(6001 + at), "properties": self.records[at], "archived": False}
