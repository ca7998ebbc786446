"""Migrations: numbered, forward-only, checksummed.

One whose first line begins with `-- compatible` only adds: the version before it goes on reading
and writing as if it were not there. It may be applied under gateways of that version while they
serve, and one of them may start on it. Any other needs the ledger to itself.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

from gateway.core.errors import StoreError
from gateway.store.database import Database

_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql\Z")
_COMPATIBLE: Final = "-- compatible"

_TABLE: Final = {
    "sqlite": """
CREATE TABLE IF NOT EXISTS schema_migration (
    number        INTEGER PRIMARY KEY,
    name          TEXT NOT NULL,
    sha256        TEXT NOT NULL,
    applied_at_ms INTEGER NOT NULL,
    compatible    INTEGER NOT NULL DEFAULT 0
) STRICT
""",
    "postgres": """
CREATE TABLE IF NOT EXISTS schema_migration (
    number        bigint PRIMARY KEY,
    name          text NOT NULL,
    sha256        text NOT NULL,
    applied_at_ms bigint NOT NULL,
    compatible    bigint NOT NULL DEFAULT 0
)
""",
}
_HAS_COLUMN: Final = {
    "sqlite": "SELECT 1 FROM pragma_table_info('schema_migration') WHERE name = 'compatible'",
    "postgres": "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('schema_migration') "
    "AND attname = 'compatible'",
}
_ADD_COLUMN: Final = {
    "sqlite": "ALTER TABLE schema_migration ADD COLUMN compatible INTEGER NOT NULL DEFAULT 0",
    "postgres": "ALTER TABLE schema_migration ADD COLUMN compatible bigint NOT NULL DEFAULT 0",
}
_FOLDER: Final = {"sqlite": "sql", "postgres": "sql/postgres"}


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    text: str

    @property
    def compatible(self) -> bool:
        """Whether the version before this step works beside it."""
        return self.text.startswith(_COMPATIBLE)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def shipped(store: str = "sqlite") -> list[Migration]:
    """Return the migrations of a kind of store that come with this version, in order."""
    found: list[Migration] = []
    for file in resources.files("gateway.store").joinpath(_FOLDER[store]).iterdir():
        name = _NAME.match(file.name)
        if name is not None:
            found.append(Migration(int(name[1]), name[2], file.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.number)


@dataclass(frozen=True, slots=True)
class Migrated:
    """How many steps were applied, and the compatible ones of newer versions that were there."""

    applied: int
    newer: tuple[int, ...] = ()


def migrate(
    db: Database,
    now_ms: int,
    steps: list[Migration] | None = None,
    before: Callable[[Migration], None] | None = None,
) -> Migrated:
    """Bring the schema up to date.

    `before` runs before each step that is applied to a ledger that was in use, in the step's
    transaction: others may be using it now. What it raises undoes the step.

    Raises StoreError for a ledger that a newer version has changed in a way that is not
    compatible, or one whose history differs from what is shipped: running on would be guessing.
    """
    store = db.dialect.name
    steps = shipped(store) if steps is None else steps
    db.execute(_TABLE[store])
    if db.execute(_HAS_COLUMN[store]).fetchone() is None:
        db.execute(_ADD_COLUMN[store])
    applied = {
        number: (sha256, bool(compatible))
        for number, sha256, compatible in db.execute(
            "SELECT number, sha256, compatible FROM schema_migration ORDER BY number"
        )
    }
    newer = _newer(applied, steps)
    used, count = bool(applied), 0
    for step in steps:
        if step.number in applied:
            sha256 = applied[step.number][0]
            if sha256 != step.sha256:
                raise StoreError(
                    f"migration {step.number} ({step.name}) was applied in another form "
                    f"({sha256[:12]}, shipped is {step.sha256[:12]}); "
                    "the ledger was not written by a released version"
                )
            continue
        _apply(db, step, now_ms, before if used else None)
        count += 1
    return Migrated(count, newer)


def _newer(applied: Mapping[int, tuple[str, bool]], steps: list[Migration]) -> tuple[int, ...]:
    """Return the steps that this version does not know. Raises StoreError if one is not
    compatible."""
    newer = sorted(set(applied) - {step.number for step in steps})
    breaking = [number for number in newer if not applied[number][1]]
    if breaking:
        raise StoreError(
            f"the ledger has migration {breaking[-1]}, which this version does not know; "
            "start the version that wrote it, or a newer one"
        )
    return tuple(newer)


def _apply(
    db: Database, step: Migration, now_ms: int, before: Callable[[Migration], None] | None
) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        if before is not None:
            before(step)
        for statement in _statements(step.text):
            db.execute(statement)
        db.execute(
            "INSERT INTO schema_migration (number, name, sha256, applied_at_ms, compatible) "
            "VALUES (?, ?, ?, ?, ?)",
            (step.number, step.name, step.sha256, now_ms, int(step.compatible)),
        )
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _statements(text: str) -> list[str]:
    """Split a script into statements; `executescript` would commit in between."""
    statements: list[str] = []
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    if pending.strip():  # a last one without its semicolon, or a remark
        statements.append(pending)
    return statements
