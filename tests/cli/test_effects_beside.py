"""`fencegate effects` beside a running gateway: on its file, and through it with --url."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.exits import Exit
from tests.cli.terminal import Ended, call, run_beside
from tests.house import FUNCTION, House, running_house
from tests.proxy.setting import destination, principals
from tests.raw_destination import RawDestination, rst

SECRET = "fg_olga"  # the token that `principals` gives to olga
SEND = {"Fence_Authorization": "Bearer fg_ana"}


class Running:
    """A gateway with one confirmed and one unknown effect, and the ways to ask about them."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.folder = folder
        self.ledger = f"sqlite:///{folder / 'ledger.db'}"
        self.unknown = ""

    async def fill(self, crm: RawDestination) -> None:
        await self.house.worker().post("/notes", "k-1", **SEND)
        crm.on("/lost", rst)
        self.unknown = (await self.house.worker().post("/lost", "k-2", **SEND)).headers[
            "Fence-Effect"
        ]

    async def v1(self, path: str) -> Any:
        return (await self.house.get(path, **{"Fence-Authorization": f"Bearer {SECRET}"})).json

    async def ask(self, *words: object, token: str = SECRET, url: str = "") -> Ended:
        given = {"FENCEGATE_TOKEN": token} if token else {}
        return await run_beside("effects", *words, "--url", url or self.house.url, **given)

    async def on_file(self, *words: object) -> Ended:
        return await run_beside("effects", *words, "--ledger", self.ledger)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    people = principals(tmp_path, ana="", olga="role: operator", vera="role: viewer")
    async with (
        RawDestination() as crm,
        running_house(
            tmp_path, {"crm": destination(crm), "relatorio": FUNCTION}, dev=False, principals=people
        ) as house,
    ):
        running = Running(house, tmp_path)
        await running.fill(crm)
        yield running


async def test_the_file_of_a_running_gateway_is_read_like_one_at_rest(running: Running) -> None:
    listed = await running.on_file("ls", "--json")
    shown = await running.on_file("show", running.unknown, "--json")

    assert listed.json == await running.v1("/v1/effects")
    assert shown.json == await running.v1(f"/v1/effects/{running.unknown}")
    assert (await running.house.get("/readyz")).status == 200


async def test_a_gateway_tells_the_same_as_its_file(running: Running) -> None:
    listed = await running.ask("ls", "--json", "--outcome", "unknown")
    shown = await running.ask("show", running.unknown, "--json")
    told = await running.ask("show", running.unknown)

    assert listed.json == await running.v1("/v1/effects?outcome=unknown")
    assert shown.json == await running.v1(f"/v1/effects/{running.unknown}")
    assert told.out == (await running.on_file("show", running.unknown)).out
    assert SECRET not in listed.out + shown.out + told.out


async def test_the_file_is_not_written_while_a_gateway_owns_it(running: Running) -> None:
    ended = await running.on_file(
        "resolve", running.unknown, "--as", "confirmed", "--reason", "seen"
    )

    assert ended.code == Exit.UNAVAILABLE
    assert "in use by process" in ended.said
    assert "--url" in ended.said
    assert (await running.v1(f"/v1/effects/{running.unknown}"))["outcome"] == "unknown"


async def test_a_decision_goes_through_the_gateway(running: Running) -> None:
    words = ("resolve", running.unknown, "--as", "confirmed", "--reason", "note 5 is there")
    stale = await running.ask(*words, "--version", 99)
    early = await running.ask("resolve", running.unknown, "--as", "no-effect", "--reason", "no")
    done = await running.ask(*words)
    again = await running.ask(*words)

    assert [ended.code for ended in (stale, early, done, again)] == [5, 5, 0, 5]
    assert "409" in stale.said
    seal_at = (await running.v1(f"/v1/effects/{running.unknown}"))["attempts"][0]["seal_at"]
    assert seal_at in early.said
    assert "confirmed, by operator" in done.out
    assert "The effect is confirmed" in again.said


