"""What a gateway finds when it starts: intents, files, another process, another version."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from gateway.clock import SystemClock
from gateway.demo.processes import Child
from gateway.proxy.body import Spool
from gateway.store.connect import open_database
from gateway.store.ledger import Ledger
from gateway.store.migrate import migrate, shipped
from tests.house import Got
from tests.scenarios.caller import NoAnswer
from tests.scenarios.proof import count, dice
from tests.scenarios.stage import DESTINATION, Stage, until

AT_ONCE: Final = 12
SPOOL_FROM: Final = "1KiB"
LARGE: Final = b'{"name": "' + b"x" * 5000 + b'"}'


async def refused(child: Child) -> str:
    """Wait for a gateway that does not start; return what it says."""
    code = await asyncio.to_thread(child.process.wait, 15)
    assert code in (3, 6), child.tail()
    assert "Traceback" not in child.tail()
    said = [line for line in child.tail().splitlines() if line.startswith("fencegate: ")]
    assert len(said) == 1, child.tail()
    return said[0]


async def in_flight(stage: Stage, keys: Sequence[str]) -> list[asyncio.Future[Got]]:
    """Send writes that the CRM holds back, and return once all of them are there."""
    sending = [
        asyncio.ensure_future(stage.leader().create(key, X_Sandbox_Fault="hold:all"))
        for key in keys
    ]
    have = (await stage.crm("GET", "/_sandbox/holds")).get("all", 0)
    await stage.until_held("all", have + len(keys))
    return sending


async def test_every_intent_that_a_kill_left_is_unknown_before_the_first_request(stage):
    rounds = count(small=3, full=25)
    await stage.start()
    sent: list[str] = []

    for turn in range(rounds):
        keys = [f"k-{turn}-{n}" for n in range(AT_ONCE)]
        sending = await in_flight(stage, keys)
        await stage.kill()
        answers = await asyncio.gather(*sending, return_exceptions=True)
        sent += keys
        await stage.start_gateway()
        outcomes = stage.ask_ledger("SELECT outcome, reason, count(*) FROM attempt GROUP BY 1, 2")

        assert all(isinstance(answer, NoAnswer) for answer in answers)
        assert outcomes == [("unknown", "stranded", len(sent))]
    again = [(await stage.leader().create(key)).problem for key in sent]
    await stage.release("all")
    await until(stage.applied_keys, "effects of the writes that were held")

    print(f"leftovers: {rounds} kills, {len(sent)} intents, all of them unknown")
    assert set(again) == {"outcome-unknown"}
    assert sorted(await stage.received_keys()) == sorted(sent)


async def test_a_gateway_killed_in_its_very_first_start_starts_the_next_time(stage):
    throws, rounds = dice("first start"), count(small=3, full=25)
    await stage.start_crm()
    stage.write_policies()

    for turn in range(rounds):
        stage.disk = stage.folder / f"var-{turn}"
        stage.gateway = stage.launch(name=f"gateway-{turn}")  # a ledger and a witness of its own
        await until(stage.disk.exists, "folder of the ledger")
        await asyncio.sleep(throws.uniform(0, 0.06))  # any moment of making the ledger
        await stage.kill()
        await stage.start_gateway(name=f"gateway-{turn}")

        assert (await stage.leader().create(f"k-{turn}")).status == 201
        await stage.kill()
        assert stage.ledger_is_sound()


async def test_a_second_process_on_the_same_ledger_is_refused_and_the_first_goes_on(stage):
    await stage.start()
    assert stage.gateway is not None

    said = await refused(stage.launch(name="second"))

    assert f"{stage.ledger} is in use by process {stage.gateway.pid}" in said
    assert (await stage.leader().create("k-1")).status == 201


async def test_a_link_to_the_ledger_is_no_way_round(stage):
    await stage.start()
    (stage.folder / "link").symlink_to(stage.disk)
    (stage.folder / "linked.db").symlink_to(stage.ledger)

    for path in (stage.folder / "link" / "ledger.db", stage.folder / "linked.db"):
        said = await refused(stage.launch("--ledger", f"sqlite:///{path}", name=path.name))

        assert "is in use by process" in said


async def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(stage):
    await stage.start()
    assert (await stage.leader().create("k-1")).status == 201
    await stage.terminate()
    stage.change_ledger("INSERT INTO schema_migration VALUES (9999, 'later', 'ab', 1, 0)")

    said = await refused(stage.launch(name="older"))
    stage.change_ledger("DELETE FROM schema_migration WHERE number = 9999")
    await stage.start_gateway()

    assert "migration 9999" in said
    assert "newer" in said
    assert (await stage.leader().create("k-1")).headers["Idempotent-Replayed"] == "true"


async def test_a_ledger_whose_schema_is_not_what_was_shipped_is_refused(stage):
    await stage.start()
    await stage.terminate()
    stage.change_ledger("UPDATE schema_migration SET sha256 = 'tampered' WHERE number = 1")

    said = await refused(stage.launch(name="refused"))

    assert "migration 1" in said


async def test_a_ledger_of_the_first_version_is_brought_up_to_date(stage):
    await stage.start_crm()
    stage.write_policies()
    stage.disk.mkdir()
    with closing(open_database(stage.ledger)) as db:
        migrate(db, 1, shipped()[:1])

    await stage.start_gateway()

    assert (await stage.leader().create("k-1")).status == 201
    applied = stage.ask_ledger("SELECT number FROM schema_migration ORDER BY number")
    assert applied == [(step.number,) for step in shipped()]


def files_of(stage: Stage) -> list[Path]:
    return sorted((stage.disk / "spool").glob("*.body"))


LOOK = """\
  - match: "POST|PUT|PATCH|DELETE /{rest*}"
    does: write
    guard: look_first
    covers: "new/{effect}"
    look:
      request: "GET /notes?mark={effect}"
      settle: 0s
      found: {status: 299}
      missing: {status: 298}
      if_still_missing: park
