"""No token and no credential is ever told, logged or kept."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli.main import app as command_line
from tests.house import Got, House
from tests.proxy.raw_caller import request
from tests.proxy.setting import READ, WRITE, OpenHouse, destination, effects, principals, raw_got
from tests.raw_destination import RawDestination, Received, Wire, answer, rendered, rst, silent

TOKEN = "fg_ana"
CREDENTIAL = "crm-credential-0123456789"
ANA = f"Fence-Authorization: Bearer {TOKEN}"
LOGINS = {
    "bearer": '{kind: bearer, token: "${env:CRM_KEY}"}',
    "header": '{kind: header, name: X-Api-Key, value: "${env:CRM_KEY}"}',
    "basic": '{kind: basic, user: robot, password: "${env:CRM_KEY}"}',
}
LATE = '{match: "POST /late", does: write, guard: none, limits: {timeout: 300ms}}'
SECRETS = [
    TOKEN.encode(), CREDENTIAL.encode(), base64.b64encode(f"robot:{CREDENTIAL}".encode()),
    base64.b64encode(f"x:{TOKEN}".encode()),
]  # fmt: skip


async def echoes(request: Received, wire: Wire) -> None:
    """Fail, and quote the whole request, as some do when they are in trouble."""
    await wire.send(rendered(500, b"could not handle: " + request.head))


def found_in(text: bytes) -> list[bytes]:
    return [secret for secret in SECRETS if secret in text]


async def drive(house: House, crm: RawDestination) -> list[Got]:
    """Requests of every kind and with every end, all of them with a token somewhere."""
    crm.on("/echo", echoes)
    crm.on("/rst", rst)
    crm.on("/late", silent)
    crm.on("/no", answer(422, b"no"))
    basic = base64.b64encode(f"x:{TOKEN}".encode()).decode()
    sent = [
        request("POST", "/d/crm/ok", ANA, body=b"{}", key="k-1"),
        request("POST", "/d/crm/ok", ANA, body=b"{}", key="k-1"),
        request("POST", "/d/crm/ok", f"Authorization: Basic {basic}", body=b"{}"),
        request("GET", "/d/crm/echo", ANA).replace(b"/echo", b"/ok"),
        *(request("POST", f"/d/crm/{path}", ANA, body=b"{}") for path in
          ("echo", "rst", "late", "no")),
        request("POST", "/d/crm/ok", f"Authorization: Bearer {TOKEN}x", body=b"{}"),
        request("POST", "/d/crm/ok", f"Authorization: {TOKEN}", body=b"{}"),
        request("POST", "/d/crm/ok", ANA, ANA, body=b"{}"),
        request("POST", "/d/crm/ok", ANA, fence=[b"Fence-Term: x"], body=b"{}"),
        request("POST", "/d/crm/ok", ANA, fence=[], body=b"{}"),
        request("POST", "/d/nobody/ok", ANA, body=b"{}"),
        request("GET", "/d/crm/%zz", ANA),
    ]  # fmt: skip
    return [await raw_got(house, data) for data in sent]


async def told_elsewhere(house: House) -> bytes:
    """What the control plane and the command line say of it all."""
    token = {"Fence-Authorization": f"Bearer {TOKEN}"}
    pages = [
        await house.get(path, **token)
        for path in ("/v1/effects", "/v1/destinations", "/v1/destinations/crm", "/metrics",
                     "/readyz", "/livez", "/v1/nothing", "/v1/openapi.json")
    ]  # fmt: skip
    shown = await effects(house, **token)
    ledger = ["--ledger", house.gateway.settings.ledger]
    said = run("ls", *ledger), run("ls", "--json", *ledger)
    for effect in shown:
        page = await house.get(f"/v1/effects/{effect['id']}", **token)
        said += (page.body.decode(),)
    one = shown[0]["id"]
    said += run("show", one, *ledger), run("show", one, "--json", *ledger)
    assert json.loads(said[-1])["id"] == one
    return b"".join(page.body for page in pages) + "".join(said).encode()


def run(*arguments: str) -> str:
    """Run `fencegate effects …` in a thread's loop of its own, as the command line does."""
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        got = pool.submit(CliRunner().invoke, command_line, ["effects", *arguments]).result()
    assert got.exit_code == 0, got.output
    return got.output


def kept(folder: Path) -> bytes:
    """Every byte in the ledger, its log of changes and the spool."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name.endswith("-wal") for path in files)
    return b"".join(path.read_bytes() for path in files if path.suffix != ".yaml")


@pytest.mark.parametrize("kind", LOGINS)
async def test_no_secret_is_told_logged_or_kept(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, kind: str,
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes],
) -> None:  # fmt: skip
    monkeypatch.setenv("CRM_KEY", CREDENTIAL)
    house = await open_house(
        destination(crm, LATE, READ, WRITE, login=LOGINS[kind]),
        dev=False, principals=principals(tmp_path, ana=""), log_level="debug",
    )  # fmt: skip

    got = await drive(house, crm)
    elsewhere = await told_elsewhere(house)

    statuses = [each.status for each in got]
    assert statuses == [200, 200, 200, 200, 423, 423, 423, 422, 401, 401, 400, 400, 428, 404, 400]
    for each in got:
        heads = "".join(f"{name}: {value}\n" for name, value in each.headers.items())
        assert found_in(each.body + heads.encode()) == []
    assert found_in(elsewhere) == []
    assert found_in(kept(tmp_path)) == []
    logged = b"".join(capfdbinary.readouterr())
    assert logged.count(b'"decision"') >= len(got)
    assert found_in(logged) == []


@pytest.mark.parametrize("kind", LOGINS)
async def test_the_destination_gets_its_own_credential_and_none_of_the_caller_s(
    open_house: OpenHouse, crm: RawDestination, tmp_path: Path, kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("CRM_KEY", CREDENTIAL)
    house = await open_house(
        destination(crm, LATE, READ, WRITE, login=LOGINS[kind]),
        dev=False, principals=principals(tmp_path, ana=""),
    )  # fmt: skip

    await drive(house, crm)

    basic = base64.b64encode(f"robot:{CREDENTIAL}".encode()).decode()
    name, value = {
        "bearer": ("Authorization", f"Bearer {CREDENTIAL}"),
        "header": ("X-Api-Key", CREDENTIAL),
        "basic": ("Authorization", f"Basic {basic}"),
    }[kind]
    assert len(crm.received) == 7
    for received in crm.received:
        assert received.header(name) == value
        assert TOKEN.encode() not in received.head
        assert received.header("Fence-Authorization") is None


async def test_a_request_that_is_no_http_is_not_quoted_in_the_log(
    open_house: OpenHouse, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    house = await open_house(dev=False, principals=principals(tmp_path, ana=""), log_level="debug")

    for line in (f"{ANA}\x01", f"{ANA}\r\n folded"):
        got = await raw_got(house, request("POST", "/d/crm/ok", line, body=b"{}"))
        assert got.status == 400

    logged = capfdbinary.readouterr().out
    assert logged.count(b'"not-http"') == 2
    assert found_in(logged) == []


async def test_the_evidence_of_an_unknown_outcome_is_kept_without_the_credential(
    open_house: OpenHouse, crm: RawDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_KEY", CREDENTIAL)
    house = await open_house(destination(crm, login=LOGINS["bearer"]))
    crm.on("/echo", echoes)

    got = await house.worker().post("/echo", "k-1")

    assert got.status == 423
    assert "could not handle: POST /echo" in got.json["excerpt"]
    assert "Authorization: (secret)" in got.json["excerpt"]
