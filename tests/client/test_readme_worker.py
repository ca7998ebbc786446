"""The worker of the README runs as it stands there, and a second run repeats nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import aiohttp

from gateway.sandbox.server import build_app, running
from tests.house import running_house

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
ITEMS = ["2026-11-30:acme", "2026-11-30:globex", "2026-11-30:initech"]


def worker_of_the_readme() -> str:
    found = re.search(r"<!-- worker.py -->\n```python\n(.*?)```", README, re.DOTALL)
    assert found is not None, "the README has no worker any more"
    return found[1]


def shipped_policies(crm: str) -> dict[str, str]:
    """The example policies, with the sandbox at the address that it has here."""
    files = {file.stem: file.read_text("utf-8") for file in (ROOT / "policies").glob("*.yaml")}
    assert files["crm"].count("http://127.0.0.1:9100") == 1
    return files | {"crm": files["crm"].replace("http://127.0.0.1:9100", crm)}


async def run(file: Path, worker: str, url: str) -> list[str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        str(file),
        worker,
        env=os.environ | {"FENCEGATE_URL": url, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await asyncio.wait_for(child.communicate(), 30)
    finally:
        if child.returncode is None:
            child.kill()
    assert child.returncode == 0, errors.decode()
    return out.decode().splitlines()


async def asked(crm: str, path: str, **how: Any) -> Any:
    method = "POST" if how else "GET"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, crm + path, **how) as got,
    ):
        return await got.json()


def test_the_worker_has_at_most_forty_lines():
    assert len(worker_of_the_readme().splitlines()) <= 40


async def test_the_readmes_worker_sends_once_and_its_successor_repeats_nothing(tmp_path: Path):
    file = tmp_path / "worker.py"
    file.write_text(worker_of_the_readme(), "utf-8")
    async with running(build_app()) as crm, running_house(tmp_path, shipped_policies(crm)) as house:
        first = await run(file, "ana", house.url)
        second = await run(file, "bo", house.url)
        received = await asked(crm, "/_sandbox/requests")

    assert first == [f"term 1: {item} sent" for item in ITEMS]
    assert second == [f"term 2: {item} was there already" for item in ITEMS]
    assert [(one["method"], one["target"], one["applied"]) for one in received] == [
        ("POST", "/notes", True)
    ] * 3
    assert [json.loads(one["body"])["text"] for one in received] == [
        f"proposal {item}: {amount}" for item, amount in zip(ITEMS, (1200, 900, 450), strict=True)
    ]


async def test_the_readmes_worker_does_not_say_sent_of_what_was_rejected(tmp_path: Path):
    file = tmp_path / "worker.py"
    file.write_text(worker_of_the_readme(), "utf-8")
    async with running(build_app()) as crm, running_house(tmp_path, shipped_policies(crm)) as house:
        await asked(crm, "/_sandbox/faults", json={"fault": "422"})
        said = await run(file, "ana", house.url)
        received = await asked(crm, "/_sandbox/requests")

    assert said[0] == f"term 1: {ITEMS[0]} not sent: rejected, status 422"
    assert said[1:] == [f"term 1: {item} sent" for item in ITEMS[1:]]
    assert [one["applied"] for one in received] == [False, True, True]
