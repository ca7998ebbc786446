"""The control plane's front: what is there by which method, ids of requests, and incidents."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

import pytest

from gateway.wire.problem import PROBLEMS
from tests.control.office import Office
from tests.proxy.raw_caller import ask

READ = "GET, HEAD"


async def call(office: Office, method: str, path: str, **headers: str) -> Any:
    async with office.house.session.request(
        method, f"{office.house.url}{path}", headers=headers
    ) as got:
        body = await got.read()
    return got, json.loads(body) if body.startswith(b"{") else body


@pytest.mark.parametrize(
    "path",
    ["/none", "/v1", "/v1/none", "/v1/effects/x/y", "/v1/effects/x/resolve/y", "/v1/leases/f/brew",
     "/v1/candidates", "/v1/functions/f/x", "/v1/transitions/1",
     "/v2/effects", "/problems/none", "/livez/x", "/d", "/favicon.ico", "/%FF", "/%00"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_what_is_not_there_is_a_problem(office: Office, method: str, path: str) -> None:
    got, said = await call(office, method, path)

    assert (got.status, said["type"]) == (404, "/problems/not-found")
    assert got.headers["Fence-Verdict"] == "refused; reason=not-found"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/", READ),
        ("POST", "/livez", READ),
        ("PUT", "/readyz", READ),
        ("DELETE", "/metrics", READ),
        ("POST", "/problems", READ),
        ("POST", "/problems/stale-term", READ),
        ("POST", "/v1/effects", READ),
        ("DELETE", "/v1/effects/x", READ),
        ("GET", "/v1/effects/x/resolve", "POST"),
        ("HEAD", "/v1/effects/x/resolve", "POST"),
        ("PATCH", "/v1/destinations", READ),
        ("OPTIONS", "/v1/destinations/crm", READ),
        ("POST", "/v1/openapi.json", READ),
        ("POST", "/v1/leases/f", READ),
        ("GET", "/v1/leases/f/acquire", "POST"),
        ("GET", "/v1/candidates/f/h", "PUT, DELETE"),
        ("POST", "/v1/functions", READ),
        ("DELETE", "/v1/transitions", READ),
        ("TRACE", "/livez", READ),
    ],
)
async def test_another_method_is_told_which_ones_there_are(
    office: Office, method: str, path: str, allow: str
) -> None:
    got, said = await call(office, method, path)

    assert got.status == 405
    assert got.headers["Allow"] == allow
    assert got.headers["Content-Type"] == "application/problem+json"
    if method != "HEAD":
        assert said["type"] == "/problems/method-unsupported"
        assert repr(method) in said["detail"]


@pytest.mark.parametrize(
    "path", ["/", "/livez", "/metrics", "/problems/", "/v1/effects", "/v1/openapi.json", "/none"]
)
async def test_head_says_what_get_says_without_the_body(office: Office, path: str) -> None:
    port = office.house.gateway.port
    line = f"HEAD {path} HTTP/1.1\r\nHost: fence\r\nConnection: close\r\n\r\n".encode()
    head = await ask(port, line, "HEAD")
    get = await ask(port, line.replace(b"HEAD", b"GET"), "GET")

    assert head.status == get.status
    assert head.body == b""
    assert get.body
    assert head.value("Content-Type") == get.value("Content-Type")


async def test_livez_says_which_version_is_alive(office: Office) -> None:
    got = await office.house.get("/livez")

    assert got.json == {"status": "alive", "version": office.panel.version}


async def test_readyz_says_what_is_in_force(office: Office) -> None:
    said = (await office.house.get("/readyz")).json

    assert (said["status"], said["reasons"]) == ("ready", [])
    assert said["ledger"] == {"ok": True, "unwritten": 0, "unsafe": False}
    assert said["policies"]["destinations"] == ["crm", "erp"]
    assert said["policies"]["digest"] == office.panel.policies().digest


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("draining", True, "draining"),
        ("ledger_error", "disk full", "the ledger cannot be written: disk full"),
        ("unwritten", 3, "3 outcomes are not written to the ledger yet"),
    ],
)
async def test_readyz_says_why_no_traffic_should_come(
    office: Office, attribute: str, value: object, reason: str
) -> None:
    setattr(office.house.gateway.house.state, attribute, value)

    got = await office.house.get("/readyz")

    assert got.status == 503
    assert (got.json["status"], got.json["reasons"]) == ("not-ready", [reason])
    assert (await office.house.get("/livez")).status == 200


@pytest.mark.parametrize("slug", sorted(PROBLEMS))
async def test_every_problem_has_a_page_at_its_type(office: Office, slug: str) -> None:
    got = await office.house.get(f"/problems/{slug}")

    assert got.status == 200
    assert got.headers["Content-Type"].startswith("text/html")
    assert slug in got.body.decode()
    assert escape(PROBLEMS[slug].title) in got.body.decode()


async def test_the_index_links_every_problem(office: Office) -> None:
    text = (await office.house.get("/problems/")).body.decode()

    assert re.findall(r'href="/problems/([a-z-]+)"', text) == sorted(PROBLEMS)


async def test_the_type_of_a_problem_is_the_path_of_its_page(office: Office) -> None:
    await office.unknown()
    refused = [
        await office.house.get("/v1/none"),
        await office.house.get("/v1/effects?limit=0"),
        await office.send("k-1"),
        await office.send("k-2", term=1),
    ]

    for got in refused:
        page = await office.house.get(got.json["type"])
        assert page.status == 200
        assert escape(got.json["title"]) in page.body.decode()


async def test_a_request_keeps_the_id_that_it_came_with(office: Office) -> None:
    for path in ("/livez", "/v1/effects", "/none"):
        own = await office.house.get(path, **{"Fence-Request-Id": "req-1:a.b_c"})
        other = await office.house.get(path, **{"X-Request-Id": "edge-7"})
        assert own.headers["Fence-Request-Id"] == "req-1:a.b_c"
        assert other.headers["Fence-Request-Id"] == "edge-7"


async def test_a_request_without_a_usable_id_gets_one(office: Office) -> None:
    given = [
        (await office.house.get("/livez", **headers)).headers["Fence-Request-Id"]
        for headers in ({}, {}, {"Fence-Request-Id": "not an id"}, {"X-Request-Id": "a" * 129})
    ]

    assert len(set(given)) == 4
    assert all(re.fullmatch(r"[0-9a-f]{16}", each) for each in given)


async def test_a_malformed_field_of_ours_is_refused_here_too(office: Office) -> None:
    got = await office.house.get("/v1/effects", **{"Fence-Term": "seven"})

    assert (got.status, got.problem) == (400, "malformed")
    assert got.headers["Fence-Request-Id"]


async def test_a_body_that_breaks_its_framing_is_malformed(office: Office) -> None:
    head = (
        "POST /v1/effects/x/resolve HTTP/1.1\r\nHost: fence\r\n"
        "Transfer-Encoding: chunked\r\n\r\n5\r\n{"
    )
    got = await ask(office.house.gateway.port, head.encode() + b"zzzzzzzzzz\r\n", "POST")

    assert got.status == 400


@pytest.mark.parametrize("path", ["/v1/effects", "/metrics", "/v1/destinations"])
async def test_what_nobody_foresaw_is_an_incident_and_never_a_bare_500(
    open_office: Any, path: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    office: Office = await open_office()

    def burst(*_: object) -> None:
        raise RuntimeError("the secret cause")

    for part, name in (("ledger", "reader"), ("metrics", "render")):
        monkeypatch.setattr(getattr(office.panel, part), name, burst)
    monkeypatch.setattr(office.panel, "policies", burst)

    got = await office.house.get(path, **{"Fence-Request-Id": "req-9"})

    assert (got.status, got.problem) == (500, "internal")
    assert got.headers["Fence-Request-Id"] == "req-9"
    assert got.json["effect"] == "none"
    assert "secret cause" not in got.body.decode()
    (line,) = [
        json.loads(line)
        for line in capfdbinary.readouterr().out.splitlines()
        if b'"msg":"incident"' in line
    ]
    assert line["incident"] == got.json["incident"]
    assert (line["level"], line["request_id"]) == ("error", "req-9")
    assert "RuntimeError: the secret cause" in line["exception"]
    assert (await office.house.get("/livez")).status == 200
