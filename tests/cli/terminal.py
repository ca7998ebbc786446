"""The command line as a person meets it: in this process for speed, or as one of its own."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from gateway.cli.main import main
from gateway.demo.processes import clean_environment

PATIENCE_S = 30.0


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def said(self) -> str:
        """The one message on the standard error of a command that failed as foreseen."""
        assert self.out == ""
        assert "Traceback" not in self.err
        assert self.err.startswith("fencegate: "), self.err
        assert self.err.count("fencegate: ") == 1
        return self.err


def call(*words: object, **environment: str) -> Ended:
    """Run a command in this process, through the program's own front door."""
    out, err = io.StringIO(), io.StringIO()
    arguments = ["fencegate", *map(str, words)]
    with (
        mock.patch.dict(os.environ, {**clean_environment(), **environment}, clear=True),
        mock.patch.object(sys, "argv", arguments),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def run(*words: object, folder: Path | None = None, **environment: str) -> Ended:
    """Run a command as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *map(str, words)],
        cwd=folder,
        env={**clean_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


async def run_beside(*words: object, **environment: str) -> Ended:
    """As `run`, while a gateway runs on this event loop."""
    return await asyncio.to_thread(run, *words, **environment)
