"""The daily report as a program of its own: no director, as many processes as one likes."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.demo.office import Office, opportunities
from gateway.demo.processes import Child, Children, python
from gateway.demo.promises import broken_promises
from gateway.demo.report import finding_of
from gateway.demo.watch import Watch

ITEMS = 6
LONGEST_S = 30


def start(children: Children, office: Office, kind: str, name: str) -> Child:
    environment = {"FENCEGATE_URL": office.gateway_url, "FENCEGATE_TOKEN": office.worker.token}
    words = python("-m", "gateway.demo.report", kind, name)
    return children.start(name, words, environment=environment)


async def test_coordinators_and_workers_make_one_report_and_leave(tmp_path: Path):
    office = Office(tmp_path)
    with Children(tmp_path) as children:
        office.start_both(children)
        async with aiohttp.ClientSession() as session:
            watch = Watch(office, session)
            await watch.seed(ITEMS)
            program = [
                start(children, office, kind, f"{kind}-{n}")
                for kind in ("coordinate", "work")
                for n in (1, 2)
            ]

            codes = [await asyncio.to_thread(child.process.wait, LONGEST_S) for child in program]
            record = await watch.record()

    assert codes == [0, 0, 0, 0], [child.tail() for child in program]
    assert broken_promises(record) == []
    assert len(record.applied) == ITEMS + 1
    findings = Counter(finding_of(one) for one in opportunities(ITEMS))
    assert record.units[0]["result"] == findings


FINDINGS: list[tuple[dict[str, Any], str]] = [
    ({"value": None}, "data missing"),
    ({"value": 1, "name": ""}, "incomplete"),
    ({"value": 1, "name": "acme", "stage": "won", "open": True}, "stage conflict"),
    ({"value": 1, "name": "acme", "stage": "proposal", "next_step": ""}, "no next step"),
    ({"value": 1, "name": "acme", "stage": "won", "open": False, "next_step": "x"}, "in order"),
]


@pytest.mark.parametrize(("fields", "finding"), FINDINGS, ids=[each[1] for each in FINDINGS])
def test_what_is_wrong_with_an_opportunity_is_a_matter_of_rules(
    fields: dict[str, Any], finding: str
):
    assert finding_of(fields) == finding


def test_the_opportunities_are_always_the_same():
    assert opportunities(31) == opportunities(31)
    assert len({finding_of(one) for one in opportunities(31)}) == 5


async def test_wrong_words_are_answered_with_the_right_ones(tmp_path: Path):
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway.demo.report", "lead", stderr=asyncio.subprocess.PIPE
    )

    _, said = await done.communicate()

    assert (done.returncode, said) == (
        1, b"write: python -m gateway.demo.report coordinate|work NAME\n",
    )  # fmt: skip
