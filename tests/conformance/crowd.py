"""One gateway process of several on one database: asks for admissions and says what it was told.

Started as `python -m tests.conformance.crowd URL NAME`; reads a round's number from standard
input, and answers each with one line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from gateway.clock import SystemClock
from gateway.core.effect import Outcome
from gateway.core.ids import new_effect_id
from gateway.store.homes import PostgresHome
from gateway.store.ledger import Ledger
from gateway.store.postgres import Where
from tests.conformance.books import proposal, settlement, verdict


async def one_of_many(ledger: Ledger, name: str, told: dict[str, Any]) -> dict[str, Any]:
    """Ask to send under one key; the winner settles as it is told."""
    effect_id = new_effect_id(ledger.clock.now_ms())
    wanted = proposal(effect_id, told["key"], term=told["term"], covers=told["key"])
    ruling = await ledger.admit(wanted)
    if ruling.n is not None and told.get("outcome"):
        await ledger.settle(settlement(ruling.effect_id, Outcome(told["outcome"]), ruling.n))
    return {"verdict": verdict(ruling), "effect_id": ruling.effect_id, "n": ruling.n}


async def stream(ledger: Ledger, name: str, told: dict[str, Any]) -> dict[str, Any]:
    """Admit one write after the other under a term until it is refused; say which were admitted
    and how they were settled before."""
    admitted: list[str] = []
    settled: list[str] = []
    highest = told["term"]
    for at in range(told["most"]):
        effect_id = f"{name}-{told['term']}-{at}"
        wanted = proposal(effect_id, effect_id, term=told["term"], covers=effect_id)
        ruling = await ledger.admit(wanted)
        if ruling.n is None:
            assert verdict(ruling) == "stale-term", ruling
            highest = ruling.highest_term
            break
        admitted.append(effect_id)
        if at % 2:
            await ledger.settle(settlement(effect_id, Outcome.CONFIRMED))
            settled.append(effect_id)
    return {"admitted": admitted, "settled": settled, "highest": highest}


async def main(url: str, name: str) -> None:
    ledger = await Ledger.open_at(PostgresHome(Where(url)), SystemClock())
    print("ready", flush=True)
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        told = json.loads(line)
        act = {"one": one_of_many, "stream": stream}[told["act"]]
        print(json.dumps(await act(ledger, name, told)), flush=True)
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
