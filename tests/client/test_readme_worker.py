"""The worker of the README runs as it stands there, and a second run repeats nothing."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.house import DESTINATION, running_house
from tests.raw_destination import RawDestination

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def worker_of_the_readme() -> str:
    found = re.search(r"<!-- worker.py -->\n```python\n(.*?)```", README, re.DOTALL)
    assert found is not None, "the README has no worker any more"
    return found[1]


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


def test_the_worker_has_at_most_forty_lines():
    assert len(worker_of_the_readme().splitlines()) <= 40


async def test_the_readmes_worker_sends_once_and_its_successor_repeats_nothing(tmp_path: Path):
    file = tmp_path / "worker.py"
    file.write_text(worker_of_the_readme(), "utf-8")
    function = (ROOT / "policies" / "envio-de-propostas.yaml").read_text("utf-8")
    async with RawDestination() as destination:
        policies = {"f": function, "crm": DESTINATION % {"port": destination.port}}
        async with running_house(tmp_path, policies) as house:
            first = await run(file, "ana", house.url)
            second = await run(file, "bo", house.url)
            bodies = [received.body for received in destination.received]

    items = ["2026-11-30:acme", "2026-11-30:globex", "2026-11-30:initech"]
    assert first == [f"term 1: {item} sent" for item in items]
    assert second == [f"term 2: {item} was there already" for item in items]
    assert len(bodies) == len(set(bodies)) == 3
