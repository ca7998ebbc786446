"""The drill as a user runs it. All fifteen with FENCEGATE_PROVE=1, a few of them otherwise."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from gateway.demo.processes import clean_environment
from gateway.drill.play import Play
from gateway.drill.run import play
from gateway.drill.scenarios import SCENARIOS, Scenario

COMMAND = [sys.executable, "-m", "gateway", "drill"]
LONGEST_S = 300
PROVED = os.environ.get("FENCEGATE_PROVE") == "1"
QUICK = ["two-acquire", "late-renewal", "dies-before-handing-out"]
FIGURES = {
    "units", "effects", "terms", "without_leader_s", "resumed", "transitions", "exceptions",
    "can_be_reconciled", "duplicates",
}  # fmt: skip


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=LONGEST_S,
        check=False,
    )


def test_every_scenario_goes_as_promised_with_its_figures(tmp_path):
    names = [] if PROVED else QUICK

    done = run(*names, "--json", "--folder", str(tmp_path))

    told = json.loads(done.stdout)
    assert [one["faults"] for one in told["scenarios"] if one["faults"]] == []
    assert (done.returncode, told["ok"]) == (0, True)
    assert [one["name"] for one in told["scenarios"]] == (names or list(SCENARIOS))
    figures = {one["name"]: one["figures"] for one in told["scenarios"]}
    assert all(figure.keys() >= FIGURES for figure in figures.values())
    assert {figure["duplicates"] for figure in figures.values()} == {0}
    assert {figure["units"] for figure in figures.values()} == {1}
    assert figures["two-acquire"]["terms"] == [1]
    assert figures["late-renewal"]["resumed"] == ["opportunity-2@1"]
    assert figures["dies-before-handing-out"]["transitions"] == ["1 expired", "2"]
    assert told["seconds"] < LONGEST_S


def test_the_list_names_fifteen_scenarios():
    done = run("--list")

    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 15)
    assert [line.split()[0] for line in lines] == list(SCENARIOS)


def test_a_scenario_that_there_is_not_is_wrong_usage():
    done = run("two-aquire")

    assert done.returncode == 2
    assert "there is no scenario 'two-aquire'; see fencegate drill --list" in done.stderr


async def past_the_gateway(stage: Play) -> None:
    """A write with the CRM's own token: what nothing but the gateway should have."""
    await stage.leads("ana")
    await stage.published()
    body = b'{"external_id": "opportunity-1", "text": "once more"}'
    await stage.write_directly(stage.office.crm_token, "/notes", body)
    stage.expect("the weather", "rain", "sun")


async def test_a_drill_tells_what_is_not_as_promised(tmp_path):
    played = await play(Scenario("bad", "somebody goes round", past_the_gateway), tmp_path)

    assert played.figures is not None
    assert (played.figures.duplicates, played.figures.effects) == (1, 6)
    assert played.faults == [
        "the weather: 'rain', expected 'sun'",
        "the CRM counts 1 duplicates",
        "'POST /notes opportunity-1' is in the CRM 2 times, intended 1",
        "notes/note-6@1 went past the gateway",
    ]


def test_a_drill_leaves_nothing_behind_when_it_is_interrupted(tmp_path):
    drill = subprocess.Popen(
        [*COMMAND, "leader-paused"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**clean_environment(), "TMPDIR": str(tmp_path)},
    )
    parent = psutil.Process(drill.pid)
    while len(children := parent.children(recursive=True)) < 2:  # the CRM, and the gateway
        assert drill.poll() is None

    drill.send_signal(signal.SIGTERM)
    drill.communicate(timeout=60)

    assert drill.returncode == 130
    assert not any(child.is_running() for child in children)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))
def test_every_scenario_says_what_it_plays(scenario: Scenario):
    assert scenario.plays.__doc__
    assert scenario.says[0].islower()
