"""Every scenario has its own processes, and leaves none behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.demo.processes import Children
from tests.scenarios.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Children(tmp_path) as children:
        made = Stage(tmp_path, children, disk=tmp_path / "var")
        yield made
        made.clear()
