"""What people meet by name is in the documentation: problems, settings, metrics, commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gateway.cli.exits import Exit
from gateway.cli.main import app
from gateway.settings import Settings
from gateway.web.case_metrics import CaseMetrics
from gateway.web.lease_metrics import LeaseMetrics
from gateway.web.metrics import Metrics
from gateway.web.reconcile_metrics import ReconcileMetrics
from gateway.web.work_metrics import WorkMetrics
from gateway.wire.problem import PROBLEMS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES if page.is_file())
_NAME = r"[A-Za-z0-9_-]"


def named(word: str) -> bool:
    """Whether the documentation has `word`, and not only as a part of another one."""
    return re.search(rf"(?<!{_NAME}){re.escape(word)}(?!{_NAME})", TEXT) is not None


def metrics() -> list[str]:
    """Every metric by the name that a query has to use: counters end in _total."""
    registry = Metrics().registry
    LeaseMetrics(registry)
    WorkMetrics(registry, list)
    CaseMetrics(registry)
    ReconcileMetrics(registry)
    text = generate_latest(registry).decode()
    families = text_string_to_metric_families(text)
    ours = [family for family in families if family.name.startswith("fencegate_")]
    return sorted(f"{f.name}_total" if f.type == "counter" else f.name for f in ours)


def commands() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    for name in root.list_commands(None):
        below = getattr(root.get_command(None, name), "commands", None)
        yield from (
            (f"fencegate {name} {each}" for each in below) if below else [f"fencegate {name}"]
        )


def options() -> Iterator[str]:
    """The options of `serve` are the settings; what is only an option is here."""
    root: Any = typer.main.get_command(app)
    for parameter in root.get_command(None, "serve").params:
        yield from (option for option in parameter.opts if option != "--help")


def test_there_is_documentation():
    assert [page for page in PAGES if not page.is_file()] == []


@pytest.mark.parametrize("slug", sorted(PROBLEMS))
def test_every_problem_is_documented(slug: str):
    assert named(slug)


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_documented_with_its_variable(name: str):
    assert named(f"FENCEGATE_{name.upper()}")


@pytest.mark.parametrize("option", sorted(options()))
def test_every_option_of_serve_is_documented(option: str):
    assert named(option)


@pytest.mark.parametrize("name", metrics())
def test_every_metric_is_documented(name: str):
    assert named(name)


@pytest.mark.parametrize("command", sorted(commands()))
def test_every_command_is_documented(command: str):
    assert named(command)


@pytest.mark.parametrize("code", list(Exit))
def test_every_exit_code_is_documented(code: Exit):
    # a row of a table, or a list: `| 5 |`, `- 5`, "`5`"
    assert re.search(rf"^\s*[|*-] *`?{code.value}`?(?![0-9A-Za-z])", TEXT, re.MULTILINE)
