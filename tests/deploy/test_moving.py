"""A ledger's terms come along from a file to PostgreSQL, as docs/many-machines.md says."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.clock import SystemClock
from gateway.store.homes import home_at
from gateway.store.recover import Recovered
from gateway.store.repair import Repair
from gateway.store.witness import WitnessFile
from tests.house import House, running_house
from tests.raw_destination import RawDestination, answer

FUNCTION = "function: relatorio\nauthority: lease\nleadership: function\n"
CRM = """
destination: crm
base_url: %s
routes:
  - {match: "POST /notes", does: write, guard: none, covers: "notes/new/{effect}"}
"""


async def led(house: House, holder: str) -> int:
    """Acquire and release; return the term."""
    got = await house.post("/v1/leases/relatorio/acquire", {"holder": holder})
    term = int(got.json["term"])
    await house.post("/v1/leases/relatorio/release", {"holder": holder, "term": term})
    return term


async def write(house: House, term: int, holder: str) -> str | None:
    fence = {"Fence-Function": "relatorio", "Fence-Term": str(term), "Fence-Holder": holder}
    got = await house.post("/d/crm/notes", {}, **fence, **{"Idempotency-Key": f"k-{term}"})
    return got.headers.get("Fence-Verdict")


def moved(url: str, witness: Path) -> Recovered:
    seen = WitnessFile(witness).load()
    assert seen is not None
    with Repair(home_at(url), SystemClock()) as repair:
        done = repair.recover([seen], "operator", "moved from the file")
        _, not_before_ms = repair.trust(["*"], "operator", "all was settled")
    assert not_before_ms == 0
    return done


async def test_a_leader_of_the_file_is_refused_and_the_next_term_is_above_its_own(
    tmp_path: Path, postgres_url: str
):
    own = tmp_path / "many.witness"
    async with RawDestination() as crm:
        crm.default = answer(201)
        policies = {"relatorio": FUNCTION, "crm": CRM % crm.url}
        async with running_house(tmp_path / "one", policies) as house:
            terms = [await led(house, f"ana#{n}") for n in range(3)]
        async with running_house(tmp_path / "many", policies, ledger=postgres_url, witness=own):
            pass  # makes the ledger

        await asyncio.to_thread(moved, postgres_url, tmp_path / "one" / "ledger.db.witness")
        async with running_house(
            tmp_path / "many", policies, ledger=postgres_url, witness=own
        ) as house:
            got = await house.post("/v1/leases/relatorio/acquire", {"holder": "bo#1"})
            late = await write(house, terms[-1], "ana#2")
            new = await write(house, int(got.json["term"]), "bo#1")

        assert got.json["term"] > max(terms)
        assert late == "refused; reason=stale-term"
        assert new == "forwarded"
        assert len(crm.received) == 1
