"""The compose files: by the schema of compose files, and what a fleet must have."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from gateway.core.measures import parse_duration_ms
from gateway.settings import DatabaseUrl, load_settings
from tests.deploy.balanced import CONFIG, ROOT
from tests.deploy.longest import longest_timeout_s

FILES = [ROOT / "compose.yaml", ROOT / "compose.fleet.yaml"]
GATEWAYS = ("gateway-1", "gateway-2")


def checked(*files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec",
         *map(str, files)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def fleet() -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(FILES[1].read_text("utf-8"))
    return found


def test_the_files_are_what_the_schema_of_compose_files_says():
    done = checked(*FILES)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_word_that_compose_does_not_know_is_noticed(tmp_path: Path):
    broken = tmp_path / "compose.yaml"
    broken.write_text(FILES[0].read_text("utf-8").replace("stop_grace_period", "stop_grace"))

    assert checked(broken).returncode == 1


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_gateway_starts_with_the_settings_that_it_is_given(
    fleet: dict[str, Any], monkeypatch: pytest.MonkeyPatch, name: str
):
    for variable, value in fleet["services"][name]["environment"].items():
        monkeypatch.setenv(variable, value)

    settings = load_settings()

    assert isinstance(settings.ledger_place(), DatabaseUrl)
    assert str(settings.ledger_password_file) == "/run/secrets/ledger-password"
    assert settings.witness_path().is_relative_to("/data")
    assert settings.spool_path().is_relative_to("/data")


def test_each_gateway_has_a_disk_of_its_own_apart_from_the_ledger(fleet: dict[str, Any]):
    disks = {
        name: [volume for volume in fleet["services"][name]["volumes"] if volume[0] != "."]
        for name in (*GATEWAYS, "postgres")
    }

    assert disks == {
        "gateway-1": ["gateway-1:/data"],
        "gateway-2": ["gateway-2:/data"],
        "postgres": ["ledger:/var/lib/postgresql/data"],
    }
    assert set(fleet["volumes"]) == {"gateway-1", "gateway-2", "ledger"}


def test_all_gateways_have_the_same_policies_and_principals(fleet: dict[str, Any]):
    first, second = (fleet["services"][name]["volumes"][1:] for name in GATEWAYS)

    assert first == second


def test_no_password_stands_in_the_file(fleet: dict[str, Any]):
    text = FILES[1].read_text("utf-8")

    assert re.findall(r"postgresql://[^@\s]*:[^@\s]*@", text) == []
    assert "POSTGRES_PASSWORD:" not in text
    assert fleet["services"]["postgres"]["secrets"] == ["ledger-password"]


def test_the_database_keeps_what_it_commits(fleet: dict[str, Any]):
    words = fleet["services"]["postgres"]["command"]

    for setting in ("synchronous_commit=on", "fsync=on", "full_page_writes=on"):
        assert words[words.index(setting) - 1] == "-c"


def test_a_gateway_is_stopped_no_sooner_than_its_drain_is_over(fleet: dict[str, Any]):
    drain_s = longest_timeout_s(ROOT / "policies") + 5
    single = YAML(typ="safe").load(FILES[0].read_text("utf-8"))["services"]["gateway"]

    for service in (*(fleet["services"][name] for name in GATEWAYS), single):
        assert parse_duration_ms(service["stop_grace_period"]) / 1000 >= drain_s + 15


def test_health_of_a_container_is_to_be_alive_and_not_to_be_ready(fleet: dict[str, Any]):
    for name in GATEWAYS:
        said = " ".join(fleet["services"][name]["healthcheck"]["test"])

        assert "/livez" in said
        assert "/readyz" not in said


def test_only_the_load_balancer_can_be_reached_and_on_this_machine_alone(fleet: dict[str, Any]):
    ports = {name: one["ports"] for name, one in fleet["services"].items() if "ports" in one}

    assert ports == {"haproxy": ["127.0.0.1:8080:8080"]}
    assert all(fleet["networks"][name]["internal"] for name in ("ledger", "crm"))
    assert fleet["services"]["haproxy"]["networks"] == ["callers"]


def test_the_load_balancer_finds_the_gateways_by_their_names(fleet: dict[str, Any]):
    named = set(re.findall(r"^ *server (\S+) \1:8080$", CONFIG.read_text("utf-8"), re.MULTILINE))
    places = {
        alias: fleet["services"][name]["network_mode"]
        for name in GATEWAYS
        for alias in fleet["services"][door_of(fleet, name)]["networks"]["callers"]["aliases"]
    }

    assert named == set(GATEWAYS)
    assert places == {"gateway-1": "service:door-1", "gateway-2": "service:door-2"}


def door_of(fleet: dict[str, Any], gateway: str) -> str:
    return str(fleet["services"][gateway]["network_mode"]).removeprefix("service:")


def test_every_part_of_ours_is_confined(fleet: dict[str, Any]):
    for name, service in fleet["services"].items():
        if name != "postgres":
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_what_is_mounted_is_in_the_repository_or_made_by_hand(fleet: dict[str, Any]):
    mounted = {
        volume.split(":")[0]
        for service in fleet["services"].values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    }

    made = {"./var/principals"}  # its first lines say how
    assert made < mounted
    assert [path for path in mounted - made if not (ROOT / path).exists()] == []
