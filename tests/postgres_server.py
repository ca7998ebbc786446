"""A PostgreSQL server of the tests' own: started once, with what matters turned on."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.store.migrate import migrate
from gateway.store.postgres import PostgresDatabase, Where

_FOLDERS = ("/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt/postgresql")
_UNPRIVILEGED = ("postgres", "nobody")
_EMPTY = """
DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT relname, relkind, pg_relation_size(oid) > 100000 AS large FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')
        AND relname <> 'schema_migration'
    LOOP
        IF one.relkind = 'S' THEN EXECUTE format('ALTER SEQUENCE %I RESTART', one.relname);
        ELSIF one.large THEN EXECUTE format('TRUNCATE %I', one.relname);
        ELSE EXECUTE format('DELETE FROM %I', one.relname);
        END IF;
    END LOOP;
END $$
"""


def postgres_binaries() -> dict[str, str] | None:
    """Return where initdb and postgres are; None where there is no PostgreSQL at all."""
    found = {}
    for name in ("initdb", "postgres"):
        path = shutil.which(name)
        for folder in _FOLDERS:
            if path is None:
                path = next((str(one) for one in sorted(Path(folder).glob(f"*/bin/{name}"))), None)
        if path is not None:
            found[name] = path
    if not found and not any(Path(folder).exists() for folder in _FOLDERS):
        return None
    assert len(found) == 2, f"PostgreSQL is here only in part: {found}"
    return found


def _user() -> tuple[int, int] | None:
    """Return whom the server runs as: PostgreSQL refuses to be root."""
    if os.geteuid() != 0:
        return None
    for name in _UNPRIVILEGED:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise AssertionError("PostgreSQL refuses to run as root, and there is nobody else")


@dataclass
class Server:
    """A running server, reached by its socket alone."""

    folder: Path
    binaries: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    born: int = 0
    options: tuple[str, ...] = ()
    _ledger: str = ""
    _db: PostgresDatabase | None = None
    _worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def url(self, database: str) -> str:
        return f"postgresql://fencegate@/{database}?host={self.folder}"

    def run(self, *words: str) -> subprocess.Popen[bytes]:
        user = _user()
        who = {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}
        log = (self.folder / "log").open("ab")
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
        with log:
            return subprocess.Popen(
                words, stdout=log, stderr=log, cwd=self.folder, env=environment, **who
            )

    def own(self) -> None:
        """Give the folder to whom the server runs as."""
        if (user := _user()) is not None:
            os.chown(self.folder, *user)

    def make(self) -> None:
        self.own()
        made = self.run(
            self.binaries["initdb"], "-D", str(self.folder / "data"), "-U", "fencegate",
            "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        assert made.wait(60) == 0, self.said()

    def start(self) -> None:
        before = len(self.said())
        self.process = self.run(
            self.binaries["postgres"], "-D", str(self.folder / "data"), "-k", str(self.folder),
            "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=64MB",
            *self.options,
        )  # fmt: skip
        until = time.monotonic() + 30
        while "ready to accept" not in self.said()[before:]:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < until, self.said()
            time.sleep(0.02)

    def said(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop at once (SIGINT), or without any warning (SIGQUIT)."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def psql(self, text: str, database: str = "postgres") -> str:
        done = subprocess.run(
            ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-U", "fencegate",
             "-d", database, "-c", text],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def database(self) -> str:
        """Make an empty database; return its name."""
        self.born += 1
        name = f"ledger_{self.born}"
        self.psql(f"CREATE DATABASE {name}")
        return name

    def ledger(self) -> str:
        """Return the name of the one database that has the ledger's schema, emptied: a database
        of its own for every test would be 300 files of its own."""
        return self._worker.submit(self._emptied).result()

    def _emptied(self) -> str:
        if self._db is None:
            self._ledger = self.database()
            self._db = PostgresDatabase(Where(self.url(self._ledger)))
            migrate(self._db, 1_700_000_000_000)
        self._db.execute("DROP FUNCTION IF EXISTS swallow() CASCADE")
        self._db.execute(_EMPTY)
        return self._ledger

    def close(self) -> None:
        if self._db is not None:
            self._worker.submit(self._db.close).result()
        self._worker.shutdown()
        self.stop(signal.SIGQUIT)  # nothing of it is needed any more


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL on this machine: neither on PATH nor in /usr/lib")
    folder = Path(tempfile.mkdtemp(prefix="fg-pg-"))  # short: a socket's path has 107 bytes
    server = Server(folder, binaries)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
