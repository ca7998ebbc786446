"""Opening the ledger's file: one process owns it, every commit reaches the disk."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from gateway.core.errors import StoreError
from gateway.store.sqlite import SqliteDatabase

BUSY_MS: Final = 5000
PAGE_BYTES: Final = 8192
"""An effect with its request and answer is 2 KB: fewer pages to write than with SQLite's 4096."""
_ONE_OWNER: Final = (
    "one gateway process owns a SQLite ledger: stop that one, or give this one a ledger of its own"
)


def open_database(path: Path) -> SqliteDatabase:
    """Open the file for the writer: WAL, every commit synced, transactions begun by hand.

    Python's own transaction handling is off: it begins one only before a change, and a
    decision read outside the transaction admits what it must not.
    """
    db = sqlite3.connect(
        path,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_MS / 1000,
        cached_statements=1024,
        factory=SqliteDatabase,
    )
    db.execute(
        f"PRAGMA page_size = {PAGE_BYTES}"
    )  # of a file that is made now; else it says nothing
    mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(f"{path} cannot use a write-ahead log (its mode is {mode!r})")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA cache_size = -65536")
    db.execute("PRAGMA temp_store = MEMORY")
    return db


def read_only_uri(path: Path) -> str:
    """Return the URI that opens the file for reading, beside a gateway that writes it."""
    return f"{path.absolute().as_uri()}?mode=ro"


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


class SameFile:
    """Notices when the ledger is moved, deleted or replaced under a running gateway.

    The open file would go on taking writes that nobody ever finds again, and a second gateway
    could start on the path and know nothing of them.
    """

    def __init__(self, path: Path, lock: FileLock) -> None:
        self._path = path
        self._lock = lock
        self._seen = _identity(os.stat(path))

    def check(self) -> None:
        """Raise OSError if the ledger is no longer where it was opened."""
        if _identity(os.stat(self._path)) != self._seen:
            raise OSError(
                f"{self._path} is another file than the one that was opened; put it back, or "
                "restart the gateway"
            )
        self._lock.check()


class FileLock:
    """Holds the ledger for this process. The kernel lets go when the process dies, however
    it dies, so that no stale lock needs a person."""

    def __init__(self, path: Path, otherwise: str = _ONE_OWNER) -> None:
        """`otherwise` says what to do if another process has it."""
        self._otherwise = otherwise
        owned = path.resolve()  # one lock, whatever link leads to the file
        self._path = owned.with_name(owned.name + ".lock")
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Take the lock. Raises StoreError if another process has it, or none can be made."""
        try:
            file = self._path.open("a+", encoding="ascii")
        except OSError as error:
            raise _unusable(self._path, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            file.close()
            raise StoreError(
                f"{self._path.with_suffix('')} is in use by process {owner}; {self._otherwise}"
            ) from None
        self._file = file
        with suppress(OSError):  # a full disk: the number is only there for the message above
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()

    def check(self) -> None:
        """Raise OSError unless the file that is locked is still the one at its path."""
        if self._file is None or _identity(os.fstat(self._file.fileno())) != _identity(
            os.stat(self._path)
        ):
            raise OSError(f"{self._path} was moved or replaced")

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def private_folder(path: Path) -> None:
    """Make the ledger's folder if it is not there, for this user alone. Raises StoreError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unusable(path.parent, error) from error


def _unusable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror}; give this user a folder for the ledger that "
        "it may write in, or name another one with --ledger"
    )
