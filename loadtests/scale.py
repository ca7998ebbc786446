"""Whether a ledger is as quick when it is full: ten thousand functions, one million effects.

    python -m loadtests.scale [--effects 1000000] [--functions 10000] [--store both]

Fills PostgreSQL (a server of its own) and SQLite straight into the tables, measures while there is
little in them and again when there is much, and lets retention run over it.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from gateway.clock import SystemClock
from gateway.core.effect import Outcome
from gateway.core.ids import new_effect_id
from gateway.demo.processes import ROOT
from gateway.store.homes import home_at
from gateway.store.ledger import Ledger
from gateway.store.queries import Reader
from gateway.store.records import EffectFilter
from gateway.store.sources import Source
from gateway.store.upkeep import Kept
from loadtests.scale_rows import (
    COLUMNS,
    TERMS,
    chunks,
    function_name,
    holder_of,
    of_effects,
    of_functions,
)
from tests.conformance.books import answer, proposal, settlement
from tests.postgres_server import running_server

FEW = 1000
KEPT_MS = 30 * 86_400_000
_UNKNOWN = (
    "SELECT e.id, e.outcome, e.version, e.superseded, a.outcome, a.open, a.request_head, "
    "a.request_body, w.state, w.headers, w.body FROM effect e "
    "JOIN attempt a ON a.effect_id = e.id JOIN answer w ON w.seq = a.answer_seq "
    "WHERE e.outcome = 'unknown' ORDER BY e.id"
)


@dataclass
class Bench:
    """A ledger under measurement. `place` is its file or its URL."""

    name: str
    place: Path | str
    functions: int
    found: dict[str, dict[str, float]] = field(default_factory=dict)
    when: str = ""
    sent: int = 0

    def note(self, what: str, spent_s: Sequence[float]) -> None:
        ordered = sorted(spent_s)
        told = {
            "p50_ms": round(statistics.median(ordered) * 1000, 2),
            "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000, 2),
        }
        found = self.found.setdefault(what, {})
        found.update({f"{self.when} {name}": value for name, value in told.items()})
        print(f"{self.name}, {self.when}: {what}: {told}", file=sys.stderr)


async def fill(bench: Bench, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    if isinstance(bench.place, Path):
        with closing(sqlite3.connect(bench.place, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("BEGIN")
            for table, many in rows.items():
                names = COLUMNS[table].split()
                marks = ",".join("?" * len(names))
                db.executemany(f"INSERT INTO {table} ({','.join(names)}) VALUES ({marks})", many)
            db.execute("COMMIT")
        return
    connection = await asyncpg.connect(bench.place)
    try:
        for table, many in rows.items():
            if many:
                await connection.copy_records_to_table(
                    table, records=many, columns=COLUMNS[table].split()
                )
        await connection.execute(
            "SELECT setval('answer_number', greatest((SELECT max(seq) FROM answer), 1) + 1000)"
        )
    finally:
        await connection.close()


async def clear_measured(bench: Bench) -> None:
    """Take away what measuring left: younger than what is filled in now, it would come first."""
    mine = "(SELECT id FROM effect WHERE key LIKE 'new-%')"
    texts = [f"DELETE FROM {table} WHERE effect_id IN {mine}" for table in ("answer", "attempt")]
    texts.append("DELETE FROM effect WHERE key LIKE 'new-%'")
    if isinstance(bench.place, Path):
        with closing(sqlite3.connect(bench.place, isolation_level=None)) as db:
            for text in texts:
                db.execute(text)
        return
    connection = await asyncpg.connect(bench.place)
    try:
        for text in texts:
            await connection.execute(text)
    finally:
        await connection.close()


async def admit_and_settle(bench: Bench, ledger: Ledger) -> float:
    """Let one write through, as a request does but for the sending; return how long both took."""
    owner = bench.sent * 104_729 % bench.functions
    bench.sent += 1
    effect_id = new_effect_id(ledger.clock.now_ms())
    began_s = time.perf_counter()
    ruling = await ledger.admit(
        proposal(
            effect_id, f"new-{effect_id}", term=TERMS, holder=holder_of(owner, TERMS),
            function=function_name(owner), unit=f"unit-{owner:05d}", covers=f"new/{effect_id}",
        )
    )  # fmt: skip
    if ruling.n is None:
        raise RuntimeError(f"not admitted: {ruling}")
    await ledger.settle(settlement(effect_id, Outcome.CONFIRMED, answer=answer()))
    return time.perf_counter() - began_s


async def timed(turn: Callable[[], Awaitable[Any]], many: int) -> list[float]:
    spent_s = []
    for _ in range(many):
        began_s = time.perf_counter()
        await turn()
        spent_s.append(time.perf_counter() - began_s)
    return spent_s


async def measure(bench: Bench, ledger: Ledger, rounds: int) -> None:
    """Time what requests do, and what the control plane and the keepers read."""

    async def one_of_many() -> list[float]:
        return [await admit_and_settle(bench, ledger) for _ in range(max(1, rounds // 8))]

    for _ in range(20):
        await admit_and_settle(bench, ledger)
    one = [await admit_and_settle(bench, ledger) for _ in range(rounds)]
    bench.note("admit+settle, 1 at once", one)
    every = await asyncio.gather(*(one_of_many() for _ in range(16)))
    bench.note("admit+settle, 16 at once", [spent for each in every for spent in each])
    reader = await ledger.reader()
    turn = 0

    async def handover() -> None:
        nonlocal turn
        turn += 1
        owner = turn * 7907 % bench.functions
        if await reader.handover(function_name(owner), None, None) is None:
            raise RuntimeError(f"function {owner} has no handover")

    def page(**of: Any) -> Callable[[], Awaitable[Any]]:
        return lambda: reader.effects(EffectFilter(**of))

    await handover()
    bench.note("handover", await timed(handover, rounds))
    bench.note("due and unknowns", await timed(lambda: keepers(reader, ledger), 20))
    few = max(5, rounds // 20)
    bench.note("page of effects", await timed(page(), few))
    bench.note("page of a function", await timed(page(function=function_name(7)), few))
    bench.note("page of unknown effects", await timed(page(outcome="unknown"), few))


async def keepers(reader: Reader, ledger: Ledger) -> None:
    await reader.due(ledger.clock.now_ms(), 16, ledger.instance)
    await reader.unknowns()


async def unknown_rows(source: Source) -> tuple[int, str]:
    """Return how many effects are unknown, and a digest of all that is kept of them."""
    found = await source.rows(_UNKNOWN, ())
    return len(found), hashlib.sha256(repr(found).encode()).hexdigest()


async def retain(bench: Bench, ledger: Ledger) -> dict[str, Any]:
    """Let retention run to its end, with writes beside it; return how that went."""
    reader = await ledger.reader()
    before = await unknown_rows(reader.source)
    ended, turns_s, bodies = False, [], 0

    async def writes() -> list[float]:
        spent_s = []
        while not ended:
            spent_s.append(await admit_and_settle(bench, ledger))
        return spent_s

    beside = asyncio.ensure_future(writes())
    began_s = time.perf_counter()
    while True:
        turn_s = time.perf_counter()
        done = await ledger.forget(Kept(bodies_ms=KEPT_MS))
        turns_s.append(time.perf_counter() - turn_s)
        bodies += done.bodies
        if not done.more:
            break
    spent_s = time.perf_counter() - began_s
    ended = True
    bench.note("admit+settle beside retention", await beside)
    bench.note("one turn of retention", turns_s)
    bench.note(
        "retention with nothing to do",
        await timed(lambda: ledger.forget(Kept(bodies_ms=KEPT_MS)), 5),
    )
    if await unknown_rows(reader.source) != before:
        raise RuntimeError("retention has touched unknown effects")
    return {"bodies": bodies, "seconds": round(spent_s, 1), "unknown untouched": before[0]}


async def run(bench: Bench, effects: int, rounds: int) -> dict[str, Any]:
    ledger = await Ledger.open_at(home_at(bench.place), SystemClock())
    now_ms = ledger.clock.now_ms()
    await ledger.close()
    few, few_functions = min(FEW, effects), min(FEW, bench.functions)
    # The few are the oldest; keys and functions are those of the whole.
    await fill(bench, of_functions(0, few_functions, now_ms))
    await fill(bench, of_effects(0, few, effects, few_functions, now_ms))
    all_functions, bench.functions, bench.when = bench.functions, few_functions, "little"
    ledger = await Ledger.open_at(home_at(bench.place), SystemClock())
    await measure(bench, ledger, rounds)
    await ledger.close()
    await clear_measured(bench)

    began_s = time.perf_counter()
    if all_functions > few_functions:
        await fill(bench, of_functions(few_functions, all_functions, now_ms))
    bench.functions = all_functions
    for first, last in chunks(effects, first=few):
        await fill(bench, await asyncio.to_thread(of_effects, first, last, effects, all_functions,
                                                  now_ms))  # fmt: skip
    print(f"{bench.name}: filled in {time.perf_counter() - began_s:.0f} s", file=sys.stderr)
    bench.when = "much"
    began_s = time.perf_counter()
    ledger = await Ledger.open_at(home_at(bench.place), SystemClock())
    opened_s = time.perf_counter() - began_s
    await measure(bench, ledger, rounds)
    retention = await retain(bench, ledger)
    await ledger.close()
    return {
        "store": bench.name,
        "effects": effects,
        "functions": all_functions,
        "opened_s": round(opened_s, 2),
        "retention": retention,
        "times": bench.found,
    }


def table(told: dict[str, Any]) -> list[str]:
    lines = [
        f"{told['store']}: {told['functions']} functions, {told['effects']} effects, opened in "
        f"{told['opened_s']} s; retention {told['retention']}",
        f"{'ms':<32} {'p50 little':>10} {'p50 much':>9} {'p99 little':>10} {'p99 much':>9}",
    ]
    for what, found in told["times"].items():
        cells = [found.get(f"{when} {p}", "-") for p in ("p50_ms", "p99_ms")
                 for when in ("little", "much")]  # fmt: skip
        lines.append(f"{what:<32} {cells[0]:>10} {cells[1]:>9} {cells[2]:>10} {cells[3]:>9}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--effects", type=int, default=1_000_000)
    parser.add_argument("--functions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--store", choices=("both", "postgres", "sqlite"), default="both")
    given = parser.parse_args()
    folder = ROOT / "var" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    told = []
    if given.store != "sqlite":
        with running_server() as server:
            bench = Bench("PostgreSQL", server.url(server.database()), given.functions)
            told.append(asyncio.run(run(bench, given.effects, given.rounds)))
    if given.store != "postgres":
        with tempfile.TemporaryDirectory(dir=folder) as name:
            bench = Bench("SQLite", Path(name) / "ledger.db", given.functions)
            told.append(asyncio.run(run(bench, given.effects, given.rounds)))
    for each in told:
        print("\n".join(table(each)))
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
