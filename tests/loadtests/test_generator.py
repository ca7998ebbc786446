"""The load generator and the bare pass-throughs, against the real dumb destination."""

from __future__ import annotations

import re

import pytest

from gateway.demo.processes import Children, python, wait_for_port
from loadtests.driver import Driver, Target, lua_script
from loadtests.generator import build, percentile
from loadtests.http_bytes import body_bytes_of, message_end


@pytest.fixture
def started(tmp_path):
    with Children(tmp_path) as children:

        def start(name: str, *command: str) -> str:
            port_file = tmp_path / f"{name}.port"
            arguments = python("-m", *command, "--port-file", str(port_file))
            child = children.start(name, arguments)
            return f"http://127.0.0.1:{wait_for_port(child, port_file)}"

        yield start


def test_every_request_is_answered_and_counted(started):
    upstream = started("destination", "loadtests.upstream")

    report = Driver().run(Target("direct", f"{upstream}/notes"), connections=4, requests=200)

    assert report["requests"] == 200
    assert report["statuses"] == {"200": 200}
    assert report["broken_connections"] == 0
    assert 0 < report["p50_us"] <= report["p99_us"] <= report["max_us"]


@pytest.mark.parametrize("flavour", ["application", "server"])
def test_the_pass_throughs_pass_on_what_they_get(started, flavour):
    upstream = started("destination", "loadtests.upstream")
    passing = ("loadtests.passthrough", "--upstream", upstream, "--flavour", flavour)
    proxy = started("proxy", *passing)

    report = Driver().run(Target(flavour, f"{proxy}/notes"), connections=2, requests=50)

    assert report["statuses"] == {"200": 50}


def test_a_refusal_is_counted_as_not_2xx(started, tmp_path):
    upstream = started("destination", "loadtests.upstream")
    proxy = started("proxy", "loadtests.passthrough", "--upstream", upstream)
    broken = Target("broken", f"{proxy}/notes", headers={"Expect": "a-miracle"})

    report = Driver().run(broken, connections=1, requests=3)

    assert report["not_2xx"] == 3


def test_each_request_names_another_key_and_the_asked_body():
    run = build(
        "http://127.0.0.1:1/d/crm/notes?x=1",
        method="POST",
        headers=["Fence-Term: 1"],
        body_bytes=300,
        requests=None,
    )

    sent = [run.request() for _ in range(50)]

    keys = {re.search(rb"Idempotency-Key: ([0-9a-f]{32})\r\n", one)[1] for one in sent}
    head, _, body = sent[0].partition(b"\r\n\r\n")
    assert len(keys) == 50
    assert head.startswith(b"POST /d/crm/notes?x=1 HTTP/1.1\r\n")
    assert len(body) == body_bytes_of(head + b"\r\n") == 300


def test_the_wrk_script_sends_the_same():
    target = Target("writes", "http://127.0.0.1:1/notes", headers={"Fence-Term": "1"})

    script = lua_script(target)

    assert '["Fence-Term"] = "1"' in script
    assert "string.rep('x', 289)" in script
    assert "@" not in script


@pytest.mark.parametrize(
    ("held", "end"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 40),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", -1),
        (b"HTTP/1.1 200 OK\r\nContent-Le", -1),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 27),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 59),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", -1),
    ],
)
def test_an_answer_ends_where_http_says(held, end):
    assert message_end(held) == end


def test_percentiles_come_from_the_ordered_values():
    assert percentile(list(range(1, 101)), 0.50) == 51
    assert percentile(list(range(1, 101)), 0.99) == 100
    assert percentile([], 0.99) == 0.0
