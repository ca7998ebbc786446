"""A worker that falls asleep between deciding to send and sending: run as a process of its own.

    python -m tests.scenarios.zombie PORT TERM KEY

It stops itself with the command in its hand. Whoever continues it (SIGCONT) gets to see what a
leader does that believes it still leads; the answer goes to standard output.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from tests.scenarios.caller import Leader


async def main(port: str, term: str, key: str) -> None:
    leader = Leader(int(port), int(term), f"zombie#{term}")
    os.kill(os.getpid(), signal.SIGSTOP)
    got = await leader.create(key)
    print(f"answer {got.status} {got.problem}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
