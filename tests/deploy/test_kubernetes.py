"""The Kubernetes manifests: what must hold in them, and that their policies are policies."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from gateway.settings import DatabaseUrl, load_settings
from gateway.wire.policy_file import load_policies
from gateway.wire.policy_reload import Reloader
from tests.deploy.balanced import ROOT
from tests.deploy.longest import longest_timeout_s

FOLDER = ROOT / "docs" / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
OURS = {"app.kubernetes.io/name": "fencegate"}


def loaded() -> list[dict[str, Any]]:
    every: list[dict[str, Any]] = []
    for file in FILES:
        every += YAML(typ="safe").load_all(file.read_text("utf-8"))
    return every


MANIFESTS = {(one["kind"], one.get("metadata", {}).get("name")): one for one in loaded()}
SET = MANIFESTS["StatefulSet", "fencegate"]["spec"]
POD = SET["template"]["spec"]
CONTAINER = POD["containers"][0]
POLICIES = MANIFESTS["ConfigMap", "fencegate-policies"]["data"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The policies as a node mounts them: links into a folder that is replaced as a whole."""
    put(tmp_path, "..2026_12_01_06_00_00.1", POLICIES)
    for name in POLICIES:
        (tmp_path / name).symlink_to(Path("..data") / name)
    return tmp_path


def put(folder: Path, name: str, policies: dict[str, str]) -> None:
    (folder / name).mkdir()
    for file, text in policies.items():
        (folder / name / file).write_text(text, "utf-8")
    (folder / "..data_tmp").symlink_to(name)
    (folder / "..data_tmp").rename(folder / "..data")


def test_the_policies_in_the_config_map_pass_their_check(folder: Path):
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "policy", "check", str(folder)],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert load_policies(folder, env={}, resolve_secrets=False).warnings == ()


def test_a_change_of_the_config_map_is_seen_by_a_running_gateway(folder: Path, tmp_path: Path):
    secret = tmp_path / "crm-token"
    secret.write_text("a-token-of-the-crm")
    texts = {
        name: text.replace("/etc/fencegate/credentials/crm-token", str(secret))
        for name, text in POLICIES.items()
    }
    put(folder, "..2026_12_01_06_01_00.2", texts)
    reloader = Reloader(folder, {})
    unchanged = reloader.check()

    changed = {name: text.replace("at_once: 16", "at_once: 17") for name, text in texts.items()}
    put(folder, "..2026_12_01_06_02_00.3", changed)
    found = reloader.check()

    assert unchanged is None
    assert found is not None
    assert found.destinations["crm"].limits.at_once == 17