async def test_the_token_may_stand_in_a_file(running: Running, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")

    ended = await running.ask("ls", "--token-file", file, token="")

    assert ended.code == Exit.OK
    assert running.unknown in ended.out


@pytest.mark.parametrize(
    ("words", "token", "code", "said"),
    [
        (["ls"], "", 1, "carries no token"),
        (["ls"], "fg_wrong-token", 1, "not one of this gateway's"),
        (["ls", "--cursor", "nonsense"], SECRET, 2, "'nonsense'"),
        (["show", "nobody"], SECRET, 4, "'nobody'"),
        (["show", "../destinations"], SECRET, 4, "404"),
        (["show", "a b\n"], SECRET, 4, "404"),
        (["show", ""], SECRET, 4, "''"),
        (["resolve", "x", "--as", "confirmed", "--reason", "r"], "fg_vera", 1, "no operator"),
        (["resolve", "x", "--as", "confirmed", "--reason", "r"], SECRET, 4, "404"),
    ],
)
async def test_what_the_gateway_refuses_is_told_with_a_way_on(
    running: Running, words: list[str], token: str, code: int, said: str
) -> None:
    ended = await running.ask(*words, token=token)

    assert ended.code == code
    assert said in ended.said
    assert "fg_" not in ended.err
    if "token" in said or "gateway's" in said:
        assert "FENCEGATE_TOKEN or --token-file" in ended.said


class _Elsewhere(BaseHTTPRequestHandler):
    """Something that is no gateway, and would like to have the token."""

    seen: list[str | None] = []  # noqa: RUF012 - one list for all
    other = ""

    def do_GET(self) -> None:
        self.seen.append(self.headers["Fence-Authorization"])
        status, body = {
            "/redirect": (302, b""), "/list": (200, b"[]"), "/text": (200, b"hello"),
            "/other": (200, b'{"hello": 1}'), "/page": (404, b"<h1>no such page</h1>"),
            "/down": (502, b"bad gateway"),
        }[self.path[: self.path.index("/v1")]]  # fmt: skip
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"{self.other}/list/v1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@contextmanager
def elsewhere() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        _Elsewhere.other = f"http://localhost:{server.server_port}"
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/redirect", 1, "302"),
        ("/list", 6, "does not answer as a gateway does"),
        ("/other", 6, "does not answer as a gateway does"),
        ("/text", 6, "is --url right?"),
        ("/page", 4, "no such page"),
        ("/down", 6, "502"),
    ],
)
def test_what_is_no_gateway_is_told_apart(path: str, code: int, said: str):
    _Elsewhere.seen.clear()
    with elsewhere() as url:
        ended = call("effects", "ls", "--url", f"{url}{path}", FENCEGATE_TOKEN=SECRET)

    assert ended.code == code
    assert said in ended.said
    assert SECRET not in ended.err
    assert _Elsewhere.seen == [f"Bearer {SECRET}"]


def test_a_gateway_that_does_not_run_is_told_so():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ended = call("effects", "ls", "--url", url, FENCEGATE_TOKEN=SECRET)

    assert ended.code == Exit.UNAVAILABLE
    assert url in ended.said
    assert "Connection refused" in ended.said
    assert SECRET not in ended.err


@pytest.mark.parametrize(
    "url",
    ["localhost:8080", "ftp://localhost", "http://", "http://[::1", "http://host:port",
     "http://h:99999", "http://user:s3cret@localhost:1", "http://h:1/?token=1", "http://h :1"],
)  # fmt: skip
def test_an_address_of_another_form_is_refused(url: str):
    ended = call("effects", "ls", "--url", url, FENCEGATE_TOKEN=SECRET)

    assert ended.code == Exit.REFUSED_TO_START
    assert "--url" in ended.said
    assert "s3cret" not in ended.err


@pytest.mark.parametrize(
    "token", ["fg_olga\nX-Evil: 1", "fg_olga fg_olga", "fg_ölga", "fg_olga\x7f"]
)
def test_what_cannot_be_a_token_is_not_sent_and_not_shown(token: str, tmp_path: Path):
    file = tmp_path / "token"
    file.write_text(token)

    by_variable = call("effects", "ls", "--url", "http://127.0.0.1:1", FENCEGATE_TOKEN=token)
    by_file = call("effects", "ls", "--url", "http://127.0.0.1:1", "--token-file", file)

    for ended, source in ((by_variable, "FENCEGATE_TOKEN"), (by_file, str(file))):
        assert ended.code == Exit.REFUSED_TO_START
        assert source in ended.said
        assert "olga" not in ended.err.replace(str(file), "")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_token_file_that_cannot_be_used_is_named(content: bytes | None, tmp_path: Path):
    file = tmp_path / "secret-place"
    if content is not None:
        file.write_bytes(content)

    ended = call("effects", "ls", "--url", "http://127.0.0.1:1", "--token-file", file)

    assert ended.code == Exit.REFUSED_TO_START
    assert str(file) in ended.said
