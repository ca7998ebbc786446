"""Policies that change under a running gateway: adopted whole, held back, or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

from tests.scenarios.caller import ask
from tests.scenarios.stage import DESTINATION, Stage, until

UNKNOWN_201 = 'guard: none, result: [{when: {status: 201}, is: unknown}], covers: "new/{effect}"'


async def in_force(stage: Stage) -> dict[str, Any]:
    """Return what /readyz says of the policies; they alone never make a gateway unready."""
    got = await stage.get("/readyz")
    assert got.status == 200, got
    report: dict[str, Any] = got.json["policies"]
    return report


async def until_policies(stage: Stage, what: str, **wanted: Any) -> dict[str, Any]:
    """Wait until the report is what is `wanted`: a value, or a test on one."""

    async def found() -> dict[str, Any] | None:
        report = await in_force(stage)
        fits = all(
            test(report[name]) if callable(test) else report[name] == test
            for name, test in wanted.items()
        )
        return report if fits else None

    report: dict[str, Any] = await until(found, what)
    return report


async def until_other_than(stage: Stage, digest: str) -> str:
    report = await until_policies(stage, "new digest", digest=lambda now: now != digest)
    return str(report["digest"])


async def metric(stage: Stage, name: str) -> float:
    lines = (await stage.get("/metrics")).body.decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))


def digests_of(stage: Stage, key: str) -> list[str]:
    """Return the policy under which each attempt of an effect was admitted."""
    found = stage.ask_ledger(
        "SELECT a.policy_digest FROM attempt a JOIN effect e ON e.id = a.effect_id "
        "WHERE e.key = ? ORDER BY a.n",
        key,
    )
    return [digest for (digest,) in found]


async def test_a_broken_file_changes_nothing_and_is_shown_until_it_is_mended(stage):
    await stage.start()
    good = await in_force(stage)

    stage.write_policies(text=DESTINATION.replace("routes:", "rutes:"))
    broken = await until_policies(stage, "rejected policies", rejected=bool)
    served = await stage.leader().create("k-1")
    ok_while_broken = await metric(stage, "fencegate_policy_last_reload_ok")
    stage.write_policies(text=DESTINATION + "# mended\n")
    digest = await until_other_than(stage, good["digest"])

    assert (good["rejected"], broken["digest"]) == ([], good["digest"])
    assert any("crm.yaml:7:" in line and "rutes" in line for line in broken["rejected"])
    assert served.status == 201
    assert ok_while_broken == 0
    assert await metric(stage, "fencegate_policy_last_reload_ok") == 1
    assert (await in_force(stage))["rejected"] == []
    assert digest != good["digest"]
    assert (await stage.leader().create("k-2")).status == 201


async def test_taking_all_files_away_keeps_what_was_in_force(stage):
    await stage.start()
    good = await in_force(stage)

    for path in stage.policies.iterdir():
        path.unlink()
    empty = await until_policies(stage, "rejected policies", rejected=bool)
    served = await stage.leader().create("k-1")
    stage.write_policies()
    back = await until_policies(stage, "policies back", rejected=[])

    assert empty["digest"] == good["digest"] == back["digest"]
    assert empty["destinations"] == ["crm"]
    assert served.status == 201
    assert await stage.received_keys() == ["k-1"]


async def test_taking_the_folder_away_keeps_what_was_in_force(stage):
    await stage.start()
    good = await in_force(stage)

    stage.policies.rename(stage.folder / "elsewhere")
    gone = await until_policies(stage, "rejected policies", rejected=bool)

    assert gone["digest"] == good["digest"]
    assert (await stage.leader().create("k-1")).status == 201


async def test_sighup_reloads_what_no_look_at_the_files_would_notice(stage):
    await stage.start()
    stage.write_policies(text=DESTINATION + "# a\n")
    path = stage.policies / "crm.yaml"
    before = await until_other_than(stage, (await in_force(stage))["digest"])
    was = path.stat()
    with path.open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"b")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

    stage.signal(signal.SIGHUP)

    assert await until_other_than(stage, before) != before
    assert (await stage.leader().create("k-1")).status == 201


async def test_an_effect_stays_with_the_policy_that_it_was_admitted_under(stage):
    await stage.start()
    sending = asyncio.ensure_future(stage.leader().create("k-1", X_Sandbox_Fault="hold:a"))
    await stage.until_held("a")
    rejected = await stage.leader().create("k-2", X_Sandbox_Fault="422")
    before = await in_force(stage)

    doubting = DESTINATION.replace('guard: none, covers: "new/{effect}"', UNKNOWN_201)
    assert doubting != DESTINATION
    stage.write_policies(text=doubting)
    await until_other_than(stage, before["digest"])
    await stage.release("a")
    old = await sending
    retried = await stage.leader().create("k-2")

    assert (old.status, old.headers["Fence-Outcome"]) == (201, "confirmed")
    assert (rejected.status, retried.problem) == (422, "outcome-unknown")
    first, second = digests_of(stage, "k-2")
    assert digests_of(stage, "k-1") == [first]
    assert first != second
    known = {digest for (digest,) in stage.ask_ledger("SELECT digest FROM policy")}
    assert {first, second} <= known


async def test_a_change_of_identity_waits_while_an_effect_is_unknown(stage):
    await stage.start(timeout="1s")
    lost = await stage.leader().create("k-1", X_Sandbox_Fault="close-after")
    before = await in_force(stage)

    stage.write_policies(timeout="1s", text=DESTINATION.replace("new/{effect}", "made/{effect}"))
    waiting = await until_policies(stage, "policies that wait", waiting=bool)
    served = await stage.leader().create("k-2")
    await resolved(stage, "k-1")
    digest = await until_other_than(stage, before["digest"])

    assert lost.problem == "outcome-unknown"
    assert waiting["digest"] == before["digest"]
    assert "crm" in waiting["waiting"][0]
    assert "resolve" in waiting["waiting"][0]
    assert served.status == 201
    assert digest != before["digest"]
    assert (await in_force(stage))["waiting"] == []
    assert (await stage.leader().create("k-3")).status == 201
    effects = await stage.effects()
    shown = [effects[key].covers.partition("/")[0] for key in ("k-1", "k-2", "k-3")]
    assert shown == ["new", "new", "made"]


async def resolved(stage: Stage, key: str) -> None:
    """Say, as an operator, that the effect happened."""
    effect = (await stage.effects())[key]
    word = {"as": "confirmed", "reason": "seen in the CRM", "version": effect.version}
    got = await ask(
        stage.port,
        "POST",
        f"/v1/effects/{effect.id}/resolve",
        headers={"Content-Type": "application/json"},
        body=json.dumps(word).encode(),
    )
    assert got.status == 200, got


async def test_a_change_of_identity_under_an_unknown_effect_stops_the_start_too(stage):
    await stage.start(timeout="1s")
    await stage.leader().create("k-1", X_Sandbox_Fault="close-after")
    await stage.terminate()
    stage.write_policies(timeout="1s", text=DESTINATION.replace("new/{effect}", "made/{effect}"))

    refused = stage.launch(name="refused")
    code = await asyncio.to_thread(refused.process.wait, 15)
    await stage.start_gateway("--force-policies")
    other = await stage.leader(8).create("k-2")

    assert code == 3
    assert "--force-policies" in refused.tail()
    assert "Traceback" not in refused.tail()
    assert (await stage.leader(8).create("k-1")).problem == "outcome-unknown"
    assert other.status == 201  # having waited for the seal of the older term's write
