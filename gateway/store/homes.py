"""Where a ledger lives: how it is made ready, connected to, watched and let go."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.clock import Clock
from gateway.core.errors import StoreError
from gateway.store.clock import DatabaseClock, StoreClock, Timekeeper
from gateway.store.connect import FileLock, SameFile, open_database, private_folder
from gateway.store.database import Conflict, Database
from gateway.store.hearing import Heard, Hearing
from gateway.store.locks import place
from gateway.store.migrate import Migrated, migrate
from gateway.store.risks import LOOK, Risk, judge
from gateway.store.sources import FileSource, Source

if TYPE_CHECKING:
    from gateway.store.postgres import Adopted, PostgresDatabase, Where

MIGRATE_TURNS: Final = 5


class Home(Protocol):
    """What a ledger needs of the place that it lives in."""

    name: str
    alone: bool
    """Whether a process that opens it has it to itself."""
    newer: tuple[int, ...]  # migrations of a newer version that this one works beside

    def prepare(self, clock: Clock) -> Timekeeper:
        """Take hold of it, bring the schema up to date, and set the store's clock going."""

    def connect(self) -> Database:
        """Return a connection for the writer; on its thread."""

    def check(self) -> None:
        """Raise OSError if what is about to be committed would be lost."""

    async def source(self) -> Source: ...

    def hear(self, instance: str, heard: Heard) -> Hearing | None:
        """Begin to listen for what other gateways write; None where there can be none."""

    async def risks(self, source: Source) -> list[Risk]:
        """Return how what was committed here may be lost. Raises StoreError."""

    def release(self) -> None: ...


class FileHome:
    """A file that this process has to itself."""

    alone = True

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.newer: tuple[int, ...] = ()
        self._path = path
        self._lock = FileLock(path)
        self._same: SameFile | None = None

    def prepare(self, clock: Clock) -> Timekeeper:
        private_folder(self._path)
        self._lock.take()
        try:
            db = open_database(self._path)
            try:
                self._path.chmod(0o600)
                self.newer = migrate(db, clock.wall_ms()).newer
                found = own_time(db, clock)
            finally:
                db.close()
            self._same = SameFile(self._path, self._lock)
        except (sqlite3.Error, OSError) as error:
            self.release()
            raise StoreError(f"the ledger at {self._path} cannot be opened: {error}") from error
        except BaseException:
            self.release()
            raise
        return found

    def connect(self) -> Database:
        return open_database(self._path)

    def check(self) -> None:
        if self._same is not None:
            self._same.check()

    async def source(self) -> Source:
        return await FileSource.open(self._path)

    def hear(self, instance: str, heard: Heard) -> Hearing | None:
        return None

    async def risks(self, source: Source) -> list[Risk]:
        return []

    def release(self) -> None:
        self._lock.release()


class PostgresHome:
    """A database that several gateways share. `own_clock` says that the clock that is handed in
    is the store's, instead of the server's; all gateways have to agree on it."""

    alone = False

    def __init__(self, where: Where, *, own_clock: bool = False) -> None:
        self.name = "the database"
        self.newer: tuple[int, ...] = ()
        self._where = where
        self._own_clock = own_clock
        self._adopted: Adopted | None = None
        self._schema = "public"

    def prepare(self, clock: Clock) -> Timekeeper:
        db = self.connect()
        try:
            # One gateway at a time: the others wait here, and find it done.
            db.execute("SELECT pg_advisory_lock(?)", (place(("migration",)),))
            self.newer = _migrated(db, clock.wall_ms()).newer
            self._schema = db.schema
            if self._own_clock:
                return own_time(db, clock)
            _new_ledger(db, 0, "", 0)
            found = DatabaseClock(clock, db)
            _note_downtime(db, found)
            return found
        finally:
            db.close()

    def connect(self) -> PostgresDatabase:
        from gateway.store.postgres import Adopted, PostgresDatabase

        if self._adopted is None:
            self._adopted = Adopted()
        return PostgresDatabase(self._where, self._adopted)

    def check(self) -> None:
        """The server answers for what it commits."""

    async def source(self) -> Source:
        from gateway.store.postgres_source import PostgresSource

        return await PostgresSource.open(self._where)

    def hear(self, instance: str, heard: Heard) -> Hearing | None:
        from gateway.store.postgres import channel_of

        return Hearing(self._where, channel_of(self._schema), instance, heard)

    async def risks(self, source: Source) -> list[Risk]:
        return judge((await source.rows(LOOK, ()))[0])

    def release(self) -> None:
        return None


def _migrated(db: PostgresDatabase, now_ms: int) -> Migrated:
    """Bring a schema that others may be using up to date."""
    turn = 1
    while True:
        try:
            return migrate(db, now_ms, before=db.before_step)
        except Conflict:  # others were at the same rows; what is done already is found done
            if turn == MIGRATE_TURNS:
                raise
            turn += 1


def home_at(place: Path | str, password: str | None = None, *, unsafe: bool = False) -> Home:
    """Return the home of a ledger in a file, or at a PostgreSQL URL; `unsafe` takes one that may
    lose what it commits. Raises StoreError without the driver."""
    if isinstance(place, Path):
        return FileHome(place)
    try:
        from gateway.store.postgres import Where
    except ImportError as error:
        raise StoreError(
            f"a ledger on PostgreSQL needs {error.name}, which is not installed; install "
            "fencegate[postgres]"
        ) from error
    return PostgresHome(Where(place, password, unsafe))


def own_time(db: Database, clock: Clock) -> StoreClock:
    """Return the store's clock on this process's own, from where the ledger stood."""
    row: Any = db.execute("SELECT now_ms, boot_id, boot_ms FROM store_clock").fetchone()
    if row is None:
        found = StoreClock.fresh(clock)
        _new_ledger(db, found.now_ms(), found.boot_id, found.boot_ms())
        return found
    found = StoreClock(clock, now_ms=row[0], boot_id=row[1], boot_ms=row[2])
    _note_downtime(db, found)
    return found


def _new_ledger(db: Database, now_ms: int, boot_id: str, boot_ms: int) -> None:
    """Give a ledger its time and its identity, if it has none."""
    db.execute(
        "INSERT INTO store_clock (id, now_ms, boot_id, boot_ms) VALUES (1, ?, ?, ?) "
        "ON CONFLICT (id) DO NOTHING",
        (now_ms, boot_id, boot_ms),
    )
    db.execute(
        "INSERT INTO ledger_meta (name, value) VALUES ('identity', ?) "
        "ON CONFLICT (name) DO NOTHING",
        (secrets.token_hex(16),),
    )


def _note_downtime(db: Database, clock: Timekeeper) -> None:
    if clock.downtime_unknown:
        db.execute(
            "INSERT INTO ledger_meta (name, value) VALUES ('downtime_unknown_at_ms', ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (str(clock.now_ms()),),
        )
