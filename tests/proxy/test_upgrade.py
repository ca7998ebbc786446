"""Upgraded connections cannot be fenced command by command: refused cleanly.

| behaviour | test |
|---|---|
| a WebSocket handshake, or any other upgrade, is refused and reaches nobody | upgrade |
"""

from __future__ import annotations

import orjson
import pytest

from tests.house import House
from tests.proxy.raw_caller import ask, request
from tests.raw_destination import RawDestination

WEBSOCKET = [
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("fields", [WEBSOCKET, ["Connection: Upgrade", "Upgrade: h2c"]])
async def test_an_upgrade_is_refused(
    house: House, crm: RawDestination, fields: list[str], method: str
) -> None:
    got = await ask(house.gateway.port, request(method, "/d/crm/ws", *fields))

    assert got.status == 501
    assert orjson.loads(got.body)["type"] == "/problems/not-implemented"
    assert got.value("X-Should-Retry") == "false"
    assert crm.received == []
