"""A small disk that can be filled and emptied while a gateway writes on it.

A tmpfs of its own where the test may mount one. Elsewhere the kernel's limit on the size of the
files that a process writes stands in, set from outside on the running gateway: every write fails.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.demo.processes import Child

SIZE = "16m"


@dataclass
class Disk:
    """Where the ledger and the spool lie."""

    folder: Path
    is_mounted: bool

    def fill(self, gateway: Child) -> None:
        """Leave not one byte free."""
        if not self.is_mounted:
            refuse_writes(gateway)
            return
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            for size in (1 << 20, 4096, 1):
                try:
                    while filler.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def free(self, gateway: Child) -> None:
        if self.is_mounted:
            (self.folder / "filler").unlink()
        else:
            allow_writes(gateway)

    def remount(self, how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.folder)], check=True)


def refuse_writes(gateway: Child) -> None:
    """Make every write of the process to any file fail, as a disk does that went read-only."""
    _, most = resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (0, most))


def allow_writes(gateway: Child) -> None:
    _, most = resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (most, most))


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """Mount a small tmpfs at `folder`; it is gone again in any case at the end."""
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    is_mounted = False
    if mount and umount and os.geteuid() == 0:
        command = [mount, "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(folder)]
        is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    print("disk: " + (f"tmpfs of {SIZE}" if is_mounted else "no mount here; a file size limit"))
    try:
        yield Disk(folder, is_mounted)
    finally:
        if is_mounted and umount:
            subprocess.run([umount, str(folder)], check=True)
