"""A disk that takes no more: nothing leaves without its intent, nothing that is known is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.demo.processes import Children
from tests.house import Got
from tests.scenarios.disk import Disk, allow_writes, refuse_writes, small_disk
from tests.scenarios.stage import Stage, until

LARGE = b"[" + b" " * (2 * 1024 * 1024) + b"]"
"""More than is kept in memory, so it waits on the disk."""

LINES = 60
"""More lines of log than fit into what is left of its last page."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def stage(tmp_path: Path, disk: Disk) -> Iterator[Stage]:
    """A stage whose ledger lies on the small disk; its processes end before that is unmounted."""
    with Children(tmp_path) as children:
        made = Stage(tmp_path, children, disk=disk.folder)
        yield made
        made.clear()


async def full(stage: Stage, disk: Disk) -> None:
    assert stage.gateway is not None
    await asyncio.to_thread(disk.fill, stage.gateway)


def free(stage: Stage, disk: Disk) -> None:
    assert stage.gateway is not None
    disk.free(stage.gateway)


def assert_not_written(got: Got) -> None:
    """The caller learns that nothing was sent, and that it may try again."""
    assert (got.status, got.problem) == (503, "ledger-unavailable")
    assert got.headers["Fence-Verdict"] == "refused; reason=ledger-unavailable"
    assert int(got.headers["Retry-After"]) >= 1
    assert (got.json["effect"], got.json["safe_to_retry_same_key"]) == ("none", True)


async def test_on_a_full_disk_nothing_is_sent_and_everything_is_said(stage, disk):
    await stage.start()
    before = await stage.leader().create("before")

    await full(stage, disk)
    refused = [await stage.leader().create(f"k-{n}") for n in range(5)]
    new_leader = await stage.leader(8).create("k-8")
    read = await stage.get("/d/crm/contacts")
    ready = await stage.until_ready(503)

    assert before.status == 201
    for got in [*refused, new_leader]:
        assert_not_written(got)
    assert await stage.received_keys() == ["before"]
    assert (read.status, len(read.json["items"])) == (200, 1)
    assert re.match("the ledger cannot be written: .*(full|disk I/O)", ready["reasons"][0])
    assert b"fencegate_ledger_up 0.0" in (await stage.get("/metrics")).body


async def test_service_comes_back_with_the_space_and_nothing_is_lost(stage, disk):
    await stage.start()
    first = await stage.leader().create("k-0")
    await full(stage, disk)
    assert_not_written(await stage.leader().create("k-1"))

    free(stage, disk)
    await stage.until_ready()
    second = await stage.leader().create("k-1")
    replay = await stage.leader().create("k-0")

    assert (first.status, second.status) == (201, 201)
    assert (replay.body, replay.headers["Idempotent-Replayed"]) == (first.body, "true")
    assert await stage.received_keys() == ["k-0", "k-1"]
    assert await stage.outcomes() == {"k-0": "confirmed", "k-1": "confirmed"}
    assert await stage.terminate() == 0
    assert stage.ledger_is_sound()


async def degraded(stage: Stage, disk: Disk) -> Got:
    """Fill the disk between a write's admission and its answer."""
    sending = asyncio.ensure_future(stage.leader().create("k-1", X_Sandbox_Fault="hold:a"))
    await stage.until_held("a")
    await full(stage, disk)
    await stage.release("a")
    return await sending


async def test_a_success_that_cannot_be_written_is_passed_on_and_written_later(stage, disk):
    await stage.start()

    got = await degraded(stage, disk)
    ready = await stage.until_ready(503)
    repeated = await stage.leader().create("k-1")
    free(stage, disk)
    await stage.until_ready()
    replay = await stage.leader().create("k-1")

    assert (got.status, got.headers["Fence-Ledger"]) == (201, "degraded")
    assert got.headers["Fence-Outcome"] == "confirmed"
    assert "1 outcomes are not written to the ledger yet" in ready["reasons"]
    assert repeated.status == 503
    assert await stage.outcomes() == {"k-1": "confirmed"}
    assert (replay.status, replay.headers["Idempotent-Replayed"]) == (201, "true")
    assert await stage.received_keys() == ["k-1"]


async def test_a_success_that_was_never_written_is_unknown_after_a_crash(stage, disk):
    await stage.start()

    got = await degraded(stage, disk)
    await stage.kill()
    free(stage, disk)
    await stage.start_gateway()
    again = await stage.leader(8).create("k-1")

    assert got.headers["Fence-Ledger"] == "degraded"
    assert again.problem == "outcome-unknown"
    assert await stage.received_keys() == ["k-1"]


