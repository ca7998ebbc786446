"""Hearing other gateways: what is announced, what is made up for, and a line that is only quiet."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Collection

import pytest

from gateway.core.ids import Scope
from gateway.store import hearing
from gateway.store.hearing import PAYLOAD_MAX_BYTES, Hearing, announcement
from gateway.store.postgres import Where
from tests.postgres_server import Server

CHANNEL = "fencegate_test"
REPORT = Scope("report", "")


class Ear:
    """Takes down what is heard."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[list[Scope] | None] = asyncio.Queue()

    def __call__(self, scopes: Collection[Scope] | None) -> None:
        self.heard.put_nowait(None if scopes is None else list(scopes))

    async def next(self, timeout_s: float = 10) -> list[Scope] | None:
        return await asyncio.wait_for(self.heard.get(), timeout_s)

    async def until(self, wanted: list[Scope]) -> None:
        while await self.next() != wanted:
            pass


def listeners(server: Server, database: str) -> list[int]:
    """Return the processes that serve who listens."""
    found = server.psql(
        f"SELECT pid FROM pg_stat_activity WHERE application_name = '{hearing.LISTENER}' "
        f"AND datname = '{database}'"
    )
    return [int(pid) for pid in found.split()]


def say(server: Server, database: str, said: str) -> None:
    server.psql(f"SELECT pg_notify('{CHANNEL}', $said${said}$said$)", database)


def test_too_many_scopes_are_any_and_fit():
    many = [Scope("report", f"unit-{n}") for n in range(500)]

    assert announcement("me", many[:2]) == '["me",[["report","unit-0"],["report","unit-1"]]]'
    assert announcement("me", many) == announcement("me", None) == '["me",null]'
    assert len(announcement("me", many[:200]).encode()) <= PAYLOAD_MAX_BYTES


async def test_others_are_heard_and_oneself_is_not(postgres_server: Server):
    database = postgres_server.database()
    ear = Ear()
    hears = Hearing(Where(postgres_server.url(database)), CHANNEL, "me", ear)
    await hears.began.wait()
    try:
        for said in (announcement("me", [REPORT]), "of another version", '["you",null]'):
            await asyncio.to_thread(say, postgres_server, database, said)
        await asyncio.to_thread(say, postgres_server, database, announcement("you", [REPORT]))

        assert [await ear.next() for _ in range(3)] == [None, None, [REPORT]]
        assert ear.heard.empty()
    finally:
        await hears.close()


async def test_a_line_whose_other_end_says_nothing_any_more_is_replaced(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
):
    """As when a machine or a network vanishes without a farewell."""
    monkeypatch.setattr(hearing, "PROOF_S", 0.2)
    database = postgres_server.database()
    ear = Ear()
    hears = Hearing(Where(postgres_server.url(database)), CHANNEL, "me", ear)
    await hears.began.wait()
    (stopped,) = await asyncio.to_thread(listeners, postgres_server, database)
    os.kill(stopped, signal.SIGSTOP)
    try:
        assert await ear.next() is None  # whoever waits looks for itself
        while len(await asyncio.to_thread(listeners, postgres_server, database)) < 2:
            pass
        await asyncio.to_thread(say, postgres_server, database, announcement("you", [REPORT]))
        await ear.until([REPORT])
    finally:
        os.kill(stopped, signal.SIGCONT)
        await hears.close()


async def test_while_nothing_can_be_heard_everybody_is_woken_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(hearing, "DEAF_S", 0.05)

    class Nowhere(Where):
        async def connect(self, settings: dict[str, str]):
            await asyncio.Event().wait()  # a connection that is neither made nor refused

    ear = Ear()
    hears = Hearing(Nowhere("postgresql:///nowhere"), CHANNEL, "me", ear)
    hears._deaf.set()
    try:
        assert [await ear.next() for _ in range(3)] == [None, None, None]
    finally:
        await hears.close()
