"""Two hundred candidates and one lease that expires; and candidates that may not lead."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import asdict
from typing import Any, Final

from gateway.demo.processes import Child, python
from tests.house import write_policies
from tests.scenarios.crowd import Crowd
from tests.scenarios.holding import Holder, leased
from tests.scenarios.stage import Stage, until

MANY: Final = 200
PROCESSES: Final = 2
QUIET_S: Final = 2.0
CALM_S: Final = 1.0
FEW: Final = 20
"""More requests to acquire than this, out of two hundred candidates, are a storm."""

VERSIONS: Final = '">=2026.10"'
HERD: Final = leased(
    "relatorio",
    ttl="5s",
    renew_every="1200ms",
    margin="800ms",
    more=f"eligible: {{versions: {VERSIONS}, preferred: chief}}\n",
)
CHOOSY: Final = leased(
    "relatorio",
    ttl="1s",
    renew_every="200ms",
    margin="100ms",
    more=f"eligible: {{versions: {VERSIONS}}}\n",
)


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def begin(stage: Stage, policy: str) -> None:
    write_policies(stage.policies, {"relatorio": policy})
    await stage.start_gateway()


def enlist(stage: Stage, process: str, names: list[str], version: str = "2026.10") -> Child:
    crowd = Crowd(f"http://127.0.0.1:{stage.port}", "relatorio", names, version)
    words = ("-m", "tests.scenarios.crowd", json.dumps(asdict(crowd)))
    return stage.children.start(process, python(*words))


def told_by(*crowds: Child) -> list[dict[str, Any]]:
    """Return what the processes told so far, in order of time."""
    lines = [
        json.loads(line)
        for crowd in crowds
        for line in crowd.log.read_text("utf-8").splitlines()
        if line.startswith("{") and line.endswith("}")
    ]
    return sorted(lines, key=lambda line: float(line["at_s"]))


def those(lines: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [line for line in lines if wanted.items() <= line.items()]


def within(lines: list[dict[str, Any]], from_s: float, to_s: float) -> list[dict[str, Any]]:
    return [line for line in lines if from_s <= line["at_s"] < to_s]


async def counted(stage: Stage, name: str) -> float:
    """Return a metric, over all of its labels."""
    text = (await stage.get("/metrics")).body.decode()
    return sum(float(n) for n in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


async def figures(stage: Stage) -> Counter[str]:
    names = {
        "turned away": "fencegate_lease_refusals_total",
        "transactions": "fencegate_ledger_batch_size_count",
        "operations": "fencegate_ledger_batch_size_sum",
    }
    return Counter({what: round(await counted(stage, name)) for what, name in names.items()})


async def candidates(stage: Stage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await stage.get("/v1/candidates/relatorio")).json["items"]
    return found


async def transitions(stage: Stage, kind: str) -> list[dict[str, Any]]:
    """Return the transitions of a kind; there are more than a page of them."""
    found: list[dict[str, Any]] = []
    after: str | None = "0"
    while after is not None:
        page = (await stage.get(f"/v1/transitions?function=relatorio&after={after}")).json
        found += [item for item in page["items"] if item["kind"] == kind]
        after = page["next"]
    return found


async def test_of_two_hundred_candidates_one_is_granted_the_lease_that_expired(stage):
    await begin(stage, HERD)
    chief = enlist(stage, "chief", ["chief"])
    await until(lambda: those(told_by(chief), what="leads"), "leadership of the preferred worker")
    names = [f"w-{n:03}" for n in range(MANY)]
    crowds = [enlist(stage, f"crowd-{n}", names[n::PROCESSES]) for n in range(PROCESSES)]
    await until(lambda: all_follow(crowds), f"{MANY} followers", timeout_s=30)

    killed_s = boot_s()
    chief.kill()  # which nobody notices before its lease expires
    before = await figures(stage)
    (leads,) = await until(lambda: those(told_by(*crowds), what="leads"), "leader")
    await until(lambda: boot_s() > leads["at_s"] + CALM_S, "calm after the election")
    after = await figures(stage)
    await until(lambda: all_counted(stage, 2), "both grants in the metrics")

    lines = told_by(*crowds)
    asked = those(lines, what="asked")
    first, second = await transitions(stage, "leader-acquired")
    after.subtract(before)
    quiet = within(asked, killed_s, killed_s + QUIET_S)
    election = within(asked, killed_s, leads["at_s"] + CALM_S)
    attempts = those(election, verb="acquire")
    show(quiet, election, attempts, leads, second, after)
    assert those(lines, what="leads") == [leads]
    assert (first["term"], second["term"], leads["term"]) == (1, 2, 2)
    assert second["holder"].startswith(leads["name"] + "#")
    assert 1 <= len(attempts) <= FEW
    assert after["turned away"] == len(attempts) - 1
    assert second["detail"]["free_ms"] < 5000


async def all_counted(stage: Stage, grants: int) -> bool:
    """Whether the keeper of the metrics has read the journal that far."""
    return await counted(stage, "fencegate_lease_acquisitions_total") == grants


async def all_follow(crowds: list[Child]) -> bool:
    """Whether everybody has asked once, was turned away, and waits now."""
    return len(those(told_by(*crowds), what="asked", verb="look")) >= 2 * MANY


def show(
    quiet: list[dict[str, Any]],
    election: list[dict[str, Any]],
    attempts: list[dict[str, Any]],
    leads: dict[str, Any],
    acquired: dict[str, Any],
    counts: Counter[str],
) -> None:
    verbs = Counter(line["verb"] for line in quiet)
    in_quiet = ", ".join(f"{n / QUIET_S:.0f} {verb}s" for verb, n in verbs.most_common())
    since_ms = [(line["at_s"] - attempts[0]["at_s"]) * 1000 for line in attempts]
    print(
        f"\n{MANY} candidates, in quiet time per second: {in_quiet}\n"
        f"one expiry: one grant, {len(attempts)} requests to acquire spread over "
        f"{since_ms[-1]:.0f} ms, {acquired['detail']['free_ms']} ms without a leader in the "
        f"store, told {(leads['at_s'] - attempts[-1]['at_s']) * 1000:.0f} ms after it asked\n"
        f"from the leader's death to calm: {counts['transactions']} transactions with "
        f"{counts['operations']} operations; the followers asked "
        f"{dict(Counter(line['verb'] for line in election))}"
    )


async def test_with_incompatible_candidates_only_nobody_leads_and_an_alarm_is_raised(stage):
    await begin(stage, CHOOSY)
    old = enlist(stage, "old", ["old-1", "old-2", "old-3"], version="2026.9")
    await until(lambda: all_reported(stage, 3), "candidates that may not lead")
    chief = Holder(stage, "chief#1")
    assert (await chief.ask("acquire", candidate={"version": "2026.10"})).status == 201

    (alarm,) = await until(lambda: transitions(stage, "no-eligible-candidate"), "alarm")
    line = await until(lambda: logged(stage, "no-eligible-candidate"), "line in the log")
    counter = await counted(stage, 'fencegate_transitions_total{kind="no-eligible-candidate"}')
    lease = await chief.look()
    new = enlist(stage, "new", ["new-1"])
    (leads,) = await until(lambda: those(told_by(new), what="leads"), "leader that may lead")

    assert those(told_by(old), what="leads") == []
    assert (lease["holder"], lease["term"], lease["reason"]) == (None, 1, "expired")
    assert alarm["responsible"] == "ops-comercial"
    assert len(alarm["detail"]["reasons"]) == 3
    assert all("'2026.9'" in reason for reason in alarm["detail"]["reasons"])
    assert alarm["next_action"]
    assert (line["level"], line["responsible"]) == ("error", "ops-comercial")
    assert counter == 1
    assert leads["term"] == 2


async def all_reported(stage: Stage, many: int) -> bool:
    return len(await candidates(stage)) == many


def logged(stage: Stage, msg: str) -> dict[str, Any] | None:
    assert stage.gateway is not None
    lines = [json.loads(line) for line in stage.gateway.tail(200).splitlines()]
    return next((line for line in lines if line["msg"] == msg), None)
