"""Stopping the gateway with a write in flight: in order, in a hurry, and with no warning."""

from __future__ import annotations

import asyncio
import signal
import socket

import pytest

from tests.house import Got
from tests.scenarios.caller import NoAnswer
from tests.scenarios.stage import Stage, until


async def write_in_flight(stage: Stage, key: str = "k-1") -> asyncio.Future[Got]:
    """Send a write that the CRM holds back until it is released."""
    sending = asyncio.ensure_future(stage.leader().create(key, X_Sandbox_Fault=f"hold:{key}"))
    await stage.until_held(key)
    return sending


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
        except OSError:
            return False
    return True


async def test_a_draining_gateway_says_so_and_takes_no_new_writes(stage):
    await stage.start("--drain-s", "30")
    sending = await write_in_flight(stage)

    stage.signal(signal.SIGTERM)
    ready = await stage.until_ready(503)
    refused = await stage.leader().create("k-2", Connection="keep-alive")
    read = await stage.get("/d/crm/contacts")
    alive = await stage.get("/livez")

    assert ready["reasons"] == ["draining"]
    assert (refused.status, refused.problem) == (503, "draining")
    assert refused.headers["Fence-Verdict"] == "refused; reason=draining"
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.headers["Connection"] == "close"
    assert refused.json["effect"] == "none"
    assert (read.status, alive.status) == (200, 200)
    assert await stage.received_keys() == ["k-1"]
    await stage.release("k-1")
    assert (await sending).status == 201


async def test_a_write_in_flight_is_finished_recorded_and_answered_before_the_end(stage):
    await stage.start("--drain-s", "30")
    sending = await write_in_flight(stage)
    stage.signal(signal.SIGTERM)
    await stage.until_ready(503)

    await stage.release("k-1")
    answer = await sending
    code = await stage.ended()

    assert (answer.status, answer.headers["Fence-Outcome"]) == (201, "confirmed")
    assert code == 0
    assert port_is_free(stage.port)
    assert await stage.outcomes() == {"k-1": "confirmed"}
    assert stage.ledger_is_sound()
    assert stage.ask_ledger("SELECT count(*) FROM instance WHERE stopped_at_ms IS NULL") == [(0,)]


async def test_a_write_that_outlasts_the_drain_is_unknown_and_stays_so(stage):
    await stage.start("--drain-s", "0.3")
    sending = await write_in_flight(stage)

    code = await stage.terminate()

    assert code == 0
    answer = await sending
    assert (answer.problem, answer.json["reason"]) == ("outcome-unknown", "gateway-stopped")
    effect = (await stage.effects())["k-1"]
    assert (effect.outcome, effect.attempts[0].reason) == ("unknown", "gateway-stopped")
    await stage.release("k-1")
    await until(stage.applied_keys, "effect of the write that was given up")
    await stage.start_gateway()
    assert (await stage.leader(8).create("k-1")).problem == "outcome-unknown"
    assert await stage.received_keys() == ["k-1"]


async def test_a_second_signal_waits_for_nothing(stage):
    await stage.start("--drain-s", "600")
    sending = await write_in_flight(stage)
    stage.signal(signal.SIGTERM)
    await stage.until_ready(503)

    stage.signal(signal.SIGTERM)
    code = await stage.ended()

    assert code == 0
    assert (await sending).problem == "outcome-unknown"
    assert await stage.outcomes() == {"k-1": "unknown"}
    assert port_is_free(stage.port)
    assert stage.ledger_is_sound()


async def test_after_kill_9_a_key_that_was_in_flight_is_answered_423_at_once(stage):
    await stage.start()
    sending = await write_in_flight(stage)

    await stage.kill()
    with pytest.raises(NoAnswer):
        await sending
    await stage.start_gateway()
    async with asyncio.timeout(2):
        again = await stage.leader(8).create("k-1")

    assert (again.status, again.problem) == (423, "outcome-unknown")
    assert again.json["safe_to_retry_same_key"] is False
    await stage.release("k-1")
    await until(stage.applied_keys, "effect of the write that was in flight")
    assert (await stage.leader(8).create("k-1")).problem == "outcome-unknown"
    assert await stage.received_keys() == ["k-1"]
    assert (await stage.effects())["k-1"].attempts[0].reason == "stranded"


async def test_a_caller_that_hangs_up_changes_nothing(stage):
    await stage.start("--drain-s", "30")
    sending = await write_in_flight(stage)

    sending.cancel()
    await asyncio.wait({sending})
    stage.signal(signal.SIGTERM)
    await stage.until_ready(503)
    await stage.release("k-1")
    code = await stage.ended()

    assert code == 0
    assert await stage.outcomes() == {"k-1": "confirmed"}
    await stage.start_gateway()
    replay = await stage.leader(8).create("k-1")
    assert (replay.status, replay.headers["Idempotent-Replayed"]) == (201, "true")
    assert await stage.received_keys() == ["k-1"]


async def test_an_idle_gateway_stops_at_once(stage):
    await stage.start("--drain-s", "600")

    async with asyncio.timeout(8):
        code = await stage.terminate()

    assert code == 0
    assert port_is_free(stage.port)
