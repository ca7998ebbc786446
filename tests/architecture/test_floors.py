"""Floors may not be broken: imports go downwards only, and each contract really watches."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECK = (
    "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHECK],
        cwd=folder,
        env=os.environ | {"COLUMNS": "200", "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def contracts() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [contract["name"] for contract in settings["tool"]["importlinter"]["contracts"]]


def test_every_import_goes_downwards():
    linted = lint(ROOT)

    assert linted.returncode == 0, linted.stdout + linted.stderr
    for name in contracts():
        assert f"{name} KEPT" in linted.stdout


def test_each_contract_catches_a_planted_import(tmp_path: Path):
    shutil.copytree(
        ROOT / "gateway", tmp_path / "gateway", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    planted = {
        "core/planted.py": "import asyncio\nimport gateway.store\n",
        "client/planted.py": "import pydantic\nimport gateway.clock\n",
        "web/planted.py": "import pydantic\nimport sqlite3\nimport gateway.app\n",
    }
    for file, source in planted.items():
        (tmp_path / "gateway" / file).write_text(source)

    linted = lint(tmp_path)

    assert linted.returncode != 0
    assert [name for name in contracts() if f"{name} BROKEN" not in linted.stdout] == []
