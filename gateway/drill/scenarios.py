"""All scenarios, in the order of the operator's guide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.demo.office import Lease
from gateway.drill import dying, losing, outages, starting
from gateway.drill.play import Play

SHORT: Final = Lease()
LONG: Final = Lease(ttl_ms=30_000, renew_ms=2_000, margin_ms=5_000)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. `looks`: the CRM's policy lets the gateway look for lost effects; `timeout`
    is how long it waits for an answer; `lease` is short where a lease is to expire, and long
    where none may, for a busy machine can keep a process off its renewals for seconds."""

    name: str
    says: str
    plays: Callable[[Play], Awaitable[None]]
    looks: bool = True
    timeout: str = "2s"
    lease: Lease = SHORT


_ALL: Final = (
    Scenario("two-acquire", "several replicas acquire at once", starting.two_acquire, lease=LONG),
    Scenario(
        "coordinator-lost",
        "the leader loses the coordinator, but reaches the CRM",
        losing.coordinator_lost,
    ),
    Scenario(
        "leader-paused", "the leader stands still for longer than its lease", losing.leader_paused
    ),
    Scenario("local-clock-wrong", "the leader's clock is wrong", losing.local_clock_wrong),
    Scenario("late-renewal", "renewals are answered after the deadline", losing.late_renewal),
    Scenario(
        "dies-before-manifest",
        "the leader dies before it creates the manifest",
        dying.dies_before_manifest,
    ),
    Scenario(
        "dies-before-handing-out",
        "the leader creates the manifest, and dies before it distributes",
        dying.dies_before_handing_out,
    ),
    Scenario("answer-lost", "commands complete, and their answers are lost", dying.answer_lost),
    Scenario(
        "takeover-mid-items",
        "a new leader takes over with items in progress",
        dying.takeover_mid_items,
        timeout="12s",
    ),
    Scenario(
        "old-leader-returns", "the old leader returns with its old term", losing.old_leader_returns
    ),
    Scenario("gateway-down", "the coordination service is away", outages.gateway_down),
    Scenario("all-restart", "everything restarts", outages.all_restart, looks=False),
    Scenario(
        "old-and-new-version",
        "an old and a new version compete",
        starting.old_and_new_version,
        lease=LONG,
    ),
    Scenario(
        "release-fails", "the voluntary release fails during a deploy", starting.release_fails
    ),
    Scenario("no-candidate", "no candidate remains eligible", starting.no_candidate),
)
SCENARIOS: Final[Mapping[str, Scenario]] = {scenario.name: scenario for scenario in _ALL}
