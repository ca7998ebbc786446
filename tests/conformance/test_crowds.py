"""Eight gateway processes on one database: what is promised holds between them, too."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.shelves import PostgresShelf
from tests.simulation.chance import count

PROCESSES = 8
ROOT = Path(__file__).parents[2]


class Crowd:
    """The processes, and the short way to tell all of them something at once."""

    def __init__(self, members: list[asyncio.subprocess.Process]) -> None:
        self.members = members

    @classmethod
    async def gather(cls, url: str) -> Crowd:
        members = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.conformance.crowd", url, f"p{n}",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
                limit=2**24,
            )
            for n in range(PROCESSES)
        ]  # fmt: skip
        crowd = cls(members)
        for member in members:
            assert member.stdout is not None
            assert (await member.stdout.readline()) == b"ready\n"
        return crowd

    async def tell(self, told: dict[str, Any], member: int) -> dict[str, Any]:
        process = self.members[member]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(told).encode() + b"\n")
        answer = await process.stdout.readline()
        assert answer, f"process {member} is gone"
        found: dict[str, Any] = json.loads(answer)
        return found

    async def all(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(self.tell(told, n) for n in range(PROCESSES))))

    async def go(self) -> None:
        for member in self.members:
            assert member.stdin is not None
            member.stdin.close()
        assert [await member.wait() for member in self.members] == [0] * PROCESSES


def until_admitted(books: PostgresShelf, term: int) -> None:
    """Come back as soon as something of `term` is on record."""
    while not books.rows("SELECT 1 FROM attempt WHERE term = ? LIMIT 1", [term]):
        pass


@pytest.fixture
async def crowd(postgres_url: str) -> AsyncIterator[Crowd]:
    crowd = await Crowd.gather(postgres_url)
    try:
        yield crowd
        await crowd.go()
    finally:
        for member in crowd.members:
            if member.returncode is None:
                member.kill()
                await member.wait()


async def test_of_eight_processes_exactly_one_is_admitted_under_a_key(
    crowd: Crowd, postgres_url: str
):
    shelf = PostgresShelf(postgres_url)
    outcomes = [None, "confirmed", "no-effect", "rejected"]
    try:
        for round_ in range(count(8, 500)):
            outcome = outcomes[round_ % len(outcomes)]
            told = {"act": "one", "key": f"k-{round_}", "term": 1 + round_ // 3, "outcome": outcome}

            answers = await crowd.all(told)

            said = Counter(answer["verdict"] for answer in answers)
            assert said["admit"] >= 1
            ((attempts, effects),) = shelf.rows(
                "SELECT count(*), count(DISTINCT e.id) FROM attempt a JOIN effect e "
                "ON e.id = a.effect_id WHERE e.key = ?",
                [f"k-{round_}"],
            )
            assert (attempts, effects) == (said["admit"], 1)
            assert len({answer["effect_id"] for answer in answers}) == 1
            if outcome in (None, "confirmed"):  # nothing frees the key: once, whoever asks
                assert said["admit"] == 1
                assert said["in-flight"] + said["replay"] == PROCESSES - 1
            else:
                tries = sorted(answer["n"] for answer in answers if answer["n"])
                assert tries == list(range(1, attempts + 1))
    finally:
        shelf.close()


async def test_nothing_of_an_old_term_is_admitted_after_a_newer_one_by_another_process(
    crowd: Crowd, postgres_url: str
):
    books = PostgresShelf(postgres_url)
    old: dict[str, list[str]] = {"admitted": [], "settled": []}
    try:
        for round_ in range(count(3, 60)):
            term = 2 * round_ + 1
            before = asyncio.gather(
                *(
                    crowd.tell({"act": "stream", "term": term, "most": 400}, n)
                    for n in range(PROCESSES - 1)
                )
            )
            await asyncio.to_thread(until_admitted, books, term)
            newer = await crowd.tell({"act": "stream", "term": term + 1, "most": 1}, PROCESSES - 1)
            answers = await before

            assert [len(newer["admitted"])] == [1]
            assert {answer["highest"] for answer in answers} == {term + 1}
            for answer in answers:
                old["admitted"] += answer["admitted"]
                old["settled"] += answer["settled"]
            ((listed,),) = books.rows("SELECT effects FROM handover WHERE term = ?", [term + 1])
            handed = set(json.loads(listed))
            late = set(old["settled"]) & handed  # settled after the handover's commit
            assert set(old["admitted"]) - set(old["settled"]) <= handed | set(newer["admitted"])
            assert handed <= set(old["admitted"]) | late
            old["admitted"] += newer["admitted"]
        order = [term for (term,) in books.rows("SELECT term FROM handover ORDER BY at_ms, term")]
        assert order == sorted(set(order))
        numbers = books.rows("SELECT id, at_ms FROM transition ORDER BY id")
        assert [at_ms for _, at_ms in numbers] == sorted(at_ms for _, at_ms in numbers)
    finally:
        books.close()
