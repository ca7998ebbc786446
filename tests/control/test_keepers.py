"""Keepers: each turn may fail and the loop goes on; and what each of them does in a turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog

from gateway.control.keepers import Keeper, LedgerKeepers, keep
from gateway.core.errors import StoreError
from gateway.store.upkeep import Kept
from tests.control.office import SEAL_S, Office
from tests.raw_destination import answer

DAY_S = 86_400


def turn_of(office: Office, name: str, kept: Kept | None = None) -> Callable[[], Awaitable[None]]:
    panel = office.panel
    keepers = LedgerKeepers(panel.ledger, panel.metrics, panel.log, kept or Kept()).all()
    return {keeper.name: keeper.turn for keeper in keepers}[name]


def lines(captured: bytes, msg: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in captured.splitlines() if line.startswith(b"{")]
    return [line for line in found if line["msg"] == msg]


async def test_a_turn_that_fails_is_told_and_the_next_one_comes(
    capfdbinary: Any, open_office: Any
) -> None:
    office = await open_office(log_level="warning")
    errors = [StoreError("the disk is full"), RuntimeError("nobody foresaw this"), None]
    turns: list[object] = []
    done = asyncio.Event()

    async def turn() -> None:
        error = errors[len(turns)]
        turns.append(error)
        if error is not None:
            raise error
        done.set()
        await asyncio.Event().wait()

    loop = asyncio.ensure_future(keep(Keeper("sweeper", 0.0, turn), office.panel.log))
    async with asyncio.timeout(5):
        await done.wait()
    loop.cancel()
    await asyncio.wait([loop])
    await asyncio.sleep(0)  # the log is written at the end of a turn of the event loop

    assert turns == errors
    assert loop.cancelled()
    foreseen, unforeseen = lines(capfdbinary.readouterr().out, "keeper-failed")
    assert (foreseen["level"], foreseen["error"]) == ("warning", "the disk is full")
    assert (unforeseen["level"], unforeseen["keeper"]) == ("error", "sweeper")
    assert unforeseen["incident"].startswith("inc-")
    assert "nobody foresaw this" in unforeseen["exception"]


async def test_a_turn_comes_after_its_time_give_or_take_a_tenth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 50:
            raise asyncio.CancelledError

    async def turn() -> None: ...

    monkeypatch.setattr("gateway.control.keepers.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await keep(Keeper("sweeper", 10.0, turn), structlog.get_logger())

    assert min(slept) >= 9.0
    assert max(slept) <= 11.0
    assert len(set(slept)) > 1


async def test_retention_lets_old_answers_go_and_keeps_the_facts(office: Office) -> None:
    await office.send("k-old", answer(201, b'{"id": 1}'))
    effect_id = await office.unknown("k-unknown")
    office.clock.advance(seconds=31 * DAY_S)
    await office.send("k-new", answer(201, b'{"id": 2}'))

    await turn_of(office, "retention")()

    old = await office.send("k-old")
    new = await office.send("k-new")
    assert (old.problem, old.json["effect"]) == ("result-unavailable", "confirmed")
    assert (new.status, new.body) == (201, b'{"id": 2}')
    assert (await office.effect(effect_id))["outcome"] == "unknown"
    assert (await office.send("k-unknown")).problem == "outcome-unknown"
    assert [received.target for received in office.crm.received].count("/k-old") == 1


async def test_retention_goes_on_until_nothing_old_is_left(office: Office) -> None:
    for n in range(5):
        await office.send(f"k-{n}")
    office.clock.advance(seconds=31 * DAY_S)

    await turn_of(office, "retention", Kept(limit=2))()

    for n in range(5):
        assert (await office.send(f"k-{n}")).problem == "result-unavailable"


async def test_the_unknown_ones_are_counted_with_the_age_of_the_oldest(office: Office) -> None:
    count = turn_of(office, "unknowns")
    metrics = office.panel.metrics

    def gauges() -> tuple[float, float]:
        one, other = metrics.effects_unknown, metrics.oldest_unknown_age_s
        return one._value.get(), other._value.get()

    await count()
    assert gauges() == (0, 0)
    first = await office.unknown("k-1")
    office.clock.advance(seconds=100)
    second = await office.unknown("k-2")
    office.clock.advance(seconds=20)
    await count()
    assert gauges() == (2, pytest.approx(120, abs=0.1))
    await office.resolve(first, "confirmed")
    await count()
    assert gauges() == (1, pytest.approx(20, abs=0.1))
    await office.resolve(second, "no-effect")
    await count()
    assert gauges() == (0, 0)


async def test_what_nobody_settles_becomes_unknown(capfdbinary: Any, open_office: Any) -> None:
    office: Office = await open_office()
    await office.in_flight("k-slow")
    office.clock.advance(seconds=SEAL_S - 0.5)
    await turn_of(office, "stranded")()
    assert await office.keys("?outcome=in-flight") == ["k-slow"]
    office.clock.advance(seconds=1)

    await turn_of(office, "stranded")()
    await asyncio.sleep(0)

    assert await office.keys("?outcome=unknown") == ["k-slow"]
    (line,) = lines(capfdbinary.readouterr().out, "effects-stranded")
    assert line["count"] == 1
    await office.land()
    assert await office.keys("?outcome=confirmed") == ["k-slow"]


async def test_the_gateway_runs_a_keeper_of_each_kind(office: Office) -> None:
    running = {task.get_name() for task in asyncio.all_tasks()}

    expected = ("heartbeat", "stranded", "unknowns", "retention", "policies", "principals", "spool")
    assert {f"keeper-{name}" for name in expected} <= running