async def test_a_body_that_does_not_fit_on_the_disk_is_refused_and_leaves_no_file(stage, disk):
    await stage.start()
    await full(stage, disk)

    refused = await stage.leader().send("POST", "/contacts", "k-1", LARGE)
    free(stage, disk)
    await stage.until_ready()

    assert_not_written(refused)
    assert "body" in refused.json["reason"]
    assert list(disk.folder.glob("spool/*")) == []
    assert await stage.received_keys() == []


async def test_a_full_disk_under_the_log_as_well_costs_lines_and_no_requests(stage, disk):
    await stage.start_crm()
    stage.write_policies()
    # The child's log goes where its name says: onto the small disk.
    await stage.start_gateway("--log-level", "info", name=f"{disk.folder.name}/gateway")

    sending = asyncio.ensure_future(stage.leader().create("k-1", X_Sandbox_Fault="hold:a"))
    await stage.until_held("a")
    await full(stage, disk)
    refused = [await stage.leader().create(f"more-{n}") for n in range(LINES)]
    await stage.release("a")
    got = await sending
    read = await stage.get("/d/crm/contacts")
    free(stage, disk)
    await stage.until_ready()

    for one in refused:
        assert_not_written(one)
    assert (got.status, got.headers["Fence-Ledger"]) == (201, "degraded")
    assert read.status == 200
    assert await stage.outcomes() == {"k-1": "confirmed"}
    assert await stage.received_keys() == ["k-1"]


async def test_a_disk_that_refuses_every_write_stops_writes_and_lets_go_of_them_again(stage):
    await stage.start()
    assert (await stage.leader().create("k-0")).status == 201
    sending = asyncio.ensure_future(stage.leader().create("k-1", X_Sandbox_Fault="hold:a"))
    await stage.until_held("a")

    # No file system turns read-only under a file that is open for writing; the kernel's limit
    # on file sizes has the same effect on the process, and can be taken back.
    refuse_writes(stage.gateway)
    await stage.release("a")
    got = await sending
    refused = await stage.leader().create("k-2")
    ready = await stage.until_ready(503)
    read = await stage.get("/d/crm/contacts")
    allow_writes(stage.gateway)
    await stage.until_ready()

    assert (got.status, got.headers["Fence-Ledger"]) == (201, "degraded")
    assert_not_written(refused)
    assert "the ledger cannot be written" in ready["reasons"][0]
    assert read.status == 200
    assert await stage.received_keys() == ["k-0", "k-1"]
    assert await stage.outcomes() == {"k-0": "confirmed", "k-1": "confirmed"}
    assert (await stage.leader().create("k-2")).status == 201


async def test_a_gateway_does_not_start_on_a_read_only_disk_and_says_why(stage, disk):
    await stage.start()
    assert (await stage.leader().create("k-0")).status == 201
    assert await stage.terminate() == 0
    if not disk.is_mounted:
        print("disk: no mount here, so none that is read-only either")
        return
    disk.remount("ro")

    refused = stage.launch(name="refused")
    code = await asyncio.to_thread(refused.process.wait, 10)
    disk.remount("rw")
    await stage.start_gateway()

    assert code in (3, 6)
    assert "Traceback" not in refused.tail()
    assert re.search(r"^fencegate: .*ledger\.db.*(read-only|readonly)", refused.tail(), re.I | re.M)
    assert (await stage.leader().create("k-0")).headers["Idempotent-Replayed"] == "true"


async def test_a_crash_on_a_full_disk_is_recovered_from_once_there_is_space(stage, disk):
    await stage.start()
    sending = asyncio.ensure_future(stage.leader().create("k-1", X_Sandbox_Fault="hold:a"))
    await stage.until_held("a")
    await full(stage, disk)

    await stage.kill()
    await asyncio.wait({sending})
    assert sending.exception() is not None
    free(stage, disk)
    await stage.start_gateway()

    assert (await stage.leader(8).create("k-1")).problem == "outcome-unknown"
    assert (await stage.leader(8).create("k-2")).status == 201
    await stage.release("a")
    await until(stage.applied_keys, "effect of the write that was in flight")
    assert await stage.received_keys() == ["k-1", "k-2"]
    assert stage.ledger_is_sound()
