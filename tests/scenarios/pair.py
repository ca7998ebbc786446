"""A primary and its synchronous standby, both real: what an operator's tool promotes one of."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.postgres_server import Server, postgres_binaries

LOGGED = ("-c", "wal_level=replica", "-c", "max_wal_senders=4", "-c", "hot_standby=on")


class Pair:
    """Two servers; `url` names both, and the gateway takes the one that takes writes."""

    def __init__(self, primary: Server, standby: Server, database: str) -> None:
        self.primary = primary
        self.standby = standby
        self.url = (
            f"postgresql://fencegate@/{database}?host={primary.folder},{standby.folder}"
            "&target_session_attrs=read-write"
        )

    def set(self, name: str, value: str) -> None:
        """Set something on the primary, in force at once."""
        self.primary.psql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.primary.psql("SELECT pg_reload_conf()")

    def kill_primary(self) -> None:
        """kill -9: the server and whatever works for it."""
        assert self.primary.process is not None
        server = psutil.Process(self.primary.process.pid)
        for process in [server, *server.children(recursive=True)]:
            process.send_signal(signal.SIGKILL)
        self.primary.process.wait(30)
        self.primary.process = None

    def promote(self) -> None:
        """What Patroni or an operator does: from now on the standby takes writes."""
        assert self.standby.psql("SELECT pg_promote(true, 30)") == "t"


@contextmanager
def running_pair() -> Iterator[Pair]:
    binaries = postgres_binaries()
    assert binaries is not None
    copy = shutil.which("pg_basebackup") or str(
        Path(binaries["postgres"]).with_name("pg_basebackup")
    )
    servers: list[Server] = []
    with tempfile.TemporaryDirectory(prefix="fg", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        try:
            for each in ("a", "b"):
                folder = Path(name) / each
                folder.mkdir(mode=0o755)
                servers.append(Server(folder, binaries, options=LOGGED))
            primary, standby = servers
            primary.make()
            primary.start()
            database = primary.database()
            standby.own()
            copied = standby.run(
                copy, "-h", str(primary.folder), "-U", "fencegate", "-D",
                str(standby.folder / "data"), "-R", "-X", "stream", "-c", "fast", "--no-sync",
            )  # fmt: skip
            assert copied.wait(60) == 0, standby.said()
            standby.start()
            pair = Pair(primary, standby, database)
            pair.set("synchronous_standby_names", "*")
            primary.psql("CREATE TABLE copied_to_the_standby ()")  # returns once it is there
            yield pair
        finally:
            for server in servers:
                server.close()
