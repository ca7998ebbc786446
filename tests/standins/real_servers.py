"""Two servers that nobody here wrote, each a process of its own on a port that was free.

Kinto keeps JSON records behind real conditions (ETag, If-Match, If-None-Match); PocketBase is an
ordinary back end with tables, unique indexes and filters.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gateway.demo.processes import Child, Children
from tests.house import Got
from tests.scenarios.caller import NoAnswer, ask

BIN = Path(sys.executable).parent
START_S = 20.0
KINTO = """
[server:main]
use = egg:waitress#main
host = 127.0.0.1
port = {port}
threads = 8

[app:main]
use = egg:kinto
kinto.storage_backend = kinto.core.storage.memory
kinto.cache_backend = kinto.core.cache.memory
kinto.permission_backend = kinto.core.permission.memory
kinto.bucket_create_principals = system.Everyone
kinto.bucket_write_principals = system.Everyone
kinto.userid_hmac_secret = of-no-use
"""
ADMIN = {"identity": "admin@example.test", "password": "of-no-use-at-all"}


@dataclass
class Server:
    """A running server, asked directly and not through the gateway."""

    port: int
    prefix: str = ""
    token: str = ""

    async def send(self, method: str, path: str, body: Any = None, **more: str) -> Got:
        """Send one request; `more` are header fields with _ for -."""
        fields = {name.replace("_", "-"): text for name, text in more.items()}
        if self.token:
            fields["Authorization"] = self.token
        data = b"" if body is None else json.dumps(body).encode()
        if data:
            fields["Content-Type"] = "application/json"
        return await ask(self.port, method, self.prefix + path, headers=fields, body=data)

    async def get(self, path: str) -> Any:
        got = await self.send("GET", path)
        assert got.status == 200, got
        return got.json

    async def make(self, method: str, path: str, body: Any = None) -> Any:
        got = await self.send(method, path, body)
        assert got.status in (200, 201), got
        return got.json


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def until_it_answers(server: Server, child: Child, path: str) -> None:
    async with asyncio.timeout(START_S):
        while True:
            child.require_running()
            try:
                await server.send("GET", path)
            except NoAnswer:
                await asyncio.sleep(0.05)  # a server of others: there is nothing else to wait for
            else:
                return


async def start_kinto(children: Children, folder: Path) -> Server:
    """Start Kinto with the collections `deals` and `notes` in the bucket `crm`."""
    server = Server(free_port(), "/v1")
    ini = folder / "kinto.ini"
    ini.write_text(KINTO.format(port=server.port), "utf-8")
    child = children.start("kinto", [str(BIN / "kinto"), "start", "--ini", str(ini)])
    await until_it_answers(server, child, "/")
    await server.make("PUT", "/buckets/crm")
    for name in ("deals", "notes"):
        await server.make("PUT", f"/buckets/crm/collections/{name}")
    return server


async def start_pocketbase(children: Children, folder: Path) -> Server:
    """Start PocketBase with the tables `deals` (each mark once) and `notes`."""
    server = Server(free_port(), "/api")
    program, data = str(BIN / "pocketbase"), str(folder / "pocketbase")
    admin = [program, "superuser", "upsert", ADMIN["identity"], ADMIN["password"], "--dir", data]
    await asyncio.to_thread(subprocess.run, admin, check=True, capture_output=True)
    serve = [program, "serve", "--http", f"127.0.0.1:{server.port}", "--dir", data]
    await until_it_answers(server, children.start("pocketbase", serve), "/health")
    said = await server.make("POST", "/collections/_superusers/auth-with-password", ADMIN)
    server.token = said["token"]
    for name, indexes in (
        ("deals", ["CREATE UNIQUE INDEX mark_once ON deals (mark)"]),
        ("notes", []),
    ):
        rules = dict.fromkeys(("listRule", "viewRule", "createRule", "updateRule"), "")
        fields = [{"name": field, "type": "text"} for field in ("title", "mark")]
        table = {"name": name, "type": "base", "fields": fields, "indexes": indexes}
        await server.make("POST", "/collections", table | rules)
    return server


async def rows(server: Server, table: str, title: str) -> list[dict[str, Any]]:
    """Return the rows of a PocketBase table with a title."""
    wanted = quote(f"title='{title}'")
    found: list[dict[str, Any]] = (
        await server.get(f"/collections/{table}/records?filter={wanted}")
    )["items"]
    return found
