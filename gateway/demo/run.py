"""One run of the demo: processes up, story played, table told, everything down again."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from gateway.core.errors import GatewayError
from gateway.demo.agents import NotAnswered
from gateway.demo.company import Company
from gateway.demo.folder import run_folder
from gateway.demo.narrate import Narrator, closing_table, verdict_lines
from gateway.demo.office import Office
from gateway.demo.processes import ChildFailed, Children
from gateway.demo.story import Story
from gateway.demo.watch import Watch

LONGEST_RUN_S = 60.0
ANSWER_S = 20.0


def run_demo(*, keep: bool = False, folder: Path | None = None) -> int:
    """Play the demo and return the exit code: 0 only if the CRM's record proves the promise."""
    with run_folder("fencegate-demo-", keep=keep, folder=folder) as place:
        try:
            return _run(place)
        except GatewayError as error:
            print(f"the demo could not go on: {error}", file=sys.stderr)
            return 1


def _run(folder: Path) -> int:
    office = Office(folder)
    with Children(folder) as children:
        office.start_both(children)
        where = f"sandbox CRM on {office.crm_url}, gateway on {office.gateway_url}, SQLite ledger"
        print(where, flush=True)
        try:
            return asyncio.run(_play(office, children))
        except (NotAnswered, TimeoutError) as error:
            children.require_running()
            tails = [f"{child.name}:\n{child.tail()}" for child in children.started]
            reason = str(error) or f"the demo took longer than {LONGEST_RUN_S:g} s"
            raise ChildFailed("\n".join([reason, *tails])) from error


async def _play(office: Office, children: Children) -> int:
    """Play the story on a stage that is up, and tell the table."""
    started_s = time.monotonic()
    narrator = Narrator()
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    async with asyncio.timeout(LONGEST_RUN_S), AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        company = await stack.enter_async_context(Company(office, children))
        story = Story(Watch(office, session), company, narrator, stack)
        await story.play()
        account, faults = await story.account()
    narrator.heading("what the gateway and the CRM have on record")
    seconds = time.monotonic() - started_s
    for line in [*closing_table(account), "", *verdict_lines(faults, seconds)]:
        print(line)
    return 1 if faults else 0
