"""Backups: a consistent copy of a ledger that may be in use."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from gateway.core.errors import StoreError
from gateway.store.connect import read_only_uri


def back_up(path: Path, target: Path) -> int:
    """Copy the ledger at `path` to `target` and check the copy; return how many effects it has.

    A restored copy is older than what was sent since: keys used after the backup look fresh
    in it. Raises StoreError if the copy cannot be made.
    """
    if target.exists():
        raise StoreError(f"{target} is there already; name a new file")
    waiting = target.with_name(target.name + ".part")
    try:
        source = sqlite3.connect(read_only_uri(path), uri=True)
    except sqlite3.Error as error:
        raise StoreError(f"the ledger at {path} cannot be read: {error}") from error
    ours = False
    try:
        os.close(os.open(waiting, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        ours = True  # from here on; another backup's part is not for us to remove
        copy = sqlite3.connect(waiting)
        try:
            source.backup(copy)
            verdict = copy.execute("PRAGMA integrity_check").fetchone()[0]
            if verdict != "ok":
                raise StoreError(f"the copy of {path} is damaged: {verdict}")
            (effects,) = copy.execute("SELECT count(*) FROM effect").fetchone()
        finally:
            copy.close()
        waiting.replace(target)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"the ledger at {path} cannot be copied: {error}") from error
    finally:
        source.close()
        if ours:
            waiting.unlink(missing_ok=True)
    return int(effects)
