"""A gateway whose wall clock and boot are what a file says: run as a process of its own.

    FENCEGATE_…=… python -m tests.scenarios.clocked FILE

Settings come from the environment. All but the clock that is handed in is the real thing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import uvloop

from gateway import app
from gateway.clock import SystemClock
from gateway.settings import load_settings


class FileClock(SystemClock):
    """The machine's clocks, with the wall clock off by the file's `wall_s`.

    With `boot` the machine was started at the instant `since_s` of the real boot clock, under
    that name. The file is read at each question, so it can be stepped while the process runs.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def _said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._file.read_text("utf-8"))
        return said

    def wall_ms(self) -> int:
        return super().wall_ms() + round(self._said()["wall_s"] * 1000)

    def boot_s(self) -> float:
        return super().boot_s() - float(self._said()["since_s"])

    def boot_id(self) -> str:
        return str(self._said()["boot"] or super().boot_id())


def write_clock(file: Path, *, wall_s: float = 0, boot: str = "", since_s: float = 0) -> None:
    """Say what the clock shows from now on."""
    waiting = file.with_suffix(".new")
    waiting.write_text(json.dumps({"wall_s": wall_s, "boot": boot, "since_s": since_s}), "utf-8")
    waiting.replace(file)


if __name__ == "__main__":
    uvloop.run(app.serve(load_settings(), clock=FileClock(Path(sys.argv[1]))))
