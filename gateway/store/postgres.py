"""PostgreSQL as the ledger's database: the same operations, beside those of other gateways.

The writer's thread owns an event loop, which runs only while a statement is under way, so that
synchronous operations drive an asynchronous connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import asyncpg

from gateway.core.errors import StoreError
from gateway.core.ids import Scope
from gateway.store.database import Conflict, ConnectionBroken, DatabaseError
from gateway.store.dialect import PostgresDialect, translate
from gateway.store.found import Found
from gateway.store.hearing import announcement
from gateway.store.locks import JOURNAL, columns, locks_for, place
from gateway.store.migrate import Migration, shipped
from gateway.store.upkeep import DEAD_AFTER_MS
from gateway.store.wanted import Wanted

CONNECT_S: Final = 5.0
STATEMENT_S: Final = 20.0
SCOPES_MAX: Final = 10_000
_AGAIN: Final = ("40001", "40P01", "23505")  # serialization, deadlock, a key that is there already
_LOST: Final = ("08", "57P", "25P03", "25P04", "55P03", "57014")
T = TypeVar("T")

SESSION: Final = {
    "application_name": "fencegate",
    "client_min_messages": "error",
    # A gateway that stands still inside a transaction holds others back no longer than this: its
    # session ends, and what it had not committed it has not sent either. Those who wait for it
    # have more patience.
    "idle_in_transaction_session_timeout": "3s",
    "lock_timeout": "5s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
    "jit": "off",
}
# Every statement of the writer finds its rows by an index, on the day of an empty table too,
# when the planner has no figures yet and its plans are made for the session.
_WRITER: Final = SESSION | {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}

_HOLD_PLACES: Final = (
    "SELECT count(CASE WHEN alone = 1 THEN pg_advisory_xact_lock(number) "
    "ELSE pg_advisory_xact_lock_shared(number) END) "
    "FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[])) AS p(number, alone)"
)
_HOLD_SCOPES: Final = (
    "SELECT s.function, s.unit, s.highest_term FROM scope s "
    "JOIN unnest(CAST(? AS text[]), CAST(? AS text[])) AS k(function, unit) "
    "ON s.function = k.function AND s.unit = k.unit ORDER BY s.function, s.unit FOR {} OF s"
)
_HOLD_LEASES: Final = (
    "SELECT l.version FROM lease l JOIN unnest(CAST(? AS text[]), CAST(? AS text[])) "
    "AS k(function, unit) ON l.function = k.function AND l.unit = k.unit "
    "ORDER BY l.function, l.unit FOR UPDATE OF l"
)
# The effects by id, by key, those with an open attempt at the same things, and all open ones of
# the scopes that may be handed over: whatever a batch may change.
_HOLD_EFFECTS: Final = (
    "SELECT e.id FROM effect e WHERE e.id IN (SELECT unnest(CAST(?1 AS text[])) "
    "UNION ALL SELECT f.id FROM unnest(CAST(?2 AS text[]), CAST(?3 AS text[]), "
    "CAST(?4 AS text[]), CAST(?5 AS text[])) AS k(destination, function, unit, key) "
    "JOIN effect f ON f.function = k.function AND f.unit = k.unit "
    "AND f.destination = k.destination AND f.key = k.key "
    "UNION ALL SELECT a.effect_id FROM unnest(CAST(?6 AS text[]), CAST(?7 AS text[])) "
    "AS t(destination, covers) JOIN attempt a ON a.open = 1 AND a.covers IN (t.covers, '*') "
    "AND a.destination = t.destination "
    "UNION ALL SELECT b.effect_id FROM unnest(CAST(?8 AS text[]), CAST(?9 AS text[])) "
    "AS s(function, unit) JOIN attempt b ON b.open = 1 AND b.function = s.function "
    "AND b.scope_unit = s.unit) ORDER BY e.id FOR UPDATE"
)
_COLUMNS: Final = (
    "SELECT CAST(c.relname AS text), CAST(a.attname AS text), format_type(a.atttypid, NULL) "
    "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 "
    "WHERE c.relkind = 'r' AND c.relnamespace = (SELECT oid FROM pg_namespace "
    "WHERE nspname = current_schema())"
)
_POLICIES: Final = "SELECT value FROM ledger_meta WHERE name = 'policies'"
_LINEAGE: Final = (
    "SELECT name, value FROM ledger_meta WHERE name IN ('policies', 'recoveries', 'restored')"
)
_PUT_POLICIES: Final = (
    "INSERT INTO ledger_meta (name, value) VALUES ('policies', ?) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_LIVING: Final = (
    "SELECT count(*) FROM instance WHERE stopped_at_ms IS NULL AND heartbeat_at_ms > "
    "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint) - ? + "
    "coalesce((SELECT offset_ms FROM store_clock), 0)"
)
# Whatever the database's default: under a snapshot that is older than the lock, a decision is made
# on what stood there before a takeover.
_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
_IN_ORDER: Final = ("INSERT INTO transition ", "INSERT INTO alert ")


@dataclass(frozen=True, slots=True)
class Where:
    """A PostgreSQL ledger: its URL, and the password if that is kept apart from it."""

    dsn: str
    password: str | None = field(default=None, repr=False)
    unsafe: bool = False  # taken although commits do not reach the disk

    async def connect(self, settings: dict[str, str]) -> asyncpg.Connection[Any]:
        """Connect to the server that takes writes. Raises DatabaseError."""
        try:
            connection = await asyncpg.connect(
                self.dsn,
                timeout=CONNECT_S,
                command_timeout=STATEMENT_S,
                server_settings=settings,
                target_session_attrs="read-write",
                **({"password": self.password} if self.password else {}),
            )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            raise ConnectionBroken(f"no connection to the database: {_said(error)}") from error
        await prepare_session(connection)
        return connection


async def prepare_session(connection: asyncpg.Connection[Any]) -> None:
    """Let sums come as whole numbers: that is all that is summed here."""
    await connection.set_type_codec(
        "numeric", schema="pg_catalog", encoder=str, decoder=int, format="text"
    )


def channel_of(schema: str) -> str:
    """Return where gateways on the ledger in `schema` announce what they write."""
    return f"fencegate_{schema}"[:63]


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def as_database_error(error: BaseException) -> DatabaseError | ValueError:
    """Return what an error of the driver means to the ledger. A value that cannot be kept is the
    fault of who sent it, and no failure of the database."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        if state in _AGAIN:
            return Conflict(_said(error))
        if state.startswith(_LOST):
            return ConnectionBroken(_said(error))
        if state.startswith("22"):
            return ValueError(f"the ledger cannot hold a value: {_said(error)}")
        return DatabaseError(_said(error))
    if isinstance(error, asyncpg.DataError):
        return ValueError(f"the ledger cannot hold a value: {_said(error)}")
    return ConnectionBroken(_said(error))


FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


_OVERTAKEN: Final = (
    "a newer version has changed the ledger (migration {}) in a way that this one cannot work "
    "beside; start the newer version in its place"
)


def _schema_and_version(text: str | None) -> tuple[int, int]:
    """Return the last migration that was not compatible, 0 if there was none since the ledger was
    made, and the version of what the policies decide."""
    schema, _, version = (text or "0").rpartition(":")
    return int(schema or 0), int(version)


@dataclass(slots=True)
class Adopted:
    """Which version of what policies decide this gateway runs. It outlives a connection."""

    version: str | None = None
    recoveries: int = 0


_NOTHING: Final = Found([], "")


class PostgresDatabase:
    """A connection of the writer's. Made and used on one thread."""

    alone = False

    def __init__(self, where: Where, adopted: Adopted | None = None) -> None:
        self._adopted = adopted or Adopted()
        self._loop = asyncio.new_event_loop()
        self._statements: dict[str, Any] = {}
        self._highest: dict[Scope, int] = {}
        self._held: set[Scope] = set()
        self._in_journal = False
        try:
            self._connection = self._drive(where.connect(_WRITER))
        except BaseException:
            self._loop.close()
            raise
        try:
            self._check(where.unsafe)
            types = {(row[0], row[1]): row[2] for row in self.execute(_COLUMNS)}
            (schema,) = self.execute("SELECT CAST(current_schema() AS text)").fetchone() or ("",)
        except BaseException:
            self.close()
            raise
        self.dialect = PostgresDialect(types)
        self.schema = str(schema)
        self._salt = self.schema.encode()[:64]
        self._journal = place(JOURNAL, self._salt)

    def _check(self, unsafe: bool) -> None:
        """Raise StoreError if a commit may be lost after it was answered."""
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            value = (self.execute(f"SHOW {name}").fetchone() or ("",))[0]
            if value == "off" and not unsafe:
                raise StoreError(
                    f"the database runs with {name} = off: what was committed, a term included, "
                    f"may be gone after a crash and be given out twice; turn {name} on (or accept "
                    "that with --ledger-unsafe)"
                )

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.is_closed() or self._connection.is_in_transaction())

    def execute(self, text: str, parameters: Sequence[Any] = (), /) -> Found:
        if text in ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"):
            return self._turn(text)
        if not self._in_journal and text.startswith(_IN_ORDER):
            self._in_journal = True
            self.execute("SELECT pg_advisory_xact_lock(?)", (self._journal,))
        return self._drive(self._ask(text, parameters))

    def executemany(self, text: str, rows: Iterable[Sequence[Any]], /) -> None:
        every = [tuple(row) for row in rows]
        if every:
            self._drive(self._connection.executemany(translate(text), every))

    async def _ask(self, text: str, parameters: Sequence[Any]) -> Found:
        statement = self._statements.get(text)
        if statement is None:
            statement = await self._connection.prepare(translate(text))
            self._statements[text] = statement
        found = await statement.fetch(*parameters)
        return Found([tuple(row) for row in found], statement.get_statusmsg())

    def _turn(self, text: str) -> Found:
        self._in_journal = False
        said = self._drive(self._connection.execute(_BEGIN if text == "BEGIN IMMEDIATE" else text))
        if said != text.removesuffix(" IMMEDIATE"):
            # A commit of a transaction that failed before is answered with ROLLBACK.
            raise DatabaseError(f"{text} was answered with {said}")
        return _NOTHING

    def _drive(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run_until_complete(work)
        except FAILURES as error:
            self._statements.clear()  # one may be of a schema that has changed since
            raise as_database_error(error) from error

    def announce(self, instance: str, scopes: Collection[Scope] | None, /) -> None:
        if self._in_journal:
            said = announcement(instance, scopes)
            self.execute("SELECT pg_notify(?, ?)", (channel_of(self.schema), said))

    # -- locks

    def lock(self, wanted: Wanted, /) -> None:
        locks = locks_for(wanted, self._highest, self._salt)
        self._held = set(locks.exclusive)
        self.execute(
            _HOLD_PLACES,
            ([number for number, _ in locks.places], [int(alone) for _, alone in locks.places]),
        )
        exclusive = columns(locks.exclusive, 2)
        for scopes, strength in ((locks.exclusive, "UPDATE"), (locks.shared, "SHARE")):
            if scopes:
                held = self.execute(_HOLD_SCOPES.format(strength), columns(scopes, 2))
                self._see({Scope(row[0], row[1]): row[2] for row in held})
        if locks.leases:
            self.execute(_HOLD_LEASES, columns(locks.leases, 2))
        if wanted.ids or wanted.keys or wanted.things or locks.exclusive:
            self.execute(
                _HOLD_EFFECTS,
                (
                    sorted(wanted.ids),
                    *columns(wanted.keys, 4),
                    *columns(wanted.things, 2),
                    *exclusive,
                ),
            )
        if wanted.things or wanted.units or wanted.leases or wanted.grants:
            self._check_lineage()

    def alone_with(self, scope: Scope, /) -> None:
        if scope not in self._held:
            self._highest[scope] = -1  # whatever term comes, it is held alone next time
            raise Conflict(f"{scope} is only shared")

    def adopted(self, *, changed: bool) -> None:
        schema, version = _schema_and_version(self._policies())
        if schema > max(step.number for step in shipped(self.dialect.name)):
            raise StoreError(_OVERTAKEN.format(schema))
        self._put_policies(schema, version + changed)

    def _put_policies(self, schema: int, version: int) -> None:
        self._adopted.version = f"{schema}:{version}"
        self.execute(_PUT_POLICIES, (self._adopted.version,))

    def _policies(self) -> str | None:
        found = self.execute(_POLICIES).fetchone()
        return None if found is None else str(found[0])

    def looked_at(self, recoveries: int, /) -> None:
        self._adopted.recoveries = recoveries

    def _check_lineage(self) -> None:
        """Raise StoreError if the ledger was found older than it was, or recovered since this
        gateway looked; or if another gateway has changed what decides identity: this one would
        look for effects under keys, and hold others back at things, that nobody else knows."""
        known = {str(name): str(value) for name, value in self.execute(_LINEAGE)}
        if "restored" in known:
            raise ConnectionBroken(known["restored"])
        if int(known.get("recoveries", "0")) != self._adopted.recoveries:
            raise ConnectionBroken("the ledger was recovered; this gateway has to look at it anew")
        ours = self._adopted.version
        if ours is not None and (in_force := known.get("policies")) != ours:
            schema, _ = _schema_and_version(in_force)
            if schema > _schema_and_version(ours)[0]:
                raise StoreError(_OVERTAKEN.format(schema))
            raise StoreError(
                f"another gateway has changed what the policies decide (version {in_force}, this "
                f"one runs {ours}); give this one the same policies and reload it"
            )

    def before_step(self, step: Migration) -> None:
        """Have the ledger to oneself while `step` is applied. Others go on right after it if it
        is compatible; else there may be none, and one that only stood still writes no more.

        Raises StoreError if there are others.
        """
        self.execute("SET LOCAL lock_timeout = '2s'")  # meanwhile everybody else waits, too
        self.lock(Wanted(alone=True))
        if step.compatible:
            return
        (living,) = self.execute(_LIVING, (DEAD_AFTER_MS,)).fetchone() or (0,)
        if living:
            raise StoreError(
                f"migration {step.number} ({step.name}) cannot be applied under gateways that "
                f"serve, and {living} do: stop them and start this one after that (one that was "
                f"killed counts as stopped {DEAD_AFTER_MS // 1000} s later)"
            )
        _, version = _schema_and_version(self._policies())
        self._put_policies(step.number, version + 1)

    def _see(self, highest: Mapping[Scope, int]) -> None:
        """Remember the scopes' highest terms, for the strength of the next lock."""
        if len(self._highest) > SCOPES_MAX:
            self._highest.clear()
        self._highest.update(highest)

    def close(self) -> None:
        """Close in order if that is quick; what is left of the connection is torn off."""
        if self._loop.is_closed():
            return
        try:
            self._loop.run_until_complete(self._connection.close(timeout=2))
        except FAILURES:
            self._connection.terminate()
        finally:
            self._loop.run_until_complete(asyncio.sleep(0))  # lets the transport go
            self._loop.close()
