"""The house stays tidy: sizes, names, words, and nothing of the workshop in the product."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GATEWAY = sorted((ROOT / "gateway").rglob("*.py"))
PYTHON = [
    *GATEWAY, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "loadtests").rglob("*.py")),
]  # fmt: skip

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

VAGUE_MODULES = {
    "utils",
    "util",
    "common",
    "helpers",
    "helper",
    "manager",
    "managers",
    "models",
    "misc",
}

GUARDED_ROOMS = {"store", "proxy", "outbound"}

# From the "not" column of the words; ordinary words that the standard library or a dependency
# makes us write (lock, session, role, status, event, job) are not here.
SYNONYMS = {
    "audit_log": "ledger",
    "campaign": "acquire",
    "dead_letter": "exception",
    "dedup": "idempotency key",
    "dedupe": "idempotency key",
    "deduplicate": "idempotency key",
    "epoch": "term",
    "failover": "handover",
    "fencing_token": "term",
    "generation": "term",
    "high_water_mark": "highest term",
    "janitor": "keeper",
    "job_type": "function",
    "leader_id": "holder",
    "lock_name": "scope",
    "mutex": "lease",
    "outbox": "ledger",
    "pending_row": "intent",
    "reaper": "keeper",
    "savepoint": "checkpoint",
    "side_effect": "effect",
    "watermark": "highest term",
    "workflow": "unit",
}

# in pieces, so that this file does not hold what it looks for
WORKSHOP = [
    "/wo" + "rk/main", "/wo" + "rk/shared", "/wo" + "rk/.", "/tm" + "p/w/", "/ro" + "ot/",
    "/op" + "t/py" + "pi", "pypi" + ".org", "python" + "hosted", "npm" + "js.",
    "deb.deb" + "ian.org", "--extra-" + "index-url", "--index" + "-url", "--find" + "-links",
]  # fmt: skip


def named(paths: list[Path]) -> list[object]:
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths]


def words_of(identifier: str) -> str:
    """Return snake_case and CamelCase as `_word_word_`."""
    return f"_{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', identifier).strip('_').lower()}_"


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name, node.lineno
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name, node.lineno


def synonyms_in(source: str) -> list[str]:
    return [
        f"line {line}: {name} (say {ours!r})"
        for name, line in identifiers(ast.parse(source))
        for theirs, ours in SYNONYMS.items()
        if f"_{theirs}_" in words_of(name)
    ]


def tracked() -> list[Path]:
    """Return the files that are, or are about to be, in the repository."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        listed = subprocess.run(
            [git, "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=True,
        )
        return [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    made = re.compile(r"(\A|/)(\.[a-z_]+|__pycache__|var|build|dist|\w+\.egg-info)/")
    return [path for path in ROOT.rglob("*") if not made.search(str(path.relative_to(ROOT)))]


@pytest.mark.parametrize("path", named(GATEWAY))
def test_every_module_says_what_it_is_for(path: Path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", named(PYTHON))
def test_files_and_functions_stay_small(path: Path):
    source = path.read_text()
    long = [
        f"{node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= MAX_FUNCTION_LINES
    ]

    assert long == []
    assert len(source.splitlines()) <= MAX_FILE_LINES


def test_no_module_has_a_name_that_says_nothing():
    vague = [path for path in PYTHON if VAGUE_MODULES & {path.stem, path.parent.name}]

    assert vague == []


@pytest.mark.parametrize("path", named(GATEWAY))
def test_the_code_uses_one_word_per_idea(path: Path):
    assert synonyms_in(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    ["epoch = 1", "class LeaseEpoch: ...", "def reaper(): ...", "x.leader_id", "f(dedupe_key=1)",
     "def f(generation): ...", "lambda old_watermark: 0", "class DeadLetterBox: ..."],
)  # fmt: skip
def test_a_planted_synonym_is_found(source: str):
    assert synonyms_in(source)


@pytest.mark.parametrize("source", ["term = 1", "regeneration = 1", "epochs_are_terms = 'epoch'"])
def test_other_words_are_left_alone(source: str):
    assert synonyms_in(source) == []


@pytest.mark.parametrize(
    "path",
    named([path for path in GATEWAY if path.relative_to(ROOT).parts[1] in GUARDED_ROOMS]),
)
def test_no_guard_on_an_effect_vanishes_under_optimisation(path: Path):
    # python -O takes every assert away; a guard raises InvariantError
    asserts = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert)
    ]

    assert asserts == []


def test_the_repository_names_no_registry_and_no_machine():
    found = []
    for path in tracked():
        try:
            text = path.read_text() if path.is_file() else ""
        except UnicodeDecodeError:  # not a text
            continue
        found += [f"{path.relative_to(ROOT)}: {word}" for word in WORKSHOP if word in text]

    assert found == []
