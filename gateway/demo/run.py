"""One run of the demo: processes up, story played, table told, everything down again."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

import aiohttp

from gateway.core.errors import GatewayError
from gateway.demo.agents import NotAnswered
from gateway.demo.narrate import Narrator, closing_table, verdict_lines
from gateway.demo.processes import ChildFailed, Children
from gateway.demo.stage import Stage
from gateway.demo.story import Story

LONGEST_RUN_S = 60.0
INTERRUPTED = 130


def run_demo(*, keep: bool = False, folder: Path | None = None) -> int:
    """Play the demo and return the exit code: 0 only if the CRM's record proves the promise."""
    kept = keep or folder is not None
    folder = (folder or Path(tempfile.mkdtemp(prefix="fencegate-demo-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # SIGTERM would end Python at once and leave the children behind; Ctrl-C does not.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(folder)
    except KeyboardInterrupt:
        print("\ninterrupted; all processes are stopped", file=sys.stderr)
        return INTERRUPTED
    except GatewayError as error:
        print(f"the demo could not go on: {error}", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
        if kept:
            print(f"policies, ledger, journal and logs are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(folder: Path) -> int:
    stage = Stage(folder)
    with Children(folder) as children:
        stage.start_both(children)
        where = f"sandbox CRM on {stage.crm_url}, gateway on {stage.gateway_url}, SQLite ledger"
        print(where, flush=True)
        try:
            return asyncio.run(_play(stage))
        except (NotAnswered, TimeoutError) as error:
            children.require_running()
            tails = [f"{child.name}:\n{child.tail()}" for child in children.started]
            reason = str(error) or f"the demo took longer than {LONGEST_RUN_S:g} s"
            raise ChildFailed("\n".join([reason, *tails])) from error


async def _play(stage: Stage) -> int:
    """Play the story on a stage that is up, and tell the table."""
    started_s = time.monotonic()
    narrator = Narrator()
    timeout = aiohttp.ClientTimeout(total=20)
    async with (
        asyncio.timeout(LONGEST_RUN_S),
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        story = Story(stage, session, narrator)
        await story.play()
        account, faults = await story.account()
    narrator.heading("what the CRM's own record says")
    lines = closing_table(narrator, account)
    for line in [*lines, "", *verdict_lines(faults, time.monotonic() - started_s)]:
        print(line)
    return 1 if faults else 0
