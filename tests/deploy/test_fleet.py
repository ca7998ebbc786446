"""Two gateways on a real PostgreSQL, behind the load balancer as it is shipped."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.demo.office import quiet_port
from gateway.demo.processes import Children
from tests.deploy.balanced import OFTEN, adapted
from tests.house import Got
from tests.postgres_server import Server, running_server
from tests.scenarios.caller import NoAnswer
from tests.scenarios.fleet import Fleet, balancer
from tests.scenarios.stage import until


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own, for it is stopped."""
    with running_server() as made:
        yield made


@pytest.fixture
def fleet(tmp_path: Path, server: Server) -> Iterator[Fleet]:
    with Children(tmp_path) as children:
        url = server.url(server.database())
        made = Fleet(tmp_path, children, disk=tmp_path / "var", url=url)
        yield made
        made.clear()


async def test_callers_go_on_without_a_gateway_and_read_without_a_database(
    fleet: Fleet, server: Server, tmp_path: Path
):
    program = balancer()
    if program is None:
        pytest.skip("HAProxy is not installed: callers have nobody to be shared out by")
    await fleet.open(2)
    first, second = fleet.gateways
    fleet.port = quiet_port()
    config = tmp_path / "haproxy.cfg"
    config.write_text(adapted(fleet.port, (first, second), OFTEN), "utf-8")
    fleet.children.start("haproxy", [program, "-db", "-f", str(config)])
    await until(lambda: writes(fleet), "a write")

    await fleet.kill_one(first)
    await until(lambda: writes(fleet), "a write at the other gateway")
    await asyncio.to_thread(server.stop)
    refused = await until(lambda: refuses(fleet), "a refusal without a database")
    read = await fleet.get("/d/crm/contacts")
    await asyncio.to_thread(server.start)
    await until(lambda: writes(fleet), "a write once the database is back")

    assert refused == "refused; reason=ledger-unavailable"
    assert read.status == 200
    applied = await fleet.applied_keys()
    assert len(applied) == len(set(applied)) >= 3


async def writes(fleet: Fleet) -> bool:
    got = await attempt(fleet)
    return got is not None and got.status == 201


async def refuses(fleet: Fleet) -> str | None:
    got = await attempt(fleet)
    return got.headers.get("Fence-Verdict") if got is not None and got.status == 503 else None


async def attempt(fleet: Fleet) -> Got | None:
    with suppress(NoAnswer):
        return await fleet.leader().create(str(uuid.uuid4()))
    return None