"""
LOOKED_FOR = DESTINATION.partition('  - {match: "POST|')[0] + LOOK
"""The same, but what becomes unknown is looked for, by the request as it was."""


async def killed_while_sending(stage: Stage, text: str) -> None:
    """Kill a gateway after one large write that was answered, and in the middle of another."""
    await stage.start_crm()
    stage.write_policies(text=text)
    await stage.start_gateway(FENCEGATE_BODY_SPOOL_BYTES=SPOOL_FROM)
    done = await stage.leader().send("POST", "/contacts", "k-0", LARGE)
    assert done.status == 201
    sending = asyncio.ensure_future(
        stage.leader().send("POST", "/contacts", "k-1", LARGE, X_Sandbox_Fault="hold:a")
    )
    await stage.until_held("a")
    await stage.kill()
    with pytest.raises(NoAnswer):
        await sending


async def swept_after_a_restart(stage: Stage) -> int:
    await stage.start_gateway(FENCEGATE_BODY_SPOOL_BYTES=SPOOL_FROM)
    again = await stage.leader().send("POST", "/contacts", "k-1", LARGE)
    assert again.problem == "outcome-unknown"
    assert await stage.terminate() == 0
    return await sweep(stage)


def age(file: Path, age_s: int) -> None:
    file.touch()
    os.utime(file, (file.stat().st_mtime - age_s,) * 2)


async def test_the_request_of_an_unknown_effect_outlives_a_kill_and_an_orphan_does_not(stage):
    assert LOOKED_FOR != DESTINATION
    await killed_while_sending(stage, LOOKED_FOR)
    [kept] = files_of(stage)
    orphan, upload = kept.with_name("0" * 32 + ".body"), kept.with_name("1" * 32 + ".body")
    for path, age_s in ((orphan, 7200), (upload, 60), (kept, 7200)):
        age(path, age_s)

    assert await swept_after_a_restart(stage) == 1

    assert files_of(stage) == sorted([kept, upload])
    assert kept.read_bytes() == LARGE
    named = stage.ask_ledger("SELECT request_file FROM attempt WHERE request_file IS NOT NULL")
    assert named == [(kept.name,)]


async def test_a_request_that_nobody_could_ask_about_or_send_again_is_not_kept(stage):
    await killed_while_sending(stage, DESTINATION)
    for file in files_of(stage):  # cut off by the kill
        age(file, 7200)

    await swept_after_a_restart(stage)

    assert files_of(stage) == []
    kept = stage.ask_ledger("SELECT request_head, request_body, request_file FROM attempt")
    assert kept == [(None, None, None)] * 2


async def sweep(stage: Stage) -> int:
    """Do what the gateway does every ten minutes: let go of bodies that no effect names."""
    clock = SystemClock()
    ledger = await Ledger.open(stage.ledger, clock)
    try:
        spool = Spool(stage.disk / "spool", memory_bytes=1024)
        return await spool.sweep(await ledger.kept_files(), 3600.0, clock.wall_ms() / 1000)
    finally:
        await ledger.close()
