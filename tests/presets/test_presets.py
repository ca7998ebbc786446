"""All presets: they load, say when they were checked, and own up to what is only a guess."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.core.guarantee import guarantee
from gateway.core.policy import Does
from gateway.wire.policy_file import load_policies, policy_files
from tests.presets.vendor import PRESETS, SHAPES, TODAY, load_presets, shapes_of

ROOT = PRESETS.parents[1]
VENDORS = [
    "google-calendar", "hubspot", "postgrest", "salesforce", "slack", "stripe", "zendesk",
]  # fmt: skip
MARKS = {"O", "Q", "C", "any"}
GUESSED = {
    "salesforce": ["drop:", "_HttpMethod", 'matches: "Fence_Effect__c"'],
    "stripe": ["Idempotent-Replayed", "idempotency_key_in_use", "busy_when"],
    "zendesk": ["safe_update", "is a job", "busy_when"],
}
"""What nobody has confirmed, by the words that would rest on it."""
STALE_AFTER = timedelta(days=180)


def text_of(vendor: str) -> str:
    return (PRESETS / f"{vendor}.yaml").read_text("utf-8")


def unowned(text: str, words: list[str]) -> list[str]:
    """Return the lines with one of `words` that are not called a guess, in their own comment or
    in the block of comments that they stand in."""
    lines = text.splitlines()
    found = []
    for at, line in enumerate(lines):
        if not any(word in line for word in words):
            continue
        around = line
        if line.lstrip().startswith("#"):
            for step in (-1, 1):
                near = at + step
                while 0 <= near < len(lines) and lines[near].lstrip().startswith("#"):
                    around += lines[near]
                    near += step
        if "guess:" not in around.partition("#")[2]:
            found.append(line.strip())
    return found


def test_there_is_a_preset_a_test_and_a_set_of_shapes_for_each_vendor():
    tests = Path(__file__).parent

    assert [path.stem for path in policy_files(PRESETS)] == VENDORS
    assert sorted(path.stem for path in SHAPES.glob("*.json")) == VENDORS
    for vendor in VENDORS:
        assert (tests / f"test_{vendor.replace('-', '_')}.py").is_file()


def test_the_presets_load_without_a_word_of_complaint():
    loaded = load_presets()

    assert [str(one) for one in loaded.complaints] == []
    assert loaded.policies is not None
    assert sorted(loaded.policies.destinations) == VENDORS


def test_the_command_checks_them_without_any_secret():
    ran = subprocess.run(
        [sys.executable, "-m", "gateway", "policy", "check", "policies/presets"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "0 errors" in ran.stdout  # warnings come with the years: the facts grow old
    assert "in 7 files" in ran.stdout


def test_they_load_with_their_secrets_in_place(tmp_path: Path):
    env = {}
    for path in policy_files(PRESETS):
        text = path.read_text("utf-8")
        (tmp_path / path.name).write_text(text, "utf-8")
        env |= dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", text), "dummy")
        for name in re.findall(r"\$\{file:([^}]+)\}", text):
            (tmp_path / name).write_text("dummy", "utf-8")

    loaded = load_policies(tmp_path, env=env, today=TODAY)

    assert [str(one) for one in loaded.complaints] == []
    assert loaded.policies is not None
    for destination in loaded.policies.destinations.values():
        assert destination.login is not None
        assert destination.login.header.value == "Bearer dummy"
        assert destination.scheme == "https"


def test_a_gateway_that_loads_the_policy_folder_loads_none_of_them():
    loaded = load_policies(PRESETS.parent, env={}, today=TODAY)

    assert loaded.policies is not None
    assert set(loaded.policies.destinations).isdisjoint(VENDORS)


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_preset_says_when_its_facts_were_checked(vendor: str):
    policies = load_presets().policies
    assert policies is not None
    checked = policies.destinations[vendor].checked

    assert checked is not None
    assert str(TODAY - STALE_AFTER) < checked <= str(TODAY)
    assert shapes_of(vendor)["checked"] == checked


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_guess_is_called_one(vendor: str):
    assert unowned(text_of(vendor), GUESSED.get(vendor, [])) == []
    assert ("guess:" in text_of(vendor)) == (vendor in GUESSED)


@pytest.mark.parametrize(
    "planted",
    ["busy_when: {status: 409}", "busy_when: {status: 409} # sure", "# safe_update\nx: 1",
     "note: 'guess: busy_when'", "# guess: x\nbusy_when: {status: 409}"],
)  # fmt: skip
def test_a_planted_guess_is_found(planted: str):
    assert unowned(planted, ["busy_when", "safe_update"])


@pytest.mark.parametrize("vendor", VENDORS)
def test_no_recorded_answer_is_a_guess(vendor: str):
    answers = shapes_of(vendor)["answers"]

    assert [name for name, answer in answers.items() if answer["mark"] not in MARKS] == []
    assert json.dumps(answers).count('"status"') >= len(answers)


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_page_has_each_write_with_its_guard_and_its_guarantee(vendor: str):
    policies = load_presets().policies
    assert policies is not None
    destination = policies.destinations[vendor]
    page = (ROOT / "docs" / "presets.md").read_text("utf-8")

    assert destination.setup
    for route in destination.routes:
        if route.does is Does.WRITE:
            assert route.covers is not None
            row = rf"^\|.*\| {re.escape(route.name)} \|.*`{route.guard}`.*\| "
            row += rf"{re.escape(guarantee(route).strength)}\b"
            assert re.search(row, page, re.MULTILINE), f"{vendor}: {route.name}"
