"""The folder of one run: temporary unless somebody wants to keep it, and gone after a signal."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130


@contextmanager
def run_folder(
    prefix: str, *, keep: bool, folder: Path | None, quiet: bool = False
) -> Iterator[Path]:
    """Give the folder of one run. Ctrl-C and SIGTERM end the program with INTERRUPTED, once what
    was started is stopped."""
    kept = keep or folder is not None
    place = (folder or Path(tempfile.mkdtemp(prefix=prefix))).resolve()
    place.mkdir(parents=True, exist_ok=True)
    # SIGTERM would end Python at once and leave the children behind; Ctrl-C does not.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield place
    except KeyboardInterrupt:
        print("\ninterrupted; all processes are stopped", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
        if not kept:
            shutil.rmtree(place, ignore_errors=True)
        elif not quiet:
            print(f"policies, ledger, journal and logs are kept in {place}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
