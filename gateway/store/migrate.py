"""Migrations: numbered, forward-only, checksummed."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from dataclasses import dataclass
from importlib import resources
from typing import Final

from gateway.core.errors import StoreError
from gateway.store.database import Database

_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql\Z")

_TABLE: Final = {
    "sqlite": """
CREATE TABLE IF NOT EXISTS schema_migration (
    number        INTEGER PRIMARY KEY,
    name          TEXT NOT NULL,
    sha256        TEXT NOT NULL,
    applied_at_ms INTEGER NOT NULL
) STRICT
""",
    "postgres": """
CREATE TABLE IF NOT EXISTS schema_migration (
    number        bigint PRIMARY KEY,
    name          text NOT NULL,
    sha256        text NOT NULL,
    applied_at_ms bigint NOT NULL
)
""",
}
_FOLDER: Final = {"sqlite": "sql", "postgres": "sql/postgres"}


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    text: str

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


def migrate(db: Database, now_ms: int, steps: list[Migration] | None = None) -> int:
    """Bring the schema up to date; return how many steps were applied.

    Raises StoreError for a ledger of a newer version, or one whose history differs from what
    is shipped: running on would be guessing.
    """
    store = db.dialect.name
    steps = shipped(store) if steps is None else steps
    db.execute(_TABLE[store])
    rows = db.execute("SELECT number, name, sha256 FROM schema_migration ORDER BY number")
    applied = {number: (name, sha256) for number, name, sha256 in rows.fetchall()}
    known = {step.number for step in steps}
    newer = sorted(set(applied) - known)
    if newer:
        raise StoreError(
            f"the ledger has migration {newer[-1]}, which this version does not know; "
            "start the version that wrote it, or a newer one"
        )
    count = 0
    for step in steps:
        if step.number in applied:
            if applied[step.number][1] != step.sha256:
                raise StoreError(
                    f"migration {step.number} ({step.name}) was applied in another form "
                    f"({applied[step.number][1][:12]}, shipped is {step.sha256[:12]}); "
                    "the ledger was not written by a released version"
                )
            continue
        _apply(db, step, now_ms)
        count += 1
    return count


def _apply(db: Database, step: Migration, now_ms: int) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        for statement in _statements(step.text):
            db.execute(statement)
        db.execute(
            "INSERT INTO schema_migration (number, name, sha256, applied_at_ms) "
            "VALUES (?, ?, ?, ?)",
            (step.number, step.name, step.sha256, now_ms),
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
