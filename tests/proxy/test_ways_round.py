"""Ways round the fence that were found once, each tested as a whole kind."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from pathlib import Path

import pytest

from gateway.proxy.body import _File, _on_disk
from tests.house import FUNCTION, House
from tests.proxy.raw_caller import RawCaller, request
from tests.proxy.setting import READ, WRITE, OpenHouse, destination, raw_got
from tests.raw_destination import RawDestination, answer

DANGER = '{match: "POST /job", when: {json: {type: danger}}, does: refuse, because: "too much"}'
DANGEROUS = json.dumps({"type": "danger"}).encode()


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"\xef\xbb\xbf" + DANGEROUS, []),
        (DANGEROUS.decode().encode("utf-16"), ["Content-Type: application/json; charset=utf-16"]),
        (b'{"type": "danger", "x": NaN}', []),
        (b'{"type": "danger", "x": ' + b"9" * 5000 + b"}", []),
        (gzip.compress(DANGEROUS, mtime=0), ["Content-Encoding: gzip"]),
        (b'{"type": "danger", "x": ' + b"[" * 3000 + b"]" * 3000 + b"}", []),
        (DANGEROUS + b" " * (2 * 1024 * 1024), []),
        (b'{"type": "danger", "type": "harmless"}', []),
        (DANGEROUS, ["Content-Type: text/plain"]),
    ],
)
async def test_a_body_that_cannot_be_read_is_no_way_round_a_route_that_refuses(
    open_house: OpenHouse, crm: RawDestination, body: bytes, fields: list[str]
) -> None:
    house = await open_house(destination(crm, DANGER, WRITE))

    got = await raw_got(house, request("POST", "/d/crm/job", *fields, body=body), "POST")

    assert (got.status, got.problem) in [(403, "route-refused"), (400, "malformed")]
    assert crm.received == []


@pytest.mark.parametrize("body", [b"", b"name=value", b"plain words", b'{"type": "harmless"}'])
async def test_other_bodies_go_on_to_the_next_route(
    open_house: OpenHouse, crm: RawDestination, body: bytes
) -> None:
    house = await open_house(destination(crm, DANGER, WRITE))

    got = await raw_got(house, request("POST", "/d/crm/job", body=body), "POST")

    assert got.status == 200
    assert [received.body for received in crm.received] == [body]


@pytest.mark.parametrize(
    "name",
    [
        "X-HTTP-Method-Override", "X_HTTP_Method_Override", "X-HTTP_Method-Override",
        "x-http-method", "X_Method-Override", "X-Original-Method", "X-Original-URL",
        "X_Original_URL", "X-Rewrite-URL", "X-Original-URI",
    ],
)  # fmt: skip
async def test_no_header_changes_the_method_or_the_path_that_was_judged(
    house: House, crm: RawDestination, name: str
) -> None:
    got = await raw_got(house, request("POST", "/d/crm/x", f"{name}: DELETE", body=b"{}"), "POST")

    assert (got.status, got.problem) == (400, "malformed")
    assert name in got.json["detail"]
    assert crm.received == []


async def test_a_write_judged_by_a_policy_that_was_replaced_meanwhile_is_not_sent(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path
) -> None:
    write = '{match: "PUT /{rest*}", does: write, guard: none, covers: "COVERS/{rest}"}'
    house = await open_house(destination(crm, READ, write.replace("COVERS", "a")))
    body = b'{"slow": true}'
    data = request("PUT", "/d/crm/c/1", "Expect: 100-continue", body=body)

    async with RawCaller(house.gateway.port) as caller:
        await caller.send(data[: -len(body)])
        judged = await caller.reader.readuntil(b"\r\n\r\n")
        assert judged.startswith(b"HTTP/1.1 100")
        changed = destination(crm, READ, write.replace("COVERS", "b"))
        (tmp_path / "policies" / "crm.yaml").write_text(changed, "utf-8")
        await asyncio.wait_for(_adopted(house), 5)
        await caller.send(body)
        got = await caller.answer("PUT")

    assert got.status == 503
    assert json.loads(got.body)["reason"] == "policy-changed"
    assert crm.received == []


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("ledger.db*"))


async def _adopted(house: House) -> None:
    before = house.gateway.house.state.policies.digest
    house.gateway.policies.ask()
    while house.gateway.house.state.policies.digest == before:
        await house.gateway.policies.look()
        await asyncio.sleep(0)


async def test_an_answer_that_echoes_the_credential_is_relayed_but_not_kept(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_KEY", "crm-credential-0123456789")
    house = await open_house(
        destination(crm, login='{kind: bearer, token: "${env:CRM_KEY}"}'), function=FUNCTION
    )
    echo = [("X-Debug-Auth", "Bearer crm-credential-0123456789")]
    crm.on("/made", answer(201, b"by crm-credential-0123456789", echo))
    crm.on("/failed", answer(500, b"for crm-credential-0123456789", echo))

    made = await house.worker().post("/made", "k-1")
    again = await house.worker().post("/made", "k-1")
    failed = await house.worker().post("/failed", "k-2")

    assert (made.status, made.headers["Fence-Outcome"]) == (201, "confirmed")
    assert (again.status, again.problem) == (409, "result-unavailable")
    assert (failed.status, b"crm-credential" in failed.body) == (423, False)
    assert b"crm-credential" not in everything_in(tmp_path)
    assert len(crm.received) == 2


async def test_a_body_file_is_closed_only_when_nobody_writes_to_it_any_more(
    tmp_path: Path,
) -> None:
    # its number would belong to another file, or another caller, by the time of the write
    file = _File(tmp_path / "one.body")
    await _on_disk(file.create)
    writes, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        writes.set()
        go_on.wait(5)
        file.write(b"late")

    work = asyncio.ensure_future(_on_disk(slow))
    await asyncio.to_thread(writes.wait, 5)
    work.cancel()
    work.cancel()
    await asyncio.sleep(0)
    assert not work.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await work
    file.close()

    assert (tmp_path / "one.body").read_bytes() == b"late"
