"""Hearing what other gateways on the same ledger have written.

Each transaction that journals something announces it by NOTIFY, so that it is heard exactly when
it is committed. An announcement carries no news, only whose; who hears it reads. While nothing
can be heard, everybody who waits is woken once a second instead: then they look.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from gateway.core.errors import StoreError
from gateway.core.ids import Scope

if TYPE_CHECKING:
    from gateway.store.postgres import Where

PAYLOAD_MAX_BYTES: Final = 7500  # PostgreSQL takes less than 8000
LISTENER: Final = "fencegate listener"
DEAF_S: Final = 1.0
"""How often whoever waits is woken while nothing can be heard; also between two tries to."""
PROOF_S: Final = 2.0
"""How often the connection is asked whether it lives. A listener sends nothing by itself, so one
whose other end has vanished would be silent for ever, and look well."""

Heard: TypeAlias = Callable[[Collection[Scope] | None], None]
"""Called with the scopes that have changed; with None for any."""


def announcement(instance: str, scopes: Collection[Scope] | None) -> str:
    """Return what is announced. Too many scopes are any."""
    said = orjson.dumps([instance, None if scopes is None else [list(scope) for scope in scopes]])
    if len(said) > PAYLOAD_MAX_BYTES:
        said = orjson.dumps([instance, None])
    return said.decode()


class Hearing:
    """Listens on a connection of its own, and opens it again when it breaks."""

    def __init__(self, where: Where, channel: str, instance: str, heard: Heard) -> None:
        self._where = where
        self._channel = channel
        self._instance = instance
        self._heard = heard
        self.began = asyncio.Event()  # from here on nothing is missed without being made up for
        self._deaf = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._listen(), name="hearing"),
            loop.create_task(self._make_up(), name="hearing-fallback"),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(StoreError):  # the writer meets it too, and says so
                await self._session()
            self._deaf.set()
            self.began.set()
            await asyncio.sleep(DEAF_S)

    async def _make_up(self) -> None:
        """Wake everybody again and again while nothing can be heard, however long a try takes."""
        while True:
            await self._deaf.wait()
            self._heard(None)
            await asyncio.sleep(DEAF_S)

    async def _session(self) -> None:
        """Listen until the connection ends. Raises StoreError where there is none."""
        from gateway.store.postgres import FAILURES, SESSION, as_database_error

        connection = await self._where.connect(SESSION | {"application_name": LISTENER})
        over = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: over.set())
            await connection.add_listener(self._channel, self._take)
            if self.began.is_set():
                self._heard(None)  # what was announced before is not heard
            self._deaf.clear()
            self.began.set()
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), PROOF_S)
                    return
                await connection.execute("SELECT 1", timeout=PROOF_S)
        except FAILURES as error:
            raise as_database_error(error) from error
        finally:
            connection.terminate()

    def _take(self, _connection: Any, _sender: int, _channel: str, payload: Any) -> None:
        try:
            instance, scopes = orjson.loads(payload)
            changed = None if scopes is None else [Scope(*scope) for scope in scopes]
        except (ValueError, TypeError):  # of another version: something has changed
            instance, changed = "", None
        if instance != self._instance:
            self._heard(changed)