def test_a_gateway_starts_with_the_settings_that_it_is_given(monkeypatch: pytest.MonkeyPatch):
    for variable in CONTAINER["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])

    settings = load_settings()

    assert isinstance(settings.ledger_place(), DatabaseUrl)
    mounted = {one["mountPath"] for one in CONTAINER["volumeMounts"] if one["name"] != "data"}
    files = (
        settings.principals, settings.tls_cert, settings.tls_key, settings.ledger_password_file,
    )  # fmt: skip
    assert {str(file.parent) for file in files if file} | {str(settings.policies)} <= mounted
    for kept in (settings.witness_path(), settings.spool_path()):
        assert kept.is_relative_to("/data")


def test_the_witness_lies_on_a_disk_of_the_gateways_own_that_outlives_it():
    claims = [claim["metadata"]["name"] for claim in SET["volumeClaimTemplates"]]

    assert {"name": "data", "mountPath": "/data"} in CONTAINER["volumeMounts"]
    assert claims == ["data"]
    assert SET["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }


def test_ready_and_alive_are_asked_for_apart():
    asked = {
        name: CONTAINER[name]["httpGet"]["path"]
        for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }

    assert asked == {
        "startupProbe": "/livez",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    assert {CONTAINER[name]["httpGet"]["scheme"] for name in asked} == {"HTTPS"}


def test_a_gateway_is_killed_no_sooner_than_its_drain_is_over(folder: Path):
    before_s = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    drain_s = longest_timeout_s(folder) + 5

    assert POD["terminationGracePeriodSeconds"] >= before_s + drain_s + 15


def test_it_runs_as_the_user_of_the_image_and_may_do_nothing_else():
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    user = re.search(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
    assert user is not None
    pod, own = POD["securityContext"], CONTAINER["securityContext"]

    assert (pod["runAsUser"], pod["runAsGroup"], pod["fsGroup"]) == (10001, 10001, 10001)
    assert (int(user[1]), int(user[2])) == (pod["runAsUser"], pod["runAsGroup"])
    assert pod["runAsNonRoot"] is True
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["automountServiceAccountToken"] is False
    assert POD["enableServiceLinks"] is False  # FENCEGATE_PORT=tcp://… and the like


def test_secrets_are_readable_by_the_gateways_group_alone():
    modes = {
        volume["name"]: volume["secret"]["defaultMode"]
        for volume in POD["volumes"]
        if "secret" in volume
    }

    assert modes == dict.fromkeys(("principals", "credentials", "ledger", "tls"), 0o440)


def test_every_secret_that_is_mounted_has_a_template_without_a_value():
    mounted = {one["secret"]["secretName"] for one in POD["volumes"] if "secret" in one}
    templates = {name: one for (kind, name), one in MANIFESTS.items() if kind == "Secret"}

    assert mounted == set(templates)
    values = [value for one in templates.values() for value in one["stringData"].values()]
    assert {value.strip() for value in values} == {"REPLACE-ME", "principals: [] # nobody"}


def test_one_gateway_at_a_time_is_taken_away_and_they_stand_apart():
    budget = MANIFESTS["PodDisruptionBudget", "fencegate"]["spec"]
    apart = {
        one["topologyKey"]: one["whenUnsatisfiable"] for one in POD["topologySpreadConstraints"]
    }

    assert SET["replicas"] >= 2
    assert SET["updateStrategy"] == {"type": "RollingUpdate"}
    assert budget["maxUnavailable"] == 1
    assert apart["kubernetes.io/hostname"] == "DoNotSchedule"


def test_everything_selects_the_gateways_by_the_label_that_they_have():
    selectors = [
        SET["selector"]["matchLabels"],
        SET["template"]["metadata"]["labels"],
        MANIFESTS["Service", "fencegate"]["spec"]["selector"],
        MANIFESTS["Service", "fencegate-each"]["spec"]["selector"],
        MANIFESTS["PodDisruptionBudget", "fencegate"]["spec"]["selector"]["matchLabels"],
        MANIFESTS["NetworkPolicy", "fencegate"]["spec"]["podSelector"]["matchLabels"],
        *(one["labelSelector"]["matchLabels"] for one in POD["topologySpreadConstraints"]),
    ]

    assert selectors == [OURS] * len(selectors)
    assert SET["serviceName"] == "fencegate-each"


def test_workers_reach_gateways_and_names_alone():
    policy = MANIFESTS["NetworkPolicy", "through-the-fence"]["spec"]
    port = CONTAINER["ports"][0]["containerPort"]
    to_gateways, to_names = policy["egress"]

    assert policy["policyTypes"] == ["Egress"]
    assert to_gateways["to"][0]["podSelector"]["matchLabels"] == OURS
    assert to_gateways["ports"] == [{"port": port}]
    assert {one["port"] for one in to_names["ports"]} == {53}


def test_the_kustomization_names_files_that_are_there_and_leaves_secrets_out():
    named = MANIFESTS["Kustomization", None]["resources"]

    left = {file.name for file in FILES} - set(named)
    assert left == {"kustomization.yaml", "secrets.example.yaml", "workers-network.yaml"}
    assert [name for name in named if not (FOLDER / name).is_file()] == []


def test_the_version_is_this_one():
    from gateway import __version__

    (image,) = MANIFESTS["Kustomization", None]["images"]
    assert (image["name"], image["newTag"]) == (CONTAINER["image"], __version__)
