"""The load balancer's files, taken by the real HAProxy, and what it does with requests."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from tests.deploy.balanced import CONFIG, ROOT, balanced
from tests.house import running_house
from tests.proxy.raw_caller import RawCaller, request
from tests.raw_destination import Behaviour, Received, Wire, answer, fin, rst
from tests.scenarios.fleet import balancer

FILES = sorted((ROOT / "deploy").glob("*.cfg"))
SELDOM = "inter 60s fastinter 60s"


@pytest.fixture
def program() -> str:
    found = balancer()
    if found is None:
        pytest.skip("HAProxy is not installed, so nobody can say what it makes of its file")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_haproxy_takes_its_file_and_warns_of_names_alone(program: str, file: Path):
    done = subprocess.run(
        [program, "-c", "-f", str(file)], capture_output=True, text=True, timeout=20, check=False
    )

    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    warnings = [line for line in said.splitlines() if "[WARNING]" in line or "[ALERT]" in line]
    assert [line for line in warnings if "could not resolve address" not in line] == []


def test_a_mistake_in_the_file_would_be_noticed(program: str, tmp_path: Path):
    broken = tmp_path / "haproxy.cfg"
    broken.write_text(CONFIG.read_text("utf-8").replace("retry-on none", "retry-on never"))

    done = subprocess.run(
        [program, "-c", "-f", str(broken)], capture_output=True, timeout=20, check=False
    )

    assert done.returncode != 0


@pytest.mark.parametrize("leaves", [fin, rst], ids=["fin", "rst"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
async def test_a_request_that_was_read_is_never_sent_again(
    program: str, tmp_path: Path, method: str, leaves: Behaviour
):
    async with balanced(program, tmp_path) as fleet:
        for gateway in fleet.gateways:
            gateway.on("/d/crm/notes", leaves)

        got = await fleet.ask(method, "/d/crm/notes", b"{}" if method != "GET" else None)

        assert (got.status, got.value("Fence-Verdict")) == (502, None)
        assert len(fleet.asked()) == 1


async def test_nor_is_one_on_a_connection_that_served_before(program: str, tmp_path: Path):
    async with balanced(program, tmp_path) as fleet, RawCaller(fleet.port) as caller:
        await fleet.until(2, "/readyz", 503)
        fleet.gateways[0].on("/d/crm/notes", answer(201), rst)
        await caller.send(request("POST", "/d/crm/notes", body=b"{}"))
        first = await caller.answer("POST")

        await caller.send(request("POST", "/d/crm/notes", body=b"{}"))
        second = await caller.answer("POST")

        assert first.status == 201
        assert second.status in (0, 502)  # it hangs up, or says that the gateway did
        assert len(fleet.asked()) == 2


async def test_a_gateway_that_cannot_be_reached_costs_one_request_and_is_out(
    program: str, tmp_path: Path
):
    async with balanced(program, tmp_path, SELDOM) as fleet:
        await fleet.gateways[0].close()

        got = [await fleet.ask("POST", "/d/crm/notes", b"{}") for _ in range(6)]

        assert sorted(one.status for one in got) == [200] * 5 + [503]
        assert [number for number, _ in fleet.asked()] == [2] * 5


async def test_a_gateway_that_is_not_ready_gets_nothing_new_and_ends_what_it_has(
    program: str, tmp_path: Path
):
    held = asyncio.Event()

    async def holding(_: Received, wire: Wire) -> None:
        await held.wait()
        await wire.send(b"HTTP/1.1 201 Done\r\nContent-Length: 0\r\n\r\n")

    async with balanced(program, tmp_path) as fleet:
        await fleet.until(2, "/readyz", 503)
        fleet.gateways[0].on("/d/crm/slow", holding)
        slow = asyncio.ensure_future(fleet.ask("POST", "/d/crm/slow", b"{}"))
        await fleet.gateways[0].until(lambda: bool(fleet.asked()))
        await fleet.until(2, "/readyz", 200)
        await fleet.until(1, "/readyz", 503)

        others = [await fleet.ask("POST", "/d/crm/notes", b"{}") for _ in range(3)]
        held.set()

        assert [one.status for one in others] == [200] * 3
        assert (await slow).status == 201
        assert [number for number, _ in fleet.asked()] == [1, 2, 2, 2]


async def test_while_none_is_ready_the_living_answer(program: str, tmp_path: Path):
    async with balanced(program, tmp_path) as fleet:
        for number in (1, 2):
            fleet.gateways[number - 1].on(
                "/d/crm/notes", answer(503, headers=[("Fence-Verdict", "refused")])
            )
            await fleet.until(number, "/readyz", 503)

        read = await fleet.ask("GET", "/d/crm/contacts")
        write = await fleet.ask("POST", "/d/crm/notes", b"{}")

        assert read.status == 200
        assert (write.status, write.value("Fence-Verdict")) == (503, "refused")


async def test_events_come_one_by_one(program: str, tmp_path: Path):
    heard = asyncio.Event()

    async def events(_: Received, wire: Wire) -> None:
        await wire.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
        )
        await heard.wait()
        await wire.send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    async with balanced(program, tmp_path) as fleet, RawCaller(fleet.port) as caller:
        for gateway in fleet.gateways:
            gateway.on("/v1/transitions", events)

        await caller.send(request("GET", "/v1/transitions"))
        await caller.until(b"data: 1")
        heard.set()

        await caller.until(b"data: 2")


@pytest.mark.parametrize(
    "target",
    ["/", "/livez", "/readyz", "/metrics", "/metrics/", "//metrics", "/%6detrics", "/d", "/v1"],
)
async def test_health_and_metrics_stay_inside(program: str, tmp_path: Path, target: str):
    async with balanced(program, tmp_path) as fleet:
        got = await fleet.ask("GET", target)

        assert got.status == 404
        assert fleet.asked() == []


@pytest.mark.parametrize(
    "target", ["/v1/../metrics", "/v1/%2e%2e/metrics", "/d/../metrics", "/problems/../readyz"]
)
async def test_no_way_round_leads_to_them(tmp_path: Path, target: str):
    # HAProxy lets these through, for it looks at how a path begins and must not rewrite it.
    async with running_house(tmp_path, {}) as house, RawCaller(house.gateway.port) as caller:
        await caller.send(request("GET", target))
        got = await caller.answer()

    assert got.status in (400, 404)
    assert b"fencegate_" not in got.body
    assert b'"ledger"' not in got.body


@pytest.mark.parametrize(
    "target", ["/d/crm/contacts/a%2Fb?", "/d/crm//x?q=%c3%a9", "/v1/leases/f?wait_s=30"]
)
async def test_the_target_arrives_as_it_was_sent(program: str, tmp_path: Path, target: str):
    async with balanced(program, tmp_path) as fleet:
        await fleet.ask("GET", target)

        assert [one.target for _, one in fleet.asked()] == [target]


def test_it_waits_longer_than_any_gateway():
    text = CONFIG.read_text("utf-8")
    longest_s = max(
        int(found)
        for file in (ROOT / "policies").glob("*.yaml")
        for found in re.findall(r"timeout: (\d+)s", file.read_text("utf-8"))
    )

    for side in ("client", "server"):
        said = re.search(rf"^ *timeout {side} (\d+)s$", text, re.MULTILINE)
        assert said is not None
        assert int(said[1]) >= longest_s + 45
